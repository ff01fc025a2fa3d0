//! Who owns a file: one process at a time, by a lock that dies with it.
//!
//! The lock is on two files. One is `<file>.owner`: its content names the process to ask, for people and other processes, and counts
//! only while the lock is held. The other is the database itself, for the case that a person deletes the first. It is a lock by
//! `flock`, which does not meet SQLite's own locks: those are by `fcntl`, and come and go.

use std::fs::{File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::anyhow;

use crate::{ServerName, StoreError, StoreId};
use gristmill_core::token::TokenText;
use parking_lot::Mutex;

/// Only the owner's user reads what is written down: it has a secret in it.
pub(in crate::embedded) const PRIVATE: u32 = 0o600;

/// The process to which a store's file belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The process id.
    pub pid: u32,
    /// Where it answers, if it has announced it; see [`EmbeddedStore::announce`](crate::embedded::EmbeddedStore::announce).
    pub http: Option<SocketAddr>,
    /// What lets a command in there, however many tokens there are.
    pub secret: Option<TokenText>,
    /// What the server there says that it is.
    pub server: Option<ServerName>,
}

/// Returns the owner of the file at this moment; `None` if it has none, or there is no such file. What dead owners left behind is ignored.
///
/// # Errors
/// [`StoreError::Unavailable`]: the file beside the database cannot be read.
pub fn owner(path: &Path) -> Result<Option<Owner>, StoreError> {
    let file = beside(path);
    look(&file).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => not_ours(path, &file, &error),
        _ => away(&file, error),
    })
}

fn not_ours(path: &Path, file: &Path, error: &io::Error) -> StoreError {
    let source = anyhow!(
        "failed to read {}, which says who owns it: {error}\nRun the command as that file's user, or ask the store's server: \
         `--server http://ADDRESS`, with a token if it wants one.",
        file.display()
    );
    StoreError::Unavailable { store: path.display().to_string(), source }
}

/// The lock, held until this is dropped.
#[derive(Debug)]
pub(in crate::embedded) struct Lock {
    /// Released first: the next owner takes it second. Closing it would end SQLite's locks of this process, so it outlives the
    /// connections.
    database: File,
    announcement: Announcement,
    /// Which store is in the file: what the last owner wrote down, if it was a server, until it is asked.
    pub(in crate::embedded) store: Option<StoreId>,
}

/// A file beside that of a store, or in place of it where the store is in memory, which says who owns it. Locked until this is dropped.
#[derive(Debug)]
pub struct Announcement {
    path: PathBuf,
    file: Mutex<File>,
}

/// Why the lock was not taken.
#[derive(Debug)]
pub(in crate::embedded) enum NotTaken {
    Owned(Owner),
    /// Another process has it, but the file that names the owner is not that process's. Or the last owner was starting a process: until it
    /// runs its own program it has all files of the owner open, and may have closed only the first of the two.
    OwnerFileReplaced,
    Io(io::Error),
}

impl From<io::Error> for NotTaken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Lock {
    /// Takes the lock of the database at `path`.
    pub(in crate::embedded) fn take(database: &Path) -> Result<Self, NotTaken> {
        let announcement = Announcement::take(database)?;
        let database = File::open(database)?;
        match database.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(NotTaken::OwnerFileReplaced),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let store = last_store(&announcement.file.lock());
        announcement.begin()?;
        Ok(Self { database, announcement, store })
    }

    /// Which file the lock is on.
    pub(in crate::embedded) fn database(&self) -> io::Result<Metadata> {
        self.database.metadata()
    }

    /// Also which store this is: it need not be the server's primary one.
    pub(in crate::embedded) fn announce(
        &self,
        http: SocketAddr,
        secret: &str,
        server: &ServerName,
    ) -> Result<(), StoreError> {
        self.announcement.write_down(http, secret, server, self.store.as_ref().map_or("", StoreId::as_str))
    }
}

impl Announcement {
    /// Says who owns the store in memory that commands know by this path. There is no file at the path itself.
    ///
    /// # Errors
    /// [`StoreError::Owned`]: another process has one of the same path. [`StoreError::Unavailable`]: the file cannot be written.
    pub fn of_memory(path: &Path) -> Result<Self, StoreError> {
        let begun = Self::take(path).and_then(|announcement| {
            announcement.begin()?;
            Ok(announcement)
        });
        begun.map_err(|problem| match problem {
            NotTaken::Owned(owner) => StoreError::Owned { store: "memory".into(), owner: owner.pid, http: owner.http },
            NotTaken::OwnerFileReplaced => StoreError::Owned { store: "memory".into(), owner: UNKNOWN.pid, http: None },
            NotTaken::Io(error) => away(&beside(path), error),
        })
    }

    fn take(database: &Path) -> Result<Self, NotTaken> {
        let path = beside(database);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(PRIVATE);
        let file = options.open(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, file: Mutex::new(file) }),
            Err(TryLockError::WouldBlock) => Err(NotTaken::Owned(read(&file).unwrap_or(UNKNOWN))),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    fn begin(&self) -> io::Result<()> {
        // What the last owner wrote, away first: half of it must not be taken for ours.
        self.file.lock().set_len(0)?;
        self.write(&format!("{}\n", std::process::id()))
    }

    /// Writes down where the owner answers, as what, and the secret that it knows its own commands by. Without the secret, if the
    /// file belongs to another user: it could not be kept from others.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: the file cannot be written.
    pub fn announce(&self, http: SocketAddr, secret: &str, server: &ServerName) -> Result<(), StoreError> {
        self.write_down(http, secret, server, "")
    }

    fn write_down(&self, http: SocketAddr, secret: &str, server: &ServerName, id: &str) -> Result<(), StoreError> {
        let private = self.file.lock().set_permissions(Permissions::from_mode(PRIVATE)).is_ok();
        let (pid, secret) = (std::process::id(), if private { secret } else { "" });
        let ServerName { store, instance } = server;
        self.write(&format!("{pid}\n{http}\n{secret}\n{store}\n{instance}\n{id}\n"))
            .map_err(|error| away(&self.path, error))
    }

    /// One write, so that no process reads half of it; the note only grows while the lock is held.
    fn write(&self, note: &str) -> io::Result<()> {
        let mut file = self.file.lock();
        file.rewind()?;
        file.write_all(note.as_bytes())
    }
}

/// An owner that has just taken the lock and not yet written who it is.
const UNKNOWN: Owner = Owner { pid: 0, http: None, secret: None, server: None };

fn look(path: &Path) -> io::Result<Option<Owner>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(read(&file).unwrap_or(UNKNOWN))),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// None for a note that is not there yet.
fn read(mut file: &File) -> Option<Owner> {
    let mut note = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut note).ok()?;
    let mut lines = note.lines();
    let pid = lines.next()?.parse().ok()?;
    let http = lines.next().and_then(|address| address.parse().ok());
    let secret = lines.next().filter(|secret| !secret.is_empty()).map(|secret| secret.to_owned().into());
    let server = lines.next().zip(lines.next());
    let server =
        server.map(|(store, instance)| ServerName { store: store.to_owned().into(), instance: instance.into() });
    Some(Owner { pid, http, secret, server })
}

fn last_store(mut file: &File) -> Option<StoreId> {
    let mut note = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut note).ok()?;
    note.lines().nth(5).filter(|id| !id.is_empty()).map(|id| id.to_owned().into())
}

fn beside(path: &Path) -> PathBuf {
    let mut name = real(path).into_os_string();
    name.push(".owner");
    name.into()
}

/// The file that is meant, so that two names of one file are not two owners. As it is given, if it is not there.
pub(in crate::embedded) fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

fn away(path: &Path, error: io::Error) -> StoreError {
    StoreError::Unavailable { store: path.display().to_string(), source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_users_store_is_named_with_the_way_to_its_server() {
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        let said = format!("{:#}", anyhow::Error::new(not_ours(Path::new("g.db"), Path::new("g.db.owner"), &error)));
        assert!(said.starts_with("the store at g.db is unavailable: failed to read g.db.owner"), "{said}");
        assert!(said.contains("--server http://ADDRESS"), "{said}");
    }
}
