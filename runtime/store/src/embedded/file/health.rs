//! Notices that the file is no longer where it was, that it was replaced, or that it is damaged. What is committed to a file without its name
//! is gone with the next start: so nothing more is acknowledged then.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::Connection;

use super::open::{CHECKED_BYTES, connect_past_log, connect_to_read, id, sound};
use crate::embedded::fault::{Done, Fault};
use crate::{StoreError, StoreId};

/// How often a file is looked at that nothing is written to.
const EVERY: Duration = Duration::from_millis(500);
/// How often at most before a commit.
const BEFORE_COMMIT: Duration = Duration::from_millis(20);

/// When a topic was last changed, as far as the file says it.
const LAST_CHANGE: &str = "SELECT coalesce(max(changed_at), 0) FROM topics";
/// A number that grows with each change of the schema, and by one in each copy that SQLite makes: by `VACUUM INTO`, or as a backup.
const SCHEMA_VERSION: &str = "PRAGMA schema_version";

/// What is known of the file's state, shared by the threads of the store.
#[derive(Debug)]
pub(in crate::embedded) struct Health {
    name: String,
    /// None in memory.
    file: Option<Watched>,
    /// Why nothing is acknowledged.
    gone: Mutex<Option<String>>,
    looked_at: Mutex<Instant>,
    /// What was read first that is damaged.
    damage: OnceLock<String>,
}

/// A file that is looked at.
#[derive(Debug)]
struct Watched {
    /// As the settings name it, and where that leads to.
    given: PathBuf,
    real: PathBuf,
    id: StoreId,
    database: Inode,
    log: Mutex<Option<Inode>>,
    /// Bytes that the log has at least, since what is committed is there. 0: not known.
    log_bytes: AtomicU64,
    /// How often this process has begun and ended to move the log into the file.
    begun: AtomicU64,
    ended: AtomicU64,
    /// The file as it was after this many of these moves.
    seen: Mutex<(u64, Written)>,
    /// When the last change of a topic was, ms: the file has nothing earlier, unless it is an older one. 0: not known.
    last_change: AtomicU64,
    /// It was written over: no later look changes that.
    replaced: OnceLock<String>,
}

type Inode = (u64, u64);

/// What a write into the file changes: its length, and when it was written.
type Written = (u64, i64, i64);

impl Health {
    pub(in crate::embedded) fn in_memory() -> Self {
        Self::of(":memory:".into(), None)
    }

    /// The health of the file that the settings name `given`, whose lock is on `database`: open, and not written to yet. What becomes of it
    /// from now on is noticed, also before it was looked at first.
    pub(in crate::embedded) fn of_file(given: &Path, real: PathBuf, id: StoreId, database: &Metadata) -> Self {
        let log = log_of(&real);
        let watched = Watched {
            given: given.to_owned(),
            real,
            id,
            database: inode(database),
            log: Mutex::new(std::fs::metadata(log).ok().as_ref().map(inode)),
            log_bytes: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            seen: Mutex::new((0, written(database))),
            last_change: AtomicU64::new(0),
            replaced: OnceLock::new(),
        };
        Self::of(given.display().to_string(), Some(watched))
    }

    fn of(name: String, file: Option<Watched>) -> Self {
        let looked_at = Mutex::new(Instant::now());
        Self { name, file, gone: Mutex::default(), looked_at, damage: OnceLock::new() }
    }

    /// Why nothing may be committed, if that is so. For the writer, before it writes.
    pub(in crate::embedded) fn refusal(&self) -> Option<Fault> {
        // The commit would write behind what was cut off, and nothing would show it any more.
        let is_log_short = || self.file.as_ref().is_some_and(Watched::is_log_short);
        if self.looked_at.lock().elapsed() >= BEFORE_COMMIT || is_log_short() {
            self.look(true);
        }
        self.gone.lock().clone().map(Fault::Gone)
    }

    /// What was read that is damaged.
    pub(in crate::embedded) fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    /// The write-ahead log, if it no longer belongs to the file: one of the two was written over, or the log was cut.
    pub(in crate::embedded) fn log_of_replaced(&self) -> Option<PathBuf> {
        self.file.as_ref().filter(|file| file.replaced.get().is_some()).map(|file| log_of(&file.real))
    }

    pub(in crate::embedded) fn note_damage(&self, fault: &Fault) {
        if self.damage.set(fault.to_string()).is_ok() {
            tracing::error!(store = %self.name, error = %fault, "the file is damaged: stop this process, and restore a backup");
        }
    }

    /// A topic was changed. 0: so that the file says something earlier, by a clock that was set, or the last one was deleted.
    pub(in crate::embedded) fn note_change(&self, at_ms: u64) {
        if let Some(file) = &self.file {
            file.last_change.store(at_ms, Ordering::SeqCst);
        }
    }

    /// The log has grown to this many bytes, or began anew with this many. 0: it may be emptied.
    pub(in crate::embedded) fn note_log(&self, bytes: u64) {
        if let Some(file) = &self.file {
            file.log_bytes.store(bytes, Ordering::SeqCst);
        }
    }

    /// Has the log moved into the file, which then has changed by this process.
    pub(in crate::embedded) fn while_moving<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some(file) = &self.file else { return work() };
        file.begun.fetch_add(1, Ordering::SeqCst);
        self.note_log(0);
        let done = work();
        file.ended.fetch_add(1, Ordering::SeqCst);
        done
    }

    /// Looks at the file now.
    #[cfg(test)]
    pub(in crate::embedded) fn refresh(&self) {
        self.look(true);
    }

    fn look(&self, by_writer: bool) {
        let Some(file) = &self.file else { return };
        let found = file.problem(by_writer);
        *self.looked_at.lock() = Instant::now();
        let mut gone = self.gone.lock();
        match (&*gone, &found) {
            (None, Some(problem)) => {
                tracing::error!(store = %self.name, "{problem}. Nothing more is acknowledged, and no job begins");
            }
            (Some(_), None) => tracing::info!(store = %self.name, "the file is back in its place"),
            _ => {}
        }
        *gone = found;
    }
}

impl Watched {
    /// `by_writer`: nothing is being written meanwhile.
    fn problem(&self, by_writer: bool) -> Option<String> {
        if let Some(replaced) = self.replaced.get() {
            return Some(replaced.clone());
        }
        let remedy = "bring it back, or stop this process, which has what was acknowledged before, and start it again with the file that is meant";
        let database = match std::fs::metadata(&self.given) {
            Ok(found) if inode(&found) == self.database => found,
            Ok(_) => return Some(format!("another file is at {} than the one in use: {remedy}", self.given.display())),
            Err(error) if is_missing(&error) => {
                return Some(format!("the file {} is gone: {remedy}", self.given.display()));
            }
            // It may be there all the same.
            Err(_) => return None,
        };
        self.log_problem(&database, by_writer).or_else(|| self.foreign_write(&database))
    }

    fn log_problem(&self, database: &Metadata, by_writer: bool) -> Option<String> {
        let (log, mut known) = (log_of(&self.real), self.log.lock());
        match (std::fs::metadata(&log), *known) {
            (Ok(found), None) => *known = Some(inode(&found)),
            (Ok(found), Some(known)) if inode(&found) == known => return (by_writer && self.is_cut(database)).then(|| {
                let problem = format!(
                    "the write-ahead log {} was cut, with what is not in the file yet: stop this process, and restore a backup",
                    log.display()
                );
                // The next commit would hide it.
                self.replaced.get_or_init(|| problem).clone()
            }),
            (Err(error), Some(_)) if !is_missing(&error) => {}
            (Err(_), None) => {}
            (_, Some(_)) => {
                return Some(format!(
                    "the write-ahead log {} was removed or replaced, with what is not in the file yet: bring it back, or stop this process and \
                     restore a backup",
                    log.display()
                ));
            }
        }
        None
    }

    fn is_log_short(&self) -> bool {
        let bytes = self.log_bytes.load(Ordering::SeqCst);
        bytes > 0 && std::fs::metadata(log_of(&self.real)).is_ok_and(|log| log.len() < bytes)
    }

    /// Whether the log is shorter than what was written into it. Programs that move all of it into the file may empty it.
    fn is_cut(&self, database: &Metadata) -> bool {
        self.is_log_short() && !matches!(self.is_the_same(database), Ok(None))
    }

    /// Whether something else has written into the file. Programs that only move its log into it do no harm.
    fn foreign_write(&self, database: &Metadata) -> Option<String> {
        let ended = self.ended.load(Ordering::SeqCst);
        // What is under way may have written before, and not after `database` was looked at.
        if self.begun.load(Ordering::SeqCst) != ended {
            return None;
        }
        let found = (ended, written(database));
        let mut seen = self.seen.lock();
        if seen.0 != found.0 || seen.1 == found.1 {
            *seen = found;
            return None;
        }
        let problem = match self.is_the_same(database) {
            Ok(None) => {
                *seen = found;
                return None;
            }
            Ok(Some(problem)) => problem,
            Err(fault) if fault.is_damage() => fault.to_string(),
            // Looked at again the next time.
            Err(_) => return None,
        };
        let problem = format!(
            "something else has written over the file {} while it was in use ({problem}): stop this process, and restore a backup",
            self.given.display()
        );
        Some(self.replaced.get_or_init(|| problem).clone())
    }

    /// Looks into the file by connections of its own, which have nothing of it in memory.
    fn is_the_same(&self, database: &Metadata) -> Done<Option<String>> {
        // SQLite would delete the log of an empty one.
        if database.size() == 0 {
            return Ok(Some("it is empty".into()));
        }
        // First: with the log, it is at least as far.
        let version_in_file = schema_version(&connect_past_log(&self.real)?)?;
        let last_change = self.last_change.load(Ordering::SeqCst);
        let connection = match connect_to_read(&self.real) {
            Ok(connection) => connection,
            Err(StoreError::Refused { source, .. }) => return Ok(Some(format!("{source:#}"))),
            Err(error) => return Err(Fault::Refused(error.to_string())),
        };
        if id(&connection)? != self.id {
            return Ok(Some("it is another store now".into()));
        }
        if schema_version(&connection)? < version_in_file {
            return Ok(Some("it is a copy of the store".into()));
        }
        let changed_at = connection.query_row(LAST_CHANGE, [], |row| row.get::<_, i64>(0))?;
        // The clock may have been set meanwhile.
        let last_change = last_change.min(self.last_change.load(Ordering::SeqCst));
        if u64::try_from(changed_at).unwrap_or_default() < last_change {
            return Ok(Some("it is an older state of the store".into()));
        }
        self.damage_of(&connection)
    }

    fn damage_of(&self, connection: &Connection) -> Done<Option<String>> {
        let is_small = std::fs::metadata(&self.real).is_ok_and(|file| file.len() <= CHECKED_BYTES);
        let found = if is_small { sound(connection) } else { "ok".into() };
        Ok((found != "ok").then_some(found))
    }
}

fn inode(file: &Metadata) -> Inode {
    (file.dev(), file.ino())
}

fn written(file: &Metadata) -> Written {
    (file.size(), file.mtime(), file.mtime_nsec())
}

/// The write-ahead log of a file.
fn log_of(file: &Path) -> PathBuf {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

fn schema_version(connection: &Connection) -> Done<i64> {
    Ok(connection.query_row(SCHEMA_VERSION, [], |row| row.get(0))?)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The thread that looks at a file also while nothing is written to it.
#[derive(Debug)]
pub(in crate::embedded) struct Watch {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Watch {
    pub(in crate::embedded) fn start(health: Arc<Health>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let watch = move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                health.look(false);
            }
        };
        Ok(Self { stop, thread: thread::Builder::new().name("embedded-watch".into()).spawn(watch)? })
    }

    pub(in crate::embedded) fn end(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the thread that looks at the file ended by a panic");
        }
    }
}
