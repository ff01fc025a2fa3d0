//! The sandbox: checks and compiles components, and holds what they run in.

use std::fmt;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use wasmtime::Engine;
use wasmtime::component::{self, Linker};

use super::attempt::Version;
use super::cache::{ArtifactCache, artifact_key};
use super::compiler::Compiler;
use super::component::Component;
use super::error::{LoadError, SandboxError};
use super::idle::IdleLimits;
use super::instance_pool::IdleInstances;
use super::outbound::Outbound;
use super::private_folder::{FolderLimits, PrivateFolder, WrittenFile};
use super::settings::SandboxSettings;
use super::state::State;
use super::validate::Shape;
use super::{engine, host, validate};

/// One engine, one pool of instances, one artifact cache. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Sandbox(Arc<Inner>);

struct Inner {
    engine: Engine,
    linker: Linker<State>,
    cache: ArtifactCache,
    compiler: Compiler,
    idle: Arc<IdleInstances>,
}

impl Sandbox {
    /// Reserves address space for the pool and opens the artifact cache. Guests' requests over HTTP run on the tokio
    /// runtime that this is called on.
    ///
    /// # Errors
    /// The address space does not suffice, or the cache directory cannot be used or is not ours alone.
    pub fn new(settings: &SandboxSettings) -> Result<Self, SandboxError> {
        let compiler = Compiler::new(settings.compiler.clone());
        let engine = engine::running(settings.concurrency)?;
        let linker = host::linker(&engine, &Outbound::new()).map_err(SandboxError::Link)?;
        let cache = ArtifactCache::open(&settings.cache)?;
        let idle = Arc::new(IdleInstances::new(IdleLimits::of(engine::kept(settings.concurrency))));
        Ok(Self(Arc::new(Inner { engine, linker, cache, compiler, idle })))
    }

    /// Whether a file of so many bytes is worth reading.
    ///
    /// # Errors
    /// [`LoadError::TooLarge`]; so would [`Self::load`] say, but with the file in memory.
    pub fn check_size(&self, bytes: u64) -> Result<(), LoadError> {
        validate::check_size(bytes, self.0.compiler.component_bytes())
    }

    /// Makes a component of the bytes of a file: validates it, compiles it unless that was done before, and checks its
    /// imports and exports. Runs nothing of it.
    ///
    /// Cancel-safe: dropping the future kills a compiler that is a child process; an artifact is kept whole or not at
    /// all. Needs a tokio runtime with I/O and time enabled.
    ///
    /// # Errors
    /// What is wrong with the file, in words for its author; or the compiler could not be run.
    pub async fn load(&self, wasm: &[u8]) -> Result<Component, LoadError> {
        Ok(self.prepare(wasm).await?.keep().await)
    }

    /// The same for a component that has to pass further checks: its artifact is not kept yet.
    ///
    /// # Errors
    /// As of [`Self::load`].
    pub async fn prepare(&self, wasm: &[u8]) -> Result<Prepared, LoadError> {
        let wasm: Arc<[u8]> = wasm.into();
        let file = Arc::clone(&wasm);
        let (shape, version, key, found) = self.blocking(move |inner| inner.find(&file)).await?;
        let (compiled, artifact) = match found {
            Some(component) => (component, None),
            None => {
                let artifact = self.compile(&wasm).await?;
                let (component, artifact) = self.blocking(move |inner| inner.load_new(artifact)).await?;
                (component, Some(artifact))
            }
        };
        self.0.cache.note_use(&key);
        let artifact = artifact.map(|file| Artifact { key: Arc::clone(&key), file });
        let component = Component::link(shape, version, key, &compiled, &self.0.linker, &self.0.idle)?;
        Ok(Prepared { component, artifact, sandbox: self.clone() })
    }

    async fn compile(&self, wasm: &Arc<[u8]>) -> Result<WrittenFile, LoadError> {
        let artifact = self.blocking(|inner| inner.cache.begin()).await?;
        self.0.compiler.compile(wasm, artifact).await
    }

    /// A folder beside the artifacts, as private as they are.
    ///
    /// # Errors
    /// It cannot be made, or is not ours alone.
    pub fn private_folder(&self, name: &'static str, limits: FolderLimits) -> Result<PrivateFolder, SandboxError> {
        self.0.cache.beside(name, limits)
    }

    /// How many instances wait for their next job, and the bytes of their memories.
    pub fn kept(&self) -> (u64, u64) {
        self.0.idle.kept()
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

/// A component that is loaded, and whose artifact goes with it unless it is kept.
#[derive(Debug)]
pub struct Prepared {
    component: Component,
    /// None if it is in the cache already.
    artifact: Option<Artifact>,
    sandbox: Sandbox,
}

#[derive(Debug)]
struct Artifact {
    key: Arc<str>,
    file: WrittenFile,
}

impl Prepared {
    /// The component, which can be run already.
    pub fn component(&self) -> &Component {
        &self.component
    }

    /// Keeps the artifact, so that the same file need not be compiled again. If that fails, the log says so, and the component can be used
    /// all the same.
    pub async fn keep(self) -> Component {
        let Self { component, artifact, sandbox } = self;
        if let Some(Artifact { key, file }) = artifact {
            let kept = sandbox.blocking(move |inner| inner.cache.keep(&key, file)).await;
            if let Err(error) = kept {
                let error = format!("{:#}", anyhow::Error::from(error));
                tracing::warn!(version = %component.version(), error, "the component will be compiled again at the next start");
            }
        }
        component
    }
}

/// What a file is, the key of its artifact, and its component if it was compiled before.
type Found = (Shape, Version, Arc<str>, Option<component::Component>);

impl Inner {
    /// Validates the file. An artifact that does not load (a damaged disk, a file from elsewhere) is ignored: it is
    /// replaced.
    fn find(&self, wasm: &[u8]) -> Result<Found, LoadError> {
        let shape = validate::validate(wasm, self.compiler.component_bytes())?;
        let key = artifact_key(&self.engine, shape.kind, wasm);
        let found = self.cache.load(&self.engine, &key).unwrap_or_else(|error| {
            let path = self.cache.path(&key);
            let error = format!("{error:#}");
            tracing::warn!(path = %path.display(), error, "compiling again: an artifact does not load");
            None
        });
        Ok((shape, Version::of(wasm), key.into(), found))
    }

    /// Loads an artifact from its file: mapped, it costs memory only where it is touched.
    fn load_new(&self, artifact: WrittenFile) -> Result<(component::Component, WrittenFile), LoadError> {
        let unfit = |error: wasmtime::Error| LoadError::Unfit { problem: format!("{error:#}") };
        Ok((self.cache.load_new(&self.engine, &artifact).map_err(unfit)?, artifact))
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("cache", &self.0.cache).finish_non_exhaustive()
    }
}
