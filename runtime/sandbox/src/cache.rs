//! Compiled components on disk. Loading one means running it as native code, so the directory is ours alone.

use std::ffi::OsStr;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::core_module;
use super::error::SandboxError;
use super::validate::Kind;

/// What is kept. Beyond that, the artifacts go that were not used for longest. Removing a loaded one is harmless: the mapping keeps the
/// file alive.
const LIMITS: CacheLimits = CacheLimits { artifacts: 4096, bytes: 4 << 30 };
/// A file that is still being written has a name that begins so. After this time its writer is dead.
const NEW: &str = ".new-";
const WRITTEN_WITHIN: Duration = Duration::from_secs(3600);

/// A private directory of artifacts, one file for each pair of component and engine.
#[derive(Debug, Clone)]
pub(super) struct ArtifactCache {
    directory: PathBuf,
    limits: CacheLimits,
}

/// How much a cache holds: a number of files and bytes of all of them.
#[derive(Debug, Clone, Copy)]
struct CacheLimits {
    artifacts: usize,
    bytes: u64,
}

/// A file of the cache.
struct Artifact {
    used: SystemTime,
    bytes: u64,
    path: PathBuf,
}

impl ArtifactCache {
    /// Makes the directory if it is missing, and refuses one that others could write to.
    pub(super) fn open(directory: &Path) -> Result<Self, SandboxError> {
        let failed = |source| SandboxError::OpenCache { path: directory.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let directory = directory.canonicalize().map_err(failed)?;
        check_private(&directory, &fs::metadata(&directory).map_err(failed)?)?;
        Ok(Self { directory, limits: LIMITS })
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
        note_use(&path);
        // Now and not with the first job.
        component.initialize_copy_on_write_image()?;
        Ok(Some(component))
    }

    /// Stores an artifact: written under another name, made read-only, synced, renamed. A reader sees all or nothing.
    pub(super) fn keep(&self, key: &str, artifact: &[u8]) -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(NEW).tempfile_in(&self.directory)?;
        file.write_all(artifact)?;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o400))?;
        file.as_file().sync_all()?;
        file.persist(self.path(key)).map_err(|error| error.error)?;
        if let Err(error) = self.prune() {
            let path = self.directory.display();
            tracing::warn!(%path, "the cache of compiled components cannot be tidied up: {error}");
        }
        Ok(())
    }

    /// Other processes may tidy up the same directory at the same time: a file that is gone is no error.
    fn prune(&self) -> io::Result<()> {
        let mut artifacts = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let Some(metadata) = unless_gone(entry.metadata())? else { continue };
            let (used, bytes, path) = (metadata.modified()?, metadata.len(), entry.path());
            if path.extension().is_some_and(|extension| extension == "cwasm") {
                artifacts.push(Artifact { used, bytes, path });
            } else if is_abandoned(&entry.file_name(), used) {
                unless_gone(fs::remove_file(path))?;
            }
        }
        artifacts.sort_by_key(|artifact| std::cmp::Reverse(artifact.used));
        let mut bytes = 0;
        for (kept, artifact) in artifacts.iter().enumerate() {
            bytes += artifact.bytes;
            // The newest stays, however large.
            if kept > 0 && (kept >= self.limits.artifacts || bytes > self.limits.bytes) {
                unless_gone(fs::remove_file(&artifact.path))?;
            }
        }
        Ok(())
    }
}

fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_abandoned(name: &OsStr, written: SystemTime) -> bool {
    name.as_encoded_bytes().starts_with(NEW.as_bytes()) && written.elapsed().is_ok_and(|age| age > WRITTEN_WITHIN)
}

/// A file's time of change is the time of its last use. What cannot be noted only makes the file look older.
fn note_use(path: &Path) {
    let _ = fs::File::open(path).and_then(|file| file.set_modified(now()));
}

#[expect(clippy::disallowed_methods, reason = "a file's time is the host's, and it only says which file goes first")]
fn now() -> SystemTime {
    SystemTime::now()
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

    fn cache(directory: &Path, limits: CacheLimits) -> ArtifactCache {
        ArtifactCache { limits, ..ArtifactCache::open(directory).unwrap() }
    }

    /// An artifact that was last used so many seconds after the epoch.
    fn keep(cache: &ArtifactCache, key: &str, seconds: u64) {
        cache.keep(key, b"artifact").unwrap();
        let used = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        fs::File::open(cache.path(key)).unwrap().set_modified(used).unwrap();
    }

    fn kept(cache: &ArtifactCache) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = fs::read_dir(&cache.directory).unwrap().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn artifacts_are_read_only_and_those_go_that_were_not_used_for_longest() {
        for limits in [CacheLimits { artifacts: 2, bytes: u64::MAX }, CacheLimits { artifacts: 9, bytes: 2 * 8 }] {
            let directory = tempfile::tempdir().unwrap();
            let cache = cache(directory.path(), limits);
            keep(&cache, "a", 1);
            keep(&cache, "b", 2);
            note_use(&cache.path("a"));
            cache.keep("c", b"artifact").unwrap();
            assert_eq!(kept(&cache), ["a.cwasm", "c.cwasm"]);
            assert_eq!(fs::metadata(cache.path("c")).unwrap().mode() & 0o777, 0o400);
        }
    }

    #[test]
    fn a_file_whose_writer_died_goes_and_one_being_written_stays() {
        let directory = tempfile::tempdir().unwrap();
        let cache = cache(directory.path(), LIMITS);
        for (name, age) in [(".new-dead", 2 * WRITTEN_WITHIN), (".new-alive", Duration::ZERO)] {
            let file = fs::File::create(directory.path().join(name)).unwrap();
            file.set_modified(now() - age).unwrap();
        }
        cache.keep("a", b"artifact").unwrap();
        assert_eq!(kept(&cache), [".new-alive", "a.cwasm"]);
    }

    #[test]
    fn caches_that_tidy_up_at_the_same_time_refuse_nothing() {
        let directory = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let cache = cache(directory.path(), CacheLimits { artifacts: 3, bytes: u64::MAX });
                scope.spawn(move || {
                    for number in 0..200 {
                        cache.keep(&format!("{thread}-{number}"), b"artifact").unwrap();
                        cache.prune().unwrap();
                    }
                });
            }
        });
        assert!(kept(&cache(directory.path(), LIMITS)).len() <= 4);
    }
}
