//! From an open file to running threads: what the writer must know before its first request.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};

use super::checkpoint::Checkpoints;
use super::health::{Health, Watch};
use super::open::Opened;
use super::owner::Lock;
use super::reader::{self, Question};
use super::request::Request;
use super::threads::{Queue, Threads};
use super::writer::Writer;
use crate::StoreError;
use crate::embedded::clock::OwnClock;
use crate::embedded::clock::set_clock::last_step;
use crate::embedded::fault::Done;
use crate::embedded::memory::topic::LAST_OF_LINE;
use crate::embedded::memory::topics::Topics;
use crate::embedded::place::{JobLine, LAST_PLACE, place_of};
use crate::embedded::row::at;
use crate::embedded::signals::Listeners;
use crate::embedded::work::Sequence;

/// The row in any line that was claimed last.
const LAST_CLAIMED: &str = "SELECT max(claimed_high & ?1, claimed_normal & ?1, claimed_low & ?1) AS place FROM topics
                            ORDER BY place DESC LIMIT 1";

/// The last claim that left something in the file.
const LAST_CLAIM: &str = "SELECT coalesce(max(claim), 0) FROM batches";

/// When anything was last written.
const WRITTEN: &str =
    "SELECT max(coalesce((SELECT max(changed_at) FROM topics), 0), coalesce((SELECT max(seen) FROM workers), 0))";

/// The threads that answer questions.
#[derive(Debug)]
pub(in crate::embedded) struct Readers {
    /// For questions that take next to no time.
    pub(in crate::embedded) short: Threads<Question>,
    /// For lists: more than one, so that what takes long does not stand before what a person waits for.
    pub(in crate::embedded) long: Threads<Question>,
}

/// A running store.
pub(in crate::embedded) struct Started {
    pub(in crate::embedded) writer: Threads<Request>,
    pub(in crate::embedded) readers: Option<Readers>,
    pub(in crate::embedded) listeners: Arc<Listeners>,
    pub(in crate::embedded) lock: Option<Arc<Lock>>,
    pub(in crate::embedded) health: Arc<Health>,
    /// None in memory.
    pub(in crate::embedded) watch: Option<Watch>,
}

/// `places`: how many requests may wait.
pub(in crate::embedded) fn start(name: &str, opened: Opened, places: usize) -> Result<Started, StoreError> {
    const DOING: &str = "open the file";
    let Opened { mut writing, file } = opened;
    let (topics, sequence, clock) = remember(&writing).map_err(|fault| fault.into_error(name, DOING))?;
    let (clock, listeners) = (Arc::new(clock), Arc::new(Listeners::default()));
    let away = |error: std::io::Error| StoreError::Unavailable { store: name.into(), source: error.into() };
    let (mut readers, mut checkpoints, mut lock, mut watch) = (None, None, None, None);
    let mut health = Arc::new(Health::in_memory());
    if let Some(file) = file {
        let open_readers = |name: &str, connections: Vec<Connection>| {
            let runs = connections.into_iter().map(|connection| {
                let clock = Arc::clone(&clock);
                move |questions: &Queue<Question>| reader::run(connection, &clock, questions)
            });
            Threads::open(name, places, runs).map_err(away)
        };
        readers = Some(Readers {
            short: open_readers("embedded-reader", vec![file.reading])?,
            long: open_readers("embedded-lists", file.listing)?,
        });
        health = Arc::new(file.health);
        let checkpoint = Checkpoints::start(file.log, &mut writing, file.copying, Arc::clone(&health));
        checkpoints = Some(checkpoint.map_err(away)?);
        watch = Some(Watch::start(Arc::clone(&health)).map_err(away)?);
        lock = Some(Arc::new(file.lock));
    }
    let writer = Writer {
        connection: writing,
        topics,
        topics_unsure: false,
        sequence,
        clock: Arc::clone(&clock),
        listeners: Arc::clone(&listeners),
        checkpoints,
        lock: lock.clone(),
        health: Arc::clone(&health),
        log_is_away: false,
        warned_at: None,
    };
    let run = |requests: &Queue<Request>| writer.run(requests);
    let writer = Threads::open("embedded-writer", places, [run]).map_err(away)?;
    Ok(Started { writer, readers, listeners, lock, health, watch })
}

/// What the file says of topics, of numbers given out and of the time.
fn remember(connection: &Connection) -> Done<(Topics, Sequence, OwnClock)> {
    let topics = Topics::load(connection)?;
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    // Never before what was claimed, were it gone long since: ready jobs are not looked for there.
    let claimed = connection.query_row(LAST_CLAIMED, [LAST_PLACE], |row| row.get(0)).optional()?;
    let mut last = claimed.unwrap_or(0);
    let mut last_of = connection.prepare(LAST_OF_LINE)?;
    for number in topics.numbers() {
        for line in JobLine::ALL {
            let row: Option<i64> = last_of.query_row(line.bounds(number), |row| row.get(0))?;
            last = last.max(row.map_or(0, place_of));
        }
    }
    let sequence = Sequence::after(last, number(LAST_CLAIM)?);
    Ok((topics, sequence, OwnClock::starting_at(at(number(WRITTEN)?), last_step(connection)?)))
}
