//! Checkpoints: what is in the write-ahead log is copied into the file by a thread of its own, so that no commit waits for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::health::Health;
use super::open::BUSY;
use crate::embedded::fault::Done;

/// A checkpoint begins whenever the log has grown by this many pages: 4 MB.
const STEP: u64 = 1000;

/// From this length on the log begins anew after a checkpoint, in pages: 16 MB. Where commits follow each other, no
/// checkpoint catches up with them, and the log would grow for ever: the writer copies the rest.
const RESTART: u64 = 4000;

/// From this length on the log is emptied even if readers have to be waited for, in pages: 64 MB.
const LONG: u64 = 16_000;

/// How long readers are waited for then, while nothing is written; and how long nothing more is done about it.
const WAIT: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_secs(10);

/// Bytes before the first page of a log, and before each: <https://sqlite.org/fileformat2.html#the_write_ahead_log>.
const LOG_HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;

/// The thread, and what the writer knows of the log.
#[derive(Debug)]
pub(in crate::embedded) struct Checkpoints {
    log: PathBuf,
    health: Arc<Health>,
    /// How many pages the log has, as the last commit reported.
    pages: Arc<AtomicU64>,
    /// How many it had when the last checkpoint was asked for.
    asked_at: u64,
    is_under_way: bool,
    ask: SyncSender<()>,
    done: Receiver<()>,
    thread: JoinHandle<()>,
    waited_at: Option<Instant>,
}

impl Checkpoints {
    /// `writing`: the writer's connection, which makes no checkpoints of its own from now on. `copying`: the thread's.
    pub(in crate::embedded) fn start(
        log: PathBuf,
        writing: &mut Connection,
        copying: Connection,
        health: Arc<Health>,
    ) -> std::io::Result<Self> {
        let pages = Arc::new(AtomicU64::new(0));
        let (count, noting) = (Arc::clone(&pages), Arc::clone(&health));
        let page_bytes = writing.pragma_query_value(None, "page_size", |row| row.get::<_, u32>(0));
        let page_bytes = u64::from(page_bytes.map_err(std::io::Error::other)?);
        let noted = writing.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            let pages = u64::try_from(pages).unwrap_or(0);
            count.store(pages, Ordering::Relaxed);
            noting.note_log(LOG_HEADER + pages * (FRAME_HEADER + page_bytes));
            Ok(())
        }));
        noted.map_err(std::io::Error::other)?;
        let ((ask, asked), (report, done)) = (mpsc::sync_channel(1), mpsc::sync_channel(1));
        let moving = Arc::clone(&health);
        let thread = thread::Builder::new().name("embedded-checkpoints".into()).spawn(move || {
            while asked.recv().is_ok() {
                if let Err(error) = moving.while_moving(|| checkpoint(&copying, "PASSIVE")) {
                    tracing::warn!(%error, "could not move the write-ahead log into the file");
                }
                if report.send(()).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { log, health, pages, asked_at: 0, is_under_way: false, ask, done, thread, waited_at: None })
    }

    /// Keeps the log short. For the writer, between commits.
    pub(in crate::embedded) fn after_commit(&mut self, writing: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        // The log began anew.
        self.asked_at = if pages < self.asked_at { 0 } else { self.asked_at };
        if self.is_under_way && self.done.try_recv().is_ok() {
            self.is_under_way = false;
            if pages >= RESTART {
                self.empty(writing, "RESTART", Duration::ZERO);
            }
        }
        if !self.is_under_way && pages - self.asked_at >= STEP {
            self.asked_at = pages;
            self.is_under_way = self.ask.try_send(()).is_ok();
        }
        if pages >= LONG && self.waited_at.is_none_or(|last| last.elapsed() > PAUSE) {
            // Two cannot copy at once.
            self.is_under_way &= self.done.recv_timeout(WAIT).is_err();
            let is_empty = self.is_under_way || self.empty(writing, "TRUNCATE", WAIT);
            if !is_empty {
                self.waited_at = Some(Instant::now());
                tracing::warn!(
                    log = %self.log.display(),
                    "the write-ahead log grows: a transaction that another program left open in the file is in the way"
                );
            }
        }
    }

    /// Moves everything from the log into the file. Returns whether no reader was in the way.
    fn empty(&self, writing: &Connection, mode: &str, wait: Duration) -> bool {
        match self.health.while_moving(|| empty(writing, mode, wait)) {
            Ok(is_empty) => is_empty,
            Err(error) => {
                tracing::warn!(%error, log = %self.log.display(), "could not empty the write-ahead log");
                true
            }
        }
    }

    /// Empties the log at once. For the writer, when it writes nothing more.
    pub(in crate::embedded) fn empty_now(&self, writing: &Connection) {
        self.empty(writing, "TRUNCATE", WAIT);
    }

    /// Ends the thread, and empties the log by the writer's connection, unless it is to stay.
    pub(in crate::embedded) fn close(self, writing: Option<&Connection>) {
        let Self { ask, done, thread, .. } = self;
        drop((ask, done));
        if thread.join().is_err() {
            tracing::error!("the thread for checkpoints ended by a panic");
        }
        if let Some(writing) = writing
            && let Err(error) = empty(writing, "TRUNCATE", WAIT)
        {
            tracing::warn!(%error, "could not empty the write-ahead log at the end; the next start will");
        }
    }
}

fn empty(writing: &Connection, mode: &str, wait: Duration) -> Done<bool> {
    writing.busy_timeout(wait)?;
    let is_empty = checkpoint(writing, mode);
    writing.busy_timeout(BUSY)?;
    is_empty
}

/// Returns whether nothing was in the way.
fn checkpoint(connection: &Connection, mode: &str) -> Done<bool> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    Ok(!connection.query_row(&sql, [], |row| row.get::<_, bool>(0))?)
}
