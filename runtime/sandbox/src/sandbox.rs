//! The sandbox: checks and compiles components, and holds what they run in.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::attempt::Version;
use super::cache::{ArtifactCache, artifact_key};
use super::code::{Code, MappedCode};
use super::compiler::Compiler;
use super::component::Component;
use super::error::{LoadError, SandboxError};
use super::guest_instance::IdleInstances;
use super::idle::IdleLimits;
use super::linkers::Linkers;
use super::loader::Loader;
use super::private_folder::{FolderLimits, PrivateFolder, WrittenFile};
use super::settings::SandboxSettings;
use super::validate::Shape;
use super::{engine, validate};

/// One engine, one pool of instances, one artifact cache. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Sandbox(Arc<Inner>);

struct Inner {
    compiler: Compiler,
    loader: Arc<Loader>,
}

impl Sandbox {
    /// Reserves address space for the pool and opens the artifact cache. Guests' requests over HTTP run on the tokio
    /// runtime that this is called on.
    ///
    /// # Errors
    /// The address space does not suffice, or the cache directory cannot be used or is not ours alone.
    pub fn new(settings: &SandboxSettings) -> Result<Self, SandboxError> {
        Self::with(settings, MappedCode::most())
    }

    /// The same, which maps the code of `mapped_max` components at once.
    pub(super) fn with(settings: &SandboxSettings, mapped_max: usize) -> Result<Self, SandboxError> {
        let compiler = Compiler::new(settings.compiler.clone());
        let linkers = Linkers::new(settings.concurrency)?;
        let cache = ArtifactCache::open(&settings.cache)?;
        let idle = Arc::new(IdleInstances::new(IdleLimits::of(engine::kept(settings.concurrency))));
        let loader = Arc::new(Loader::new(linkers, cache, idle, MappedCode::new(mapped_max)));
        Ok(Self(Arc::new(Inner { compiler, loader })))
    }

    /// Whether a file of so many bytes is worth reading.
    ///
    /// # Errors
    /// [`LoadError::TooLarge`]; so would [`Self::load`] say, but with the file in memory.
    pub fn check_size(&self, bytes: u64) -> Result<(), LoadError> {
        validate::check_size(bytes, self.0.compiler.component_bytes())
    }

    /// Makes a component of the bytes of a file: validates it, compiles it unless that was done before, and checks its
    /// imports and exports. Runs nothing of it; its code is mapped.
    ///
    /// Cancel-safe: dropping the future kills a compiler that is a child process; an artifact is kept whole or not at
    /// all. Needs a tokio runtime with I/O and time enabled.
    ///
    /// # Errors
    /// What is wrong with the file, in words for its author; or the compiler could not be run.
    pub async fn load(&self, wasm: &[u8]) -> Result<Component, LoadError> {
        let component = self.prepare(wasm).await?.keep().await;
        if component.code().await.is_ok() {
            return Ok(component);
        }
        // The artifact is damaged, and was removed: the component is compiled.
        Ok(self.prepare(wasm).await?.keep().await)
    }

    /// The same for a component that has to pass further checks: its artifact is not kept yet. The code of one that was compiled
    /// before is mapped when it first runs.
    ///
    /// # Errors
    /// As of [`Self::load`].
    pub async fn prepare(&self, wasm: &[u8]) -> Result<Prepared, LoadError> {
        let wasm: Arc<[u8]> = wasm.into();
        if let Some(found) = self.find(&wasm).await? {
            return Ok(found);
        }
        let artifact = self.compile(&wasm).await?;
        let (component, artifact) = self.blocking(move |inner| inner.admit(&wasm, artifact)).await?;
        Ok(Prepared { artifact: Some(artifact), ..self.prepared(component, true) })
    }

    /// The component of a file, if that was compiled before. Else the file is worth compiling.
    ///
    /// # Errors
    /// What is wrong with the file, in words for its author.
    pub async fn find(&self, wasm: &Arc<[u8]>) -> Result<Option<Prepared>, LoadError> {
        let file = Arc::clone(wasm);
        let found = self.blocking(move |inner| inner.find(&file)).await?;
        Ok(found.map(|(component, is_new)| self.prepared(component, is_new)))
    }

    fn prepared(&self, component: Component, is_new: bool) -> Prepared {
        self.0.loader.cache.note_use(component.artifact());
        let noted = (!is_new).then(|| component.passed_trials());
        Prepared { component, noted, artifact: None, sandbox: self.clone() }
    }

    async fn compile(&self, wasm: &Arc<[u8]>) -> Result<WrittenFile, LoadError> {
        let artifact = self.blocking(|inner| inner.loader.cache.begin()).await?;
        self.0.compiler.compile(wasm, artifact).await
    }

    /// Compiles a component that was compiled before, perhaps by another process, so that an incremental compiler knows its functions when
    /// the next version comes. Nothing else comes of it. Cancel-safe.
    pub async fn learn(&self, wasm: &Arc<[u8]>) {
        // What does not compile is reported where it is to be used.
        drop(self.compile(wasm).await);
    }

    /// A folder beside the artifacts, as private as they are.
    ///
    /// # Errors
    /// It cannot be made, or is not ours alone.
    pub fn private_folder(&self, name: &'static str, limits: FolderLimits) -> Result<PrivateFolder, SandboxError> {
        self.0.loader.cache.beside(name, limits)
    }

    /// How many instances wait for their next job, and the bytes of their memories.
    pub fn kept(&self) -> (u64, u64) {
        self.0.loader.idle.kept()
    }

    /// Components whose code is mapped. Each has its file open.
    pub fn mapped(&self) -> usize {
        self.0.loader.mapped.len()
    }

    /// Waits until the artifacts of some components are found to be gone or damaged, and returns their versions: they have to be prepared
    /// again. One waiter at a time. Cancel-safe.
    pub async fn lost(&self) -> Vec<Version> {
        self.0.loader.lost().await
    }

    /// Runs what takes long, or reads files, on a thread for such work.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, LoadError> + Send + 'static,
    ) -> Result<T, LoadError> {
        let inner = Arc::clone(&self.0);
        spawn_blocking(move || work(&inner)).await.map_err(LoadError::Interrupted)?
    }
}

/// A component that passed the sandbox's checks, and whose artifact goes with it unless it is kept.
#[derive(Debug)]
pub struct Prepared {
    component: Component,
    /// Whether the facts that are kept say that it was tried out; none if no facts are kept.
    noted: Option<bool>,
    /// None if it is in the cache already.
    artifact: Option<WrittenFile>,
    sandbox: Sandbox,
}

impl Prepared {
    /// The component, which can be run already.
    pub fn component(&self) -> &Component {
        &self.component
    }

    /// Keeps the artifact and what is known of the component, so that the same file need not be compiled and tested again. Its code is mapped
    /// again for its first job. If keeping fails, the log says so, and the component can be used all the same.
    pub async fn keep(self) -> Component {
        let Self { component, noted, artifact, sandbox } = self;
        if noted == Some(component.passed_trials()) {
            return component;
        }
        let kept = component.clone();
        let keep = move |inner: &Inner| {
            let (cache, key) = (&inner.loader.cache, kept.artifact());
            artifact.map_or(Ok(()), |artifact| cache.keep(key, artifact))?;
            cache.keep_facts(key, &kept.facts())?;
            kept.unmap();
            Ok(())
        };
        if let Err(error) = sandbox.blocking(keep).await {
            let error = format!("{:#}", anyhow::Error::from(error));
            tracing::warn!(version = %component.version(), error, "the component will be compiled again at the next start");
        }
        component
    }
}

impl Inner {
    /// The component of a file that was compiled before, and whether that is all that is known of it. An artifact that does not load (a
    /// damaged disk, a file from elsewhere) is ignored: it is replaced.
    fn find(&self, wasm: &[u8]) -> Result<Option<(Component, bool)>, LoadError> {
        let bytes_max = self.compiler.component_bytes();
        validate::check_size(wasm.len() as u64, bytes_max)?;
        let (cache, version) = (&self.loader.cache, Version::of(wasm));
        let key = artifact_key(self.loader.linkers.any_engine(), validate::kind(wasm)?, version);
        if let Some(facts) = cache.facts(&key) {
            return Ok(Some((Component::cached(version, key.into(), facts, &self.loader), false)));
        }
        let shape = validate::validate(wasm, bytes_max)?;
        let found = cache.check(&key).map_err(wasmtime::Error::from).and_then(|path| match path {
            Some(path) => {
                cache.map(self.loader.linkers.of(shape).engine(), &path).map(|compiled| Some((compiled, path)))
            }
            None => Ok(None),
        });
        match found {
            Ok(Some((compiled, path))) => Ok(Some((self.link(shape, version, key.into(), &compiled, &path)?, true))),
            Ok(None) => Ok(None),
            Err(error) => {
                let (path, error) = (cache.path(&key), format!("{error:#}"));
                tracing::warn!(path = %path.display(), error, "compiling again: an artifact does not load");
                Ok(None)
            }
        }
    }

    /// Makes a component of a file that was just compiled. Its code is mapped from the artifact: it costs memory only where it is touched.
    fn admit(&self, wasm: &[u8], artifact: WrittenFile) -> Result<(Component, WrittenFile), LoadError> {
        let shape = validate::validate(wasm, self.compiler.component_bytes())?;
        let version = Version::of(wasm);
        let key = artifact_key(self.loader.linkers.any_engine(), shape.kind, version);
        let unfit = |error: wasmtime::Error| LoadError::Unfit { problem: format!("{error:#}") };
        let compiled = self.loader.cache.map(self.loader.linkers.of(shape).engine(), artifact.path()).map_err(unfit)?;
        Ok((self.link(shape, version, key.into(), &compiled, artifact.path())?, artifact))
    }

    fn link(
        &self,
        shape: Shape,
        version: Version,
        key: Arc<str>,
        compiled: &wasmtime::component::Component,
        artifact: &Path,
    ) -> Result<Component, LoadError> {
        let Loader { linkers, idle, .. } = &*self.loader;
        let (code, facts) = Code::link(shape, version, compiled, linkers.of(shape), idle, Some(artifact))?;
        let component = Component::cached(version, key, facts, &self.loader);
        component.put_code(code);
        Ok(component)
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("cache", &self.0.loader.cache).finish_non_exhaustive()
    }
}
