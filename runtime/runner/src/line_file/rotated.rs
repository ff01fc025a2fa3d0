//! The file: appended to by whole lines, put aside when it is full, opened anew when another program has moved it away.
//!
//! Nothing is remembered of the file but which one it is: its size and its end are looked at before each write. So other
//! processes may write to it, `logrotate` may move it, and what a crash left behind does no harm.

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, IoSlice, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gristmill_config::LineFileSettings;

/// How long to leave a full file alone that could not be put aside.
const ROTATE_AGAIN: Duration = Duration::from_secs(60);

/// The file, and those put aside: `path.1` is the latest of them.
#[derive(Debug)]
pub(crate) struct RotatedFile {
    /// What people call it.
    name: &'static str,
    mode: u32,
    settings: LineFileSettings,
    open: OpenFile,
    /// The last time that a full file could not be put aside.
    rotation_failed: Option<Instant>,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    id: FileId,
}

/// Device and inode: which file it is, whatever it is called.
type FileId = (u64, u64);

impl RotatedFile {
    /// Opens the file, or makes it with these permissions.
    pub(crate) fn open(settings: &LineFileSettings, name: &'static str, mode: u32) -> io::Result<Self> {
        let open = OpenFile::at(&settings.path, mode)?;
        // If it is a link, what is put aside is the file and not the link.
        let settings = LineFileSettings { path: settings.path.canonicalize()?, ..settings.clone() };
        Ok(Self { name, mode, settings, open, rotation_failed: None })
    }

    pub(super) fn path(&self) -> &Path {
        &self.settings.path
    }

    /// Appends lines. Returns how many bytes of them are written: at least one line, and no half ones.
    pub(crate) fn append(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.ready()?;
        // A file grows in the middle of a write of another process: whether its end is torn is known only while none writes.
        self.open.file.lock()?;
        let written = self.open.append(lines);
        self.open.file.unlock().ok();
        written
    }

    /// Sees to it that the open file is the one at `path`, and not full. Returns its size.
    fn ready(&mut self) -> io::Result<u64> {
        let bytes = match self.still_there()? {
            Some(bytes) => bytes,
            None => self.open_anew()?,
        };
        let left_alone = self.rotation_failed.is_some_and(|failed| failed.elapsed() < ROTATE_AGAIN);
        if bytes < self.settings.rotate_bytes || left_alone {
            return Ok(bytes);
        }
        match self.rotate() {
            Ok(true) => self.open_anew(),
            Ok(false) => Ok(bytes),
            Err(error) => {
                self.rotation_failed = Some(Instant::now());
                let path = self.path().display();
                let (name, error) = (self.name, anyhow::Error::from(error));
                tracing::warn!(%path, "the {name} is full and cannot be put aside; it grows on: {error:#}");
                Ok(bytes)
            }
        }
    }

    /// The size of the open file, if it is still the one at `path`.
    fn still_there(&self) -> io::Result<Option<u64>> {
        match self.path().metadata() {
            Ok(found) if id(&found) == self.open.id => Ok(Some(found.len())),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open_anew(&mut self) -> io::Result<u64> {
        self.open = OpenFile::at(self.path(), self.mode)?;
        Ok(self.open.file.metadata()?.len())
    }

    /// Puts the file aside, unless another process is at it: the files aside are moved by who holds the lock of the one at
    /// `path`. True: it is not at `path` any more.
    fn rotate(&self) -> io::Result<bool> {
        match self.open.file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let put_aside = self.put_aside();
        // Without it the file stays locked for as long as it is open, which is for ever if it was not put aside.
        self.open.file.unlock()?;
        put_aside.map(|()| true)
    }

    fn put_aside(&self) -> io::Result<()> {
        // Another process may have been faster, between the look at the file and the lock.
        if self.still_there()?.is_none() {
            return Ok(());
        }
        // More than one if fewer are kept than before.
        let mut oldest = self.settings.keep;
        while if_there(std::fs::remove_file(self.aside(oldest)))? {
            oldest += 1;
        }
        for number in (1..self.settings.keep).rev() {
            if_there(std::fs::rename(self.aside(number), self.aside(number + 1)))?;
        }
        std::fs::rename(self.path(), self.aside(1))
    }

    /// The name of a file that was put aside; 1 is the latest.
    fn aside(&self, number: u32) -> PathBuf {
        let mut name = OsString::from(self.path());
        name.push(format!(".{number}"));
        name.into()
    }
}

impl OpenFile {
    fn at(path: &Path, mode: u32) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).mode(mode).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(Self { id: id(&found), file })
    }

    fn append(&self, lines: &[u8]) -> io::Result<usize> {
        let torn = self.is_torn(self.file.metadata()?.len())?;
        write_lines(&mut &self.file, torn, lines)
    }

    /// Whether the file, which has this size, ends in the middle of a line: the writer was killed, or the disk was
    /// full. The next line must not become part of that one.
    fn is_torn(&self, bytes: u64) -> io::Result<bool> {
        let Some(last) = bytes.checked_sub(1) else { return Ok(false) };
        let mut end = [0];
        let read = self.file.read_at(&mut end, last)?;
        Ok(read == 1 && end != [b'\n'])
    }
}

/// One call of the system, so that the lines of several writers do not mix. Returns how many bytes of whole lines it took.
pub(crate) fn write_lines(file: &mut impl Write, torn: bool, lines: &[u8]) -> io::Result<usize> {
    let first: &[u8] = if torn { b"\n" } else { b"" };
    let written = loop {
        match file.write_vectored(&[IoSlice::new(first), IoSlice::new(lines)]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            written => break written?,
        }
    };
    let taken = lines.get(..written.saturating_sub(first.len())).unwrap_or(lines);
    match taken.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => Ok(end + 1),
        None => Err(ErrorKind::StorageFull.into()),
    }
}

/// Whether there was such a file at all.
fn if_there(done: io::Result<()>) -> io::Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn id(found: &Metadata) -> FileId {
    (found.dev(), found.ino())
}
