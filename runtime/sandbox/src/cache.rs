//! Compiled components on disk. Loading one means running it as native code, so the directory is ours alone.

use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::core_module;
use super::error::SandboxError;
use super::validate::Kind;

/// Artifacts kept; beyond that the oldest go. Removing a loaded one is harmless: the mapping keeps the file alive.
const ARTIFACTS_MAX: usize = 256;

/// A private directory of artifacts, one file for each pair of component and engine.
#[derive(Debug, Clone)]
pub(super) struct ArtifactCache {
    directory: PathBuf,
}

impl ArtifactCache {
    /// Makes the directory if it is missing, and refuses one that others could write to.
    pub(super) fn open(directory: &Path) -> Result<Self, SandboxError> {
        let failed = |source| SandboxError::OpenCache { path: directory.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let directory = directory.canonicalize().map_err(failed)?;
        check_private(&directory, &fs::metadata(&directory).map_err(failed)?)?;
        Ok(Self { directory })
    }

    pub(super) fn path(&self, key: &str) -> PathBuf {
        self.directory.join(key).with_extension("cwasm")
    }

    /// The component of this key; none if it was not compiled before.
    pub(super) fn load(&self, engine: &Engine, key: &str) -> wasmtime::Result<Option<Component>> {
        let path = self.path(key);
        if !path.exists() {
            return Ok(None);
        }
        let component = load_artifact(engine, &path)?;
        // Now and not with the first job.
        component.initialize_copy_on_write_image()?;
        Ok(Some(component))
    }

    /// Stores an artifact: written under another name, made read-only, synced, renamed. A reader sees all or nothing.
    pub(super) fn keep(&self, key: &str, artifact: &[u8]) -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.directory)?;
        file.write_all(artifact)?;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o400))?;
        file.as_file().sync_all()?;
        file.persist(self.path(key)).map_err(|error| error.error)?;
        self.prune()
    }

    fn prune(&self) -> io::Result<()> {
        let mut artifacts: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.path().extension().is_some_and(|extension| extension == "cwasm") {
                artifacts.push((entry.metadata()?.modified()?, entry.path()));
            }
        }
        artifacts.sort();
        let surplus = artifacts.len().saturating_sub(ARTIFACTS_MAX);
        artifacts.into_iter().take(surplus).try_for_each(|(_, path)| fs::remove_file(path))
    }
}

/// SHA-256 over everything that decides what the compiled code looks like: the engine's settings, its version, this
/// host's CPU features, and the component, or the core module and what makes a component of it.
pub(super) fn artifact_key(engine: &Engine, kind: Kind, wasm: &[u8]) -> String {
    let mut hasher = Sha256Hasher(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    if kind == Kind::CoreModule {
        core_module::ingredients().iter().for_each(|ingredient| hasher.0.update(ingredient));
    }
    hasher.0.update(wasm);
    hex::encode(hasher.0.finalize())
}

#[expect(unsafe_code, reason = "an artifact is native code; wasmtime cannot check it")]
fn load_artifact(engine: &Engine, path: &Path) -> wasmtime::Result<Component> {
    // SAFETY: only this user can write to the directory (`check_private`); what is in it was made by our
    // own compiler and is keyed by its settings; files appear by rename, are read-only, and are never written again,
    // so the mapping neither changes nor shrinks under us.
    unsafe { Component::deserialize_file(engine, path) }
}

fn check_private(path: &Path, metadata: &fs::Metadata) -> Result<(), SandboxError> {
    let refuse =
        |problem: String, remedy: String| Err(SandboxError::UnsafeCache { path: path.to_owned(), problem, remedy });
    let us = rustix::process::geteuid().as_raw();
    if !metadata.is_dir() {
        return refuse("it is no directory".into(), "name another one".into());
    }
    if metadata.uid() != us {
        return refuse(format!("it belongs to user {}", metadata.uid()), "name one that belongs to us".into());
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o022 != 0 {
        return refuse(
            format!("others can write to it (mode {mode:03o})"),
            format!("run `chmod 700 {}`", path.display()),
        );
    }
    Ok(())
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

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        for mode in [0o770, 0o707] {
            fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
            let error = ArtifactCache::open(directory.path()).unwrap_err().to_string();
            assert!(error.contains("others can write to it") && error.contains("chmod 700"), "{error}");
        }
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        ArtifactCache::open(directory.path()).unwrap();
    }

    #[test]
    fn a_missing_directory_is_made_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        ArtifactCache::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn artifacts_are_read_only_and_the_oldest_go() {
        let directory = tempfile::tempdir().unwrap();
        let cache = ArtifactCache::open(directory.path()).unwrap();
        for number in 0..ARTIFACTS_MAX + 3 {
            cache.keep(&number.to_string(), b"artifact").unwrap();
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), ARTIFACTS_MAX);
        let newest = cache.path(&(ARTIFACTS_MAX + 2).to_string());
        assert_eq!(fs::metadata(newest).unwrap().mode() & 0o777, 0o400);
    }
}
