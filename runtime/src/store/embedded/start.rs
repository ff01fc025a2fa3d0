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
use crate::job::Priority;
use crate::store::StoreError;

/// The last place in line of a topic's ready jobs of one priority.
const LAST_READY: &str = "SELECT max(seq) FROM jobs WHERE topic_number = ?1 AND priority = ?2 AND state = 'ready'";

/// The latest number of a running job, and the latest number of any job.
const LAST: &str = "SELECT max(coalesce((SELECT max(seq) FROM jobs WHERE state = 'running'), 0),
                               coalesce((SELECT max(number) FROM jobs), 0))";

/// When anything was last written.
const WRITTEN: &str = "SELECT coalesce(max(changed_at), 0) FROM topics";

/// A running store's threads, and the ways to reach them.
pub(super) struct Started {
    pub(super) writer: mpsc::Sender<Request>,
    pub(super) reader: Option<mpsc::Sender<Question>>,
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) listeners: Arc<Listeners>,
    pub(super) lock: Option<Arc<Lock>>,
}

/// `queue`: how many requests may wait.
pub(super) fn start(name: &str, opened: Opened, queue: usize) -> Result<Started, StoreError> {
    const DOING: &str = "open the file";
    let Opened { writing, file } = opened;
    let (topics, sequence, clock) = remember(&writing).map_err(|fault| fault.told(name, DOING))?;
    let (clock, listeners) = (Arc::new(clock), Arc::new(Listeners::default()));
    let (reading, lock, log) = match file {
        Some(OpenFile { reading, lock, log }) => (Some(reading), Some(Arc::new(lock)), Some(log)),
        None => (None, None, None),
    };

    let mut threads = Vec::new();
    let mut spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
        threads.push(thread::Builder::new().name(name.into()).spawn(run)?);
        Ok::<_, std::io::Error>(())
    };
    let away = |error: std::io::Error| StoreError::Away { store: name.into(), source: error.into() };
    let reader = match reading {
        Some(reading) => {
            let (reader, questions) = mpsc::channel(queue);
            let clock = Arc::clone(&clock);
            spawn("embedded-reader", Box::new(move || reader::run(&reading, &clock, questions))).map_err(away)?;
            Some(reader)
        }
        None => None,
    };
    let (writer, requests) = mpsc::channel(queue);
    let thread = Writer {
        connection: writing,
        topics,
        sequence,
        clock: Arc::clone(&clock),
        listeners: Arc::clone(&listeners),
        log,
        log_checked: None,
        lock: lock.clone(),
    };
    spawn("embedded-writer", Box::new(move || thread.run(requests))).map_err(away)?;
    Ok(Started { writer, reader, threads, listeners, lock })
}

/// What the file says of topics, of numbers given out and of the time.
fn remember(connection: &Connection) -> Done<(Topics, Sequence, OwnClock)> {
    let topics = Topics::load(connection)?;
    let mut last: i64 = connection.query_row(LAST, [], |row| row.get(0))?;
    let mut last_ready = connection.prepare(LAST_READY)?;
    for number in topics.numbers() {
        for priority in Priority::ALL {
            let ready: Option<i64> = last_ready.query_row((number, priority.as_str()), |row| row.get(0))?;
            last = last.max(ready.unwrap_or(0));
        }
    }
    let written = connection.query_row(WRITTEN, [], |row| row.get(0))?;
    Ok((topics, Sequence::after(last), OwnClock::starting_at(at(written))))
}
