//! From an open file to running threads: what the writer must know before its first request.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::clock::OwnClock;
use super::fault::Done;
use super::open::{OpenFile, Opened};
use super::owner::Lock;
use super::reader::{self, Question};
use super::request::Request;
use super::row::at;
use super::signals::Listeners;
use super::topics::Topics;
use super::work::Sequence;
use super::writer::Writer;
use crate::StoreError;
use gristmill_core::job::Priority;

/// The latest number that a job in a topic's line of one priority has got: as its place, or when it was claimed.
const LAST_IN_LINE: &str =
    "SELECT max(coalesce((SELECT max(seq) FROM jobs WHERE topic_number = ?1 AND priority = ?2 AND seq IS NOT NULL), 0),
                coalesce((SELECT max(claimed_seq) FROM jobs WHERE topic_number = ?1 AND priority = ?2 AND seq <= ?3), 0))";

/// The place in any line that was claimed last.
const LAST_CLAIMED: &str = "SELECT coalesce(max(max(claimed_high, claimed_normal, claimed_low)), 0) FROM topics";

/// The latest number of any job.
const LAST: &str = "SELECT coalesce(max(number), 0) FROM jobs";

/// When anything was last written.
const WRITTEN: &str = "SELECT coalesce(max(changed_at), 0) FROM topics";

/// A thread that does one thing after the other, and the way to ask it.
#[derive(Debug)]
pub(super) struct Thread<T> {
    pub(super) queue: mpsc::Sender<T>,
    thread: JoinHandle<()>,
}

impl<T: Send + 'static> Thread<T> {
    fn open(name: &str, places: usize, run: impl FnOnce(mpsc::Receiver<T>) + Send + 'static) -> std::io::Result<Self> {
        let (queue, waiting) = mpsc::channel(places);
        let thread = thread::Builder::new().name(name.into()).spawn(move || run(waiting))?;
        Ok(Self { queue, thread })
    }

    /// Waits until everything asked is done and the thread is gone.
    pub(super) fn close(self) {
        let Self { queue, thread } = self;
        drop(queue);
        if thread.join().is_err() {
            tracing::error!("a thread of the embedded store ended by a panic");
        }
    }
}

/// The threads that answer questions.
#[derive(Debug)]
pub(super) struct Readers {
    /// For questions that take next to no time.
    pub(super) short: Thread<Question>,
    /// For lists.
    pub(super) long: Thread<Question>,
}

/// A running store.
pub(super) struct Started {
    pub(super) writer: Thread<Request>,
    pub(super) readers: Option<Readers>,
    pub(super) listeners: Arc<Listeners>,
    pub(super) lock: Option<Arc<Lock>>,
}

/// `places`: how many requests may wait.
pub(super) fn start(name: &str, opened: Opened, places: usize) -> Result<Started, StoreError> {
    const DOING: &str = "open the file";
    let Opened { writing, file } = opened;
    let (topics, sequence, clock) = remember(&writing).map_err(|fault| fault.told(name, DOING))?;
    let (clock, listeners) = (Arc::new(clock), Arc::new(Listeners::default()));
    let (reading, lock, log) = match file {
        Some(OpenFile { reading, lock, log }) => (Some(reading), Some(Arc::new(lock)), Some(log)),
        None => (None, None, None),
    };

    let away = |error: std::io::Error| StoreError::Unavailable { store: name.into(), source: error.into() };
    let open_reader = |name: &str, connection: Connection| {
        let clock = Arc::clone(&clock);
        Thread::open(name, places, move |questions| reader::run(connection, &clock, questions)).map_err(away)
    };
    let readers = match reading {
        Some([short, long]) => {
            Some(Readers { short: open_reader("embedded-reader", short)?, long: open_reader("embedded-lists", long)? })
        }
        None => None,
    };
    let writer = Writer {
        connection: writing,
        topics,
        topics_unsure: false,
        sequence,
        clock: Arc::clone(&clock),
        listeners: Arc::clone(&listeners),
        log,
        log_checked: None,
        lock: lock.clone(),
    };
    let writer = Thread::open("embedded-writer", places, move |requests| writer.run(requests)).map_err(away)?;
    Ok(Started { writer, readers, listeners, lock })
}

/// What the file says of topics, of numbers given out and of the time.
fn remember(connection: &Connection) -> Done<(Topics, Sequence, OwnClock)> {
    let topics = Topics::load(connection)?;
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    // Never before what was claimed, were it gone long since: ready jobs are not looked for there.
    let mut last = number(LAST)?.max(number(LAST_CLAIMED)?);
    let mut last_in_line = connection.prepare(LAST_IN_LINE)?;
    for (number, claimed) in topics.lines() {
        for priority in Priority::ALL {
            let line = (number, priority.as_str(), claimed.get(priority));
            last = last.max(last_in_line.query_row(line, |row| row.get(0))?);
        }
    }
    Ok((topics, Sequence::after(last), OwnClock::starting_at(at(number(WRITTEN)?))))
}
