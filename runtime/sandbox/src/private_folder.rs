//! A folder on disk that only this user can write to. It holds a bounded number of files, and notices when they are damaged.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::error::SandboxError;
use super::ownership::{check_ancestor, is_written_by_others, make_private, us};

/// A file that is still being written has a name that begins so.
const NEW: &str = ".new-";
/// After this time without a write its writer is dead: a component is compiled and tried within minutes.
const WRITTEN_WITHIN: Duration = Duration::from_secs(3600);
/// Each file ends with the SHA-256 of what is in front of it.
pub(super) const DIGEST_BYTES: usize = 32;

/// A folder whose files are written whole or not at all, never changed, and removed when they are too many: those first that were not
/// used for longest. Other processes may use the same folder at the same time.
#[derive(Debug, Clone)]
pub struct PrivateFolder {
    path: PathBuf,
    /// Of the files that are ours to remove; the folder may hold other things.
    extension: &'static str,
    limits: FolderLimits,
    growth: Arc<Mutex<Growth>>,
}

/// What was kept since the folder was last looked through.
#[derive(Debug, Default)]
struct Growth {
    files: usize,
    bytes: u64,
}

/// How much a folder holds: a number of files, and bytes of all of them.
#[derive(Debug, Clone, Copy)]
pub struct FolderLimits {
    /// Files with the folder's extension.
    pub files: usize,
    /// Of all of them; the newest stays, however large.
    pub bytes: u64,
}

/// A file of the folder.
struct FolderFile {
    used: SystemTime,
    bytes: u64,
    path: PathBuf,
}

impl PrivateFolder {
    /// Makes the folder if it is missing, and removes the files of writers that were killed.
    ///
    /// # Errors
    /// The folder cannot be made, or another user could write to it or put another one into its place.
    pub fn open(path: &Path, extension: &'static str, limits: FolderLimits) -> Result<Self, SandboxError> {
        let failed = |source| SandboxError::OpenCache { path: path.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        make_private(&path, &fs::metadata(&path).map_err(failed)?)?;
        for ancestor in path.ancestors().skip(1) {
            check_ancestor(&path, ancestor, &fs::metadata(ancestor).map_err(failed)?)?;
        }
        let folder = Self { path, extension, limits, growth: Arc::default() };
        folder.prune();
        Ok(folder)
    }

    /// The folder itself, without symbolic links.
    pub fn folder(&self) -> &Path {
        &self.path
    }

    /// The path of a file, whether or not it is there.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.{}", self.extension))
    }

    /// Begins a file, which has no name yet.
    pub(super) fn begin(&self) -> io::Result<NewFile> {
        let file = tempfile::Builder::new().prefix(NEW).tempfile_in(&self.path)?;
        Ok(NewFile { file, digest: Sha256::new() })
    }

    /// Gives the file its name. It replaces an earlier one in one step: a reader sees the one or the other. Removes files if they may be too
    /// many by then; `before_removing` can note their use.
    pub(super) fn keep(&self, name: &str, file: WrittenFile, before_removing: impl FnOnce()) -> io::Result<()> {
        let bytes = file.0.as_file().metadata()?.len();
        file.0.persist(self.path(name)).map_err(|error| error.error)?;
        if self.may_be_full(bytes) {
            before_removing();
            self.prune();
        }
        Ok(())
    }

    /// Whether the folder has to be looked through, since that takes a call of the system for each file: when it may have grown by a
    /// 64th of its limits.
    fn may_be_full(&self, bytes: u64) -> bool {
        let mut grown = self.growth.lock();
        grown.files += 1;
        grown.bytes += bytes;
        let may_be_full = grown.files >= self.limits.files / 64 || grown.bytes >= self.limits.bytes / 64;
        if may_be_full {
            *grown = Growth::default();
        }
        may_be_full
    }

    /// Writes a file and gives it its name.
    ///
    /// # Errors
    /// The disk refuses; a file of this name stays as it was.
    pub fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut file = self.begin()?;
        file.write(content)?;
        self.keep(name, file.finish()?, || {})
    }

    /// What is in a file; none if it is not there. Reading it is a use.
    ///
    /// # Errors
    /// The disk refuses, another user could have written the file, or it is not what was written.
    pub fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(mut file) = self.open_file(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let content = bytes.len().checked_sub(DIGEST_BYTES).ok_or_else(damaged)?;
        let digest = bytes.split_off(content);
        if digest != Sha256::digest(&bytes).as_slice() {
            return Err(damaged());
        }
        note_use(&file);
        Ok(Some(bytes))
    }

    /// The path of a file that is as it was written; none if it is not there. Asking is a use.
    ///
    /// # Errors
    /// As of [`Self::read`].
    pub(super) fn checked(&self, name: &str) -> io::Result<Option<PathBuf>> {
        let Some(mut file) = self.open_file(name)? else { return Ok(None) };
        let content = file.metadata()?.len().checked_sub(DIGEST_BYTES as u64).ok_or_else(damaged)?;
        let mut found = Hashing(Sha256::new());
        io::copy(&mut (&mut file).take(content), &mut found)?;
        let mut digest = [0; DIGEST_BYTES];
        file.read_exact(&mut digest)?;
        if digest != found.0.finalize().as_slice() {
            return Err(damaged());
        }
        note_use(&file);
        Ok(Some(self.path(name)))
    }

    /// The SHA-256 that a file says it has; none if it is not there or cannot be read. Asking is a use.
    pub fn digest(&self, name: &str) -> Option<[u8; DIGEST_BYTES]> {
        let mut file = self.open_file(name).ok()??;
        let mut digest = [0; DIGEST_BYTES];
        file.seek(SeekFrom::End(-(DIGEST_BYTES as i64))).ok()?;
        file.read_exact(&mut digest).ok()?;
        note_use(&file);
        Some(digest)
    }

    /// The file is in use: others go before it. Returns `false` if it is not there.
    pub(super) fn note_use(&self, name: &str) -> bool {
        File::open(self.path(name)).inspect(note_use).is_ok()
    }

    /// Removes a file. A missing one is no error.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        unless_gone(fs::remove_file(self.path(name))).map(drop)
    }

    fn open_file(&self, name: &str) -> io::Result<Option<File>> {
        let Some(file) = unless_gone(File::open(self.path(name)))? else { return Ok(None) };
        let metadata = file.metadata()?;
        // Another user may have put it here before the folder was private.
        if metadata.uid() != us() || is_written_by_others(&metadata) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user could have written it"));
        }
        Ok(Some(file))
    }

    fn prune(&self) {
        if let Err(error) = self.try_prune() {
            tracing::warn!(path = %self.path.display(), "the folder cannot be tidied up: {error}");
        }
    }

    fn try_prune(&self) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let Some(metadata) = unless_gone(entry.metadata())? else { continue };
            let (used, bytes, path) = (metadata.modified()?, metadata.len(), entry.path());
            let is_new = entry.file_name().as_encoded_bytes().starts_with(NEW.as_bytes());
            if is_new && used.elapsed().is_ok_and(|age| age > WRITTEN_WITHIN) {
                unless_gone(fs::remove_file(path))?;
            } else if path.extension().is_some_and(|extension| extension == self.extension) {
                entries.push(FolderFile { used, bytes, path });
            }
        }
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.used));
        let mut bytes = 0;
        for (kept, entry) in entries.iter().enumerate() {
            bytes += entry.bytes;
            // The newest stays, however large. Removing one that is mapped is harmless: the mapping keeps it alive.
            if kept > 0 && (kept >= self.limits.files || bytes > self.limits.bytes) {
                unless_gone(fs::remove_file(&entry.path))?;
            }
        }
        Ok(())
    }
}

/// A file that is being written, removed when it is dropped.
#[derive(Debug)]
pub(super) struct NewFile {
    file: NamedTempFile,
    digest: Sha256,
}

impl NewFile {
    pub(super) fn folder(&self) -> PathBuf {
        self.file.path().parent().unwrap_or(self.file.path()).to_owned()
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest.update(bytes);
        self.file.write_all(bytes)
    }

    /// Makes it read-only, and returns when it is on the disk.
    pub(super) fn finish(mut self) -> io::Result<WrittenFile> {
        self.file.write_all(&self.digest.finalize())?;
        self.file.as_file().set_permissions(fs::Permissions::from_mode(0o400))?;
        self.file.as_file().sync_all()?;
        Ok(WrittenFile(self.file))
    }
}

/// A whole file that has no name yet, removed when it is dropped.
#[derive(Debug)]
pub(super) struct WrittenFile(NamedTempFile);

impl WrittenFile {
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Feeds what is written to SHA-256.
struct Hashing(Sha256);

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is damaged: its digest is another one")
}

fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A file's time of change is the time of its last use. What cannot be noted only makes the file look older.
fn note_use(file: &File) {
    let _ = file.set_modified(now());
}

#[expect(clippy::disallowed_methods, reason = "a file's time is the host's, and it only says which file goes first")]
fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNLIMITED: FolderLimits = FolderLimits { files: usize::MAX, bytes: u64::MAX };

    fn open(path: &Path, limits: FolderLimits) -> PrivateFolder {
        PrivateFolder::open(path, "kept", limits).unwrap()
    }

    fn refusal(path: &Path) -> String {
        PrivateFolder::open(path, "kept", UNLIMITED).unwrap_err().to_string()
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let place = tempfile::tempdir().unwrap();
        chmod(place.path(), 0o707);
        let error = refusal(place.path());
        assert!(error.contains("others can write to it") && error.contains("chmod 700"), "{error}");
        chmod(place.path(), 0o755);
        open(place.path(), UNLIMITED);
    }

    #[test]
    fn a_folder_that_others_can_replace_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let (shared, folder) = (place.path().join("shared"), place.path().join("shared/deep/folder"));
        open(&folder, UNLIMITED);
        chmod(&shared, 0o777);
        let error = refusal(&folder);
        assert!(error.contains("others can write to") && error.contains("chmod go-w"), "{error}");
        // As `/tmp` is: others cannot rename what is not theirs.
        chmod(&shared, 0o1777);
        open(&folder, UNLIMITED);
    }

    #[test]
    fn a_volume_of_a_group_of_ours_is_used_and_what_is_kept_in_it_is_ours_alone() {
        let place = tempfile::tempdir().unwrap();
        let (volume, folder) = (place.path().join("volume"), place.path().join("volume/cache"));
        fs::create_dir(&volume).unwrap();
        chmod(&volume, 0o2775);
        open(&folder, UNLIMITED).write("a", b"content").unwrap();
        // As the kubelet leaves it for the next process.
        chmod(&folder, 0o2770);
        chmod(&folder.join("a.kept"), 0o660);
        assert_eq!(open(&folder, UNLIMITED).read("a").unwrap().as_deref(), Some(&b"content"[..]));
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        chmod(&volume, 0o2777);
        assert!(refusal(&folder).contains("others can write to"));
    }

    #[test]
    fn a_missing_folder_is_made_private() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a/b");
        open(&path, UNLIMITED);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
    }

    /// Writes a file that was last used so many seconds after the epoch.
    fn write(folder: &PrivateFolder, name: &str, seconds: u64) {
        folder.write(name, b"content").unwrap();
        let used = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::open(folder.path(name)).unwrap().set_modified(used).unwrap();
    }

    fn kept(folder: &PrivateFolder) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = fs::read_dir(&folder.path).unwrap().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_read_only_and_those_go_that_were_not_used_for_longest() {
        let of_two = 2 * (b"content".len() + DIGEST_BYTES) as u64;
        for limits in [FolderLimits { files: 2, ..UNLIMITED }, FolderLimits { bytes: of_two, ..UNLIMITED }] {
            let place = tempfile::tempdir().unwrap();
            let folder = open(place.path(), limits);
            fs::write(place.path().join("not-ours"), "").unwrap();
            write(&folder, "a", 1);
            write(&folder, "b", 2);
            assert!(folder.checked("a").unwrap().is_some());
            folder.write("c", b"content").unwrap();
            assert_eq!(kept(&folder), ["a.kept", "c.kept", "not-ours"]);
            assert_eq!(fs::metadata(folder.path("c")).unwrap().mode() & 0o777, 0o400);
        }
    }

    #[test]
    fn a_file_whose_writer_was_killed_goes_when_the_folder_is_opened() {
        let place = tempfile::tempdir().unwrap();
        for (name, age) in [(".new-dead", 2 * WRITTEN_WITHIN), (".new-alive", Duration::ZERO)] {
            let file = File::create(place.path().join(name)).unwrap();
            file.set_modified(now() - age).unwrap();
        }
        assert_eq!(kept(&open(place.path(), UNLIMITED)), [".new-alive"]);
    }

    #[test]
    fn a_file_without_a_name_goes_with_its_writer() {
        let place = tempfile::tempdir().unwrap();
        let folder = open(place.path(), UNLIMITED);
        let written = folder.begin().unwrap().finish().unwrap();
        assert_eq!(kept(&folder).len(), 1);
        drop(written);
        assert!(kept(&folder).is_empty());
    }

    #[test]
    fn a_damaged_file_is_an_error_and_a_missing_one_is_none() {
        let place = tempfile::tempdir().unwrap();
        let folder = open(place.path(), UNLIMITED);
        assert!(folder.read("a").unwrap().is_none() && folder.checked("a").unwrap().is_none());
        folder.write("a", b"content").unwrap();
        assert_eq!(folder.read("a").unwrap().unwrap(), b"content");
        assert_eq!(folder.digest("a").unwrap(), <[u8; 32]>::from(Sha256::digest(b"content")));
        let whole = fs::read(folder.path("a")).unwrap();
        for damage in [&b"Content"[..], b"", &whole[..whole.len() - 1], &[&whole[..], b"more"].concat()] {
            let mut bytes = damage.to_vec();
            if damage.len() == b"content".len() {
                bytes.extend(&whole[b"content".len()..]);
            }
            fs::remove_file(folder.path("a")).unwrap();
            fs::write(folder.path("a"), bytes).unwrap();
            assert_eq!(folder.read("a").unwrap_err().kind(), io::ErrorKind::InvalidData);
            assert_eq!(folder.checked("a").unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn a_file_that_another_user_could_have_written_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let folder = open(place.path(), UNLIMITED);
        folder.write("a", b"content").unwrap();
        chmod(&folder.path("a"), 0o666);
        assert_eq!(folder.read("a").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn folders_that_tidy_up_at_the_same_time_refuse_nothing() {
        let place = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let folder = open(place.path(), FolderLimits { files: 3, ..UNLIMITED });
                scope.spawn(move || {
                    for number in 0..200 {
                        folder.write(&format!("{thread}-{number}"), b"content").unwrap();
                        folder.try_prune().unwrap();
                    }
                });
            }
        });
        assert!(kept(&open(place.path(), UNLIMITED)).len() <= 4);
    }
}
