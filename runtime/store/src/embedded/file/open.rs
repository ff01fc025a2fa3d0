//! Opening a file: whose it is, whether it is ours, and how SQLite is to treat it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};

use super::health::Health;
use super::owner::{Lock, NotTaken, PRIVATE, real};
use super::schema::{self, Unfit};
use crate::embedded::fault::{Done, Fault};
use crate::{StoreError, StoreId};
use gristmill_config::warn_if_exposed;

/// How long a statement waits for a lock that another process holds on the file.
pub(in crate::embedded) const BUSY: Duration = Duration::from_secs(5);

/// Prepared statements that a connection keeps: more than there are.
const STATEMENTS: usize = 128;

/// How many lists are read at once.
const LISTS: usize = 2;

/// What a connection keeps of the file in memory, in KiB.
const CACHE_KIB: i64 = 8192;

/// A file up to this size is looked through at every start, which takes less than half a second.
pub(in crate::embedded) const CHECKED_BYTES: u64 = 64 << 20;

const DOING: &str = "open the file";

/// The id of the store.
const ID: &str = "SELECT value FROM installation WHERE name = 'id'";

/// What an acknowledged change survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power cut: every commit waits for the disk.
    #[default]
    Power,
    /// The end of the process, however it ends, but not of the machine: a power cut may cost the last commits. The file
    /// stays consistent.
    Process,
}

/// A file that is ours, in the present format.
pub(in crate::embedded) struct Opened {
    pub(in crate::embedded) writing: Connection,
    /// None in memory.
    pub(in crate::embedded) file: Option<OpenFile>,
}

pub(in crate::embedded) struct OpenFile {
    /// For short questions.
    pub(in crate::embedded) reading: Connection,
    /// For lists.
    pub(in crate::embedded) listing: Vec<Connection>,
    /// For checkpoints.
    pub(in crate::embedded) copying: Connection,
    pub(in crate::embedded) lock: Lock,
    pub(in crate::embedded) log: PathBuf,
    pub(in crate::embedded) health: Health,
}

pub(in crate::embedded) fn open_file(given: &Path, durability: Durability) -> Result<Opened, StoreError> {
    is_no_other_thing(given)?;
    // Before it is asked for its real name: a link whose target is missing has none. The error below says why it cannot be made.
    // SQLite gives the files beside it the same mode.
    let is_new = !given.exists();
    drop(OpenOptions::new().append(true).create(true).mode(PRIVATE).open(given));
    let path = real(given);
    warn_if_exposed(&path);
    if let Some(problem) = made_by_root(&path).filter(|_| is_new) {
        tracing::warn!("{problem}");
    }
    let refused = |problem: anyhow::Error| StoreError::Refused { store: name(&path), doing: DOING, source: problem };
    // Each name would have a write-ahead log of its own.
    let names = std::fs::metadata(&path).map_or(1, |file| file.nlink());
    if names > 1 {
        return Err(refused(anyhow::anyhow!("it has {names} names (hard links); remove the others, or copy the file")));
    }
    let mut lock = Lock::take(&path).map_err(|error| not_taken(&path, error))?;
    let as_error = |fault: Fault| unusable(fault, &name(&path));

    let mut writing = connect(&path).map_err(as_error)?;
    writable(&writing).map_err(&refused)?;
    set_up(&mut writing, durability).map_err(|unfit| match unfit {
        Unfit::Sqlite(error) => unusable(error.into(), &name(&path)),
        unfit => refused(unfit.into()),
    })?;
    check(&writing, &path).map_err(&refused)?;
    trust_own_rows(&writing).map_err(|error| as_error(error.into()))?;
    let read = || {
        let reading = connect(&path)?;
        reading.pragma_update(None, "query_only", true)?;
        Ok(reading)
    };
    let reading = read().map_err(as_error)?;
    let listing = (0..LISTS).map(|_| read().map_err(as_error)).collect::<Result<_, _>>()?;
    let copying = connect(&path).map_err(as_error)?;
    let database = lock.database().map_err(|error| refused(error.into()))?;
    let id = id(&writing).map_err(as_error)?;
    if lock.store.replace(id.clone()).is_some_and(|last| last != id) {
        tracing::warn!(
            "{} is not the store that a server had here before: it is new, or another one was put in its place. If it was not removed on \
             purpose, stop the server, put back the file of a backup, and look whether `{0}-wal` is missing, too.",
            name(&path)
        );
    }
    let health = Health::of_file(given, path.clone(), id, &database);
    let mut log = path.into_os_string();
    log.push("-wal");
    Ok(Opened { writing, file: Some(OpenFile { reading, listing, copying, lock, log: log.into(), health }) })
}

/// Says that the file belongs to root and its folder to another user, whose server could not open the file.
pub(in crate::embedded) fn made_by_root(path: &Path) -> Option<String> {
    let folder = path.parent()?;
    let [file, owner] = [std::fs::metadata(path).ok()?.uid(), std::fs::metadata(folder).ok()?.uid()];
    (file == 0 && owner != 0).then(|| {
        let (path, folder) = (path.display(), folder.display());
        format!(
            "{path} is new and belongs to root, but its folder to another user (id {owner}), whose server cannot open it: run commands as that user, \
             and `chown --reference={folder} {path} {path}.owner` now"
        )
    })
}

pub(in crate::embedded) fn open_memory() -> Result<Opened, StoreError> {
    let open = || -> Result<Connection, Unfit> {
        let mut writing = Connection::open_in_memory()?;
        prepare(&writing)?;
        schema::bring_up_to_date(&mut writing)?;
        Ok(writing)
    };
    let refused = |error: Unfit| StoreError::Refused { store: ":memory:".into(), doing: DOING, source: error.into() };
    Ok(Opened { writing: open().map_err(refused)?, file: None })
}

fn connect(path: &Path) -> Done<Connection> {
    // Each connection stays on one thread; no file name that is given is a URI.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    prepare(&connection)?;
    Ok(connection)
}

/// A connection to a file that may belong to another process, by which nothing is changed in it.
///
/// # Errors
/// [`StoreError::Refused`]: it is missing, or no file of ours in the present format. [`StoreError::Unavailable`]: it cannot be read now.
pub(in crate::embedded) fn connect_to_read(path: &Path) -> Result<Connection, StoreError> {
    let open = || -> Result<Connection, Unfit> {
        // SQLite has to write beside the file, to say what it reads of the log.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        prepare(&connection)?;
        // The last connection that ends would move the log into the file.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.pragma_update(None, "query_only", true)?;
        schema::is_present(&connection)?;
        Ok(connection)
    };
    open().map_err(|unfit| match unfit {
        Unfit::Sqlite(error) => unusable(error.into(), &name(path)),
        unfit => StoreError::Refused { store: name(path), doing: DOING, source: unfit.into() },
    })
}

/// A connection to what is in a file of this process without its log. Not by the file's own functions: to close it would end the locks that
/// SQLite has on it in this process.
pub(in crate::embedded) fn connect_past_log(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            uri.push_str(&format!("%{byte:02x}"));
        }
    }
    uri.push_str("?immutable=1");
    Connection::open_with_flags(uri, flags)
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // What a statement may have to take back is kept in memory, not in a temporary file.
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "foreign_keys", false)?;
    // Plans do not depend on values that are bound: else a statement is prepared anew whenever they change.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // The heads and tails of the lines, with room to spare. Many a commit goes through all pages in memory: what is not
    // needed there makes it slower.
    connection.pragma_update(None, "cache_size", -CACHE_KIB)
}

/// SQLite opens a file that it may not write as one to be read, and says so late.
fn writable(connection: &Connection) -> anyhow::Result<()> {
    anyhow::ensure!(
        !connection.is_readonly(MAIN_DB)?,
        "it is read-only; make the file and its folder writable for this process"
    );
    Ok(())
}

/// Makes sure that the file is ours before anything in it is changed, the journal's kind included.
fn set_up(connection: &mut Connection, durability: Durability) -> Result<(), Unfit> {
    schema::bring_up_to_date(connection)?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    let synchronous = match durability {
        Durability::Power => "full",
        Durability::Process => "normal",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    Ok(())
}

fn check(connection: &Connection, path: &Path) -> anyhow::Result<()> {
    if std::fs::metadata(path)?.len() > CHECKED_BYTES {
        return Ok(());
    }
    let problem = sound(connection);
    anyhow::ensure!(
        problem == "ok",
        "the file is damaged ({problem}); move it away together with its -wal, and restore a backup"
    );
    Ok(())
}

/// `ok`, or what is damaged first.
pub(in crate::embedded) fn sound(connection: &Connection) -> String {
    let sound = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    sound.unwrap_or_else(|error| error.to_string())
}

/// Leaves the schema's checks to the tests, which run without optimization: they cost a tenth of a push. What other programs write
/// is checked on their connections.
fn trust_own_rows(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "ignore_check_constraints", !cfg!(debug_assertions))
}

/// Refuses what is no file, before it is opened: opening a pipe waits for its other end, and SQLite waits for a device.
fn is_no_other_thing(path: &Path) -> Result<(), StoreError> {
    let problem = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => "it is a folder; name a file in it",
        Ok(found) if !found.is_file() => "it is a pipe, a socket or a device; name another file",
        _ => return Ok(()),
    };
    Err(StoreError::Refused { store: name(&real(path)), doing: DOING, source: anyhow::anyhow!(problem) })
}

/// At the start, a file that cannot be read is refused, and so is one that may not be written.
fn unusable(fault: Fault, store: &str) -> StoreError {
    let remedy = match &fault {
        Fault::Sqlite { code: ErrorCode::ReadOnly | ErrorCode::CannotOpen, .. } => {
            "make the file and its folder writable for this process"
        }
        Fault::Sqlite { code: ErrorCode::NotADatabase, .. } => "it is no SQLite file; name another file",
        _ => return fault.into_error(store, DOING),
    };
    StoreError::Refused { store: store.into(), doing: DOING, source: anyhow::Error::from(fault).context(remedy) }
}

/// See [`NotTaken::OwnerFileReplaced`].
#[derive(Debug, thiserror::Error)]
#[error("another process has it open, and the file beside it that said which (`.owner`) was deleted; end that process")]
struct OwnerFileReplaced;

/// Whether another process has the file, which may let go of it in a moment: it asks who the owner is, or has just been started by one
/// that ends.
pub(in crate::embedded) fn is_taken(error: &StoreError) -> bool {
    match error {
        StoreError::Owned { .. } => true,
        StoreError::Refused { source, .. } => source.is::<OwnerFileReplaced>(),
        _ => false,
    }
}

fn not_taken(path: &Path, problem: NotTaken) -> StoreError {
    let error = match problem {
        NotTaken::Owned(owner) => return StoreError::Owned { store: name(path), owner: owner.pid, http: owner.http },
        NotTaken::OwnerFileReplaced => {
            return StoreError::Refused { store: name(path), doing: DOING, source: OwnerFileReplaced.into() };
        }
        NotTaken::Io(error) => error,
    };
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "its folder is missing; make it first",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "make the file, the one beside it that ends in `.owner`, and their folder writable for this process"
        }
        // As where SQLite finds no room: it may be made.
        io::ErrorKind::StorageFull => {
            let source = anyhow::Error::from(error).context("make room on its disk");
            return StoreError::Unavailable { store: name(path), source };
        }
        _ => "the file beside it that says who owns it cannot be written",
    };
    StoreError::Refused { store: name(path), doing: DOING, source: anyhow::Error::from(error).context(remedy) }
}

pub(in crate::embedded) fn name(path: &Path) -> String {
    path.display().to_string()
}

/// The id that is in the file.
pub(in crate::embedded) fn id(connection: &Connection) -> Done<StoreId> {
    Ok(connection.query_row(ID, [], |row| row.get::<_, String>(0))?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_refused_before_it_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let refused = open_file(&path, Durability::Power).map(drop).unwrap_err();
        assert!(format!("{:#}", anyhow::Error::from(refused)).contains("name another file"));
        assert!(!folder.path().join("jobs.db.owner").exists());
    }

    #[test]
    fn a_missing_right_is_asked_for_where_it_may_be_missing() {
        let denied = NotTaken::Io(io::ErrorKind::PermissionDenied.into());
        let said = format!("{:#}", anyhow::Error::from(not_taken(Path::new("jobs.db"), denied)));
        assert!(said.contains("make the file, the one beside it that ends in `.owner`, and their folder"), "{said}");
    }

    #[test]
    fn a_disk_that_is_full_at_the_start_may_have_room_later() {
        let full = not_taken(Path::new("jobs.db"), NotTaken::Io(io::ErrorKind::StorageFull.into()));
        assert!(full.is_unavailable(), "{full}");
        assert!(format!("{:#}", anyhow::Error::from(full)).contains("make room on its disk"));
    }

    #[test]
    fn a_file_that_may_only_be_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE a (x)").unwrap();
        // By a flag and not by its mode, which means nothing to root.
        let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        assert!(writable(&connection).unwrap_err().to_string().contains("writable"));
        assert!(writable(&Connection::open(&path).unwrap()).is_ok());
    }
}
