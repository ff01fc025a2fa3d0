//! Compiled components on disk. Loading one means running it as native code, so the folder is ours alone.

use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::core_module;
use super::error::{LoadError, SandboxError};
use super::private_folder::{FolderLimits, NewFile, PrivateFolder, WrittenFile};
use super::validate::Kind;

const LIMITS: FolderLimits = FolderLimits { files: 4096, bytes: 4 << 30 };

/// The form of the files. Those of another form have other keys, and go with time.
const FORM: &[u8] = b"artifact and digest";

/// A private folder of artifacts, one file for each pair of component and engine.
#[derive(Debug)]
pub(super) struct ArtifactCache {
    folder: PrivateFolder,
    in_use: Mutex<Vec<Weak<str>>>,
}

impl ArtifactCache {
    /// Makes the folder if it is missing, and refuses one that others could write to.
    pub(super) fn open(path: &Path) -> Result<Self, SandboxError> {
        let folder = PrivateFolder::open(path, "cwasm", LIMITS)?;
        Ok(Self { folder, in_use: Mutex::default() })
    }

    /// The artifact of this key is in use as long as the key lives.
    pub(super) fn note_use(&self, key: &Arc<str>) {
        self.in_use.lock().push(Arc::downgrade(key));
    }

    pub(super) fn path(&self, key: &str) -> PathBuf {
        self.folder.path(key)
    }

    /// The component of this key; none if it was not compiled before.
    pub(super) fn load(&self, engine: &Engine, key: &str) -> wasmtime::Result<Option<Component>> {
        let Some(path) = self.folder.checked(key)? else { return Ok(None) };
        load_artifact(engine, &path).map(Some)
    }

    /// A file for an artifact that is being made. It goes when it is dropped, unless it is kept.
    pub(super) fn begin(&self) -> Result<NewFile, LoadError> {
        self.folder.begin().map_err(|source| LoadError::KeepArtifact { path: self.folder.folder().to_owned(), source })
    }

    /// The component of an artifact that has no key yet.
    pub(super) fn load_new(&self, engine: &Engine, artifact: &WrittenFile) -> wasmtime::Result<Component> {
        load_artifact(engine, artifact.path())
    }

    /// Gives the artifact its key. Others go where there is no room for it; those in use go last, however many strangers bring.
    pub(super) fn keep(&self, key: &str, artifact: WrittenFile) -> Result<(), LoadError> {
        self.in_use.lock().retain(|used| used.upgrade().inspect(|used| self.folder.note_use(used)).is_some());
        self.folder.keep(key, artifact).map_err(|source| LoadError::KeepArtifact { path: self.path(key), source })
    }

    /// A folder in this one.
    pub(super) fn beside(&self, name: &'static str, limits: FolderLimits) -> Result<PrivateFolder, SandboxError> {
        PrivateFolder::open(&self.folder.folder().join(name), name, limits)
    }
}

/// SHA-256 over everything that decides what the compiled code looks like: the engine's settings, its version, this
/// host's CPU features, and the component, or the core module and what makes a component of it.
pub(super) fn artifact_key(engine: &Engine, kind: Kind, wasm: &[u8]) -> String {
    let mut hasher = Sha256Hasher(Sha256::new_with_prefix(FORM));
    engine.precompile_compatibility_hash().hash(&mut hasher);
    if kind == Kind::CoreModule {
        core_module::ingredients().iter().for_each(|ingredient| hasher.0.update(ingredient));
    }
    hasher.0.update(wasm);
    hex::encode(hasher.0.finalize())
}

#[expect(unsafe_code, reason = "an artifact is native code; wasmtime cannot check it")]
fn load_artifact(engine: &Engine, path: &Path) -> wasmtime::Result<Component> {
    // SAFETY: only this user can write to the folder (`PrivateFolder`); what is in it was made by our own compiler, is as it
    // was written, and is keyed by the compiler's settings; files are read-only, replaced by rename, and never written again,
    // so the mapping neither changes nor shrinks under us.
    let component = unsafe { Component::deserialize_file(engine, path) }?;
    // Now and not with the first job.
    component.initialize_copy_on_write_image()?;
    Ok(component)
}

/// Feeds whatever is hashed to SHA-256. The 64-bit result that the trait asks for is not used.
struct Sha256Hasher(Sha256);

impl Hasher for Sha256Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(cache: &ArtifactCache, key: &str) {
        let artifact = cache.begin().unwrap().finish().unwrap();
        cache.keep(key, artifact).unwrap();
    }

    #[test]
    fn artifacts_in_use_stay_however_many_come() {
        let place = tempfile::tempdir().unwrap();
        let limits = FolderLimits { files: 3, ..LIMITS };
        let folder = PrivateFolder::open(place.path(), "cwasm", limits).unwrap();
        let cache = ArtifactCache { folder, in_use: Mutex::default() };
        let serving: Arc<str> = "serving".into();
        keep(&cache, &serving);
        cache.note_use(&serving);
        (0..10).for_each(|stranger| keep(&cache, &format!("{stranger}")));
        assert!(cache.path(&serving).exists());
        drop(serving);
        let artifact = std::fs::File::open(cache.path("serving")).unwrap();
        artifact.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        (10..20).for_each(|stranger| keep(&cache, &format!("{stranger}")));
        assert!(!cache.path("serving").exists());
    }
}
