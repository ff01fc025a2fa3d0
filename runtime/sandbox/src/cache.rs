//! Compiled components on disk. Loading one means running it as native code, so the folder is ours alone.

use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::attempt::Version;
use super::core_module;
use super::error::{LoadError, SandboxError};
use super::facts::Facts;
use super::private_folder::{FolderLimits, NewFile, PrivateFolder, WrittenFile};
use super::validate::Kind;

const LIMITS: FolderLimits = FolderLimits { files: 4096, bytes: 4 << 30 };

/// The form of the files. Those of another form have other keys, and go with time.
const FORM: &[u8] = b"artifact with its main module, source lines and digest, by version";

/// A private folder of artifacts, one file for each pair of component and engine, and the facts about each.
#[derive(Debug)]
pub(super) struct ArtifactCache {
    folder: PrivateFolder,
    facts: PrivateFolder,
    in_use: Mutex<Vec<Weak<str>>>,
}

impl ArtifactCache {
    /// Makes the folder if it is missing, and refuses one that others could write to.
    pub(super) fn open(path: &Path) -> Result<Self, SandboxError> {
        Self::with(path, LIMITS)
    }

    fn with(path: &Path, limits: FolderLimits) -> Result<Self, SandboxError> {
        let folder = PrivateFolder::open(path, "cwasm", limits)?;
        let facts = PrivateFolder::open(&folder.folder().join("facts"), "facts", limits)?;
        Ok(Self { folder, facts, in_use: Mutex::default() })
    }

    /// The artifact of this key is in use as long as the key lives.
    pub(super) fn note_use(&self, key: &Arc<str>) {
        self.in_use.lock().push(Arc::downgrade(key));
    }

    pub(super) fn path(&self, key: &str) -> PathBuf {
        self.folder.path(key)
    }

    /// What is known of the component of this key, if its artifact is there too. Asking is a use.
    pub(super) fn facts(&self, key: &str) -> Option<Facts> {
        let bytes = self.facts.read(key).unwrap_or_else(|error| {
            tracing::debug!(path = %self.facts.path(key).display(), %error, "the component is checked again");
            None
        })?;
        Facts::parse(&bytes).filter(|_| self.folder.note_use(key))
    }

    /// Keeps what is known of the component of this key.
    pub(super) fn keep_facts(&self, key: &str, facts: &Facts) -> Result<(), LoadError> {
        let written = self.facts.write(key, &facts.to_bytes());
        written.map_err(|source| LoadError::KeepArtifact { path: self.facts.path(key), source })
    }

    /// The path of the artifact of this key, which is as it was written; none if the component was not compiled before.
    pub(super) fn check(&self, key: &str) -> io::Result<Option<PathBuf>> {
        self.folder.checked(key)
    }

    /// The component of an artifact that was checked.
    pub(super) fn map(&self, engine: &Engine, artifact: &Path) -> wasmtime::Result<Component> {
        load_artifact(engine, artifact)
    }

    /// Removes the artifact and the facts of this key, so that the component is compiled again.
    pub(super) fn forget(&self, key: &str) {
        for (folder, removed) in [(&self.folder, self.folder.remove(key)), (&self.facts, self.facts.remove(key))] {
            if let Err(error) = removed {
                tracing::warn!(path = %folder.path(key).display(), %error, "the file cannot be removed");
            }
        }
    }

    /// A file for an artifact that is being made. It goes when it is dropped, unless it is kept.
    pub(super) fn begin(&self) -> Result<NewFile, LoadError> {
        self.folder.begin().map_err(|source| LoadError::KeepArtifact { path: self.folder.folder().to_owned(), source })
    }

    /// Gives the artifact its key. Others go where there is no room for it; those in use go last, however many strangers bring.
    pub(super) fn keep(&self, key: &str, artifact: WrittenFile) -> Result<(), LoadError> {
        let kept = self.folder.keep(key, artifact, || {
            self.in_use.lock().retain(|used| used.upgrade().is_some_and(|used| self.folder.note_use(&used)));
        });
        kept.map_err(|source| LoadError::KeepArtifact { path: self.path(key), source })
    }

    /// A folder in this one.
    pub(super) fn beside(&self, name: &'static str, limits: FolderLimits) -> Result<PrivateFolder, SandboxError> {
        PrivateFolder::open(&self.folder.folder().join(name), name, limits)
    }
}

/// SHA-256 over everything that decides what the compiled code looks like: the engine's settings, its version, this
/// host's CPU features, and the component, or the core module and what makes a component of it.
pub(super) fn artifact_key(engine: &Engine, kind: Kind, version: Version) -> String {
    let mut hasher = Sha256Hasher(Sha256::new_with_prefix(FORM));
    engine.precompile_compatibility_hash().hash(&mut hasher);
    if kind == Kind::CoreModule {
        core_module::ingredients().iter().for_each(|ingredient| hasher.0.update(ingredient));
    }
    hasher.0.update(version.0);
    hex::encode(hasher.0.finalize())
}

#[expect(unsafe_code, reason = "an artifact is native code; wasmtime cannot check it")]
fn load_artifact(engine: &Engine, path: &Path) -> wasmtime::Result<Component> {
    // SAFETY: only this user can write to the folder (`PrivateFolder`); what is in it was made by our own compiler, is as it
    // was written, and is keyed by the compiler's settings; files are read-only, replaced by rename, and never written again,
    // so the mapping neither changes nor shrinks under us.
    let component = unsafe { Component::deserialize_file(engine, path) }?;
    // Now and not when a job waits for its instance.
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
        let cache = ArtifactCache::with(place.path(), FolderLimits { files: 3, ..LIMITS }).unwrap();
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
