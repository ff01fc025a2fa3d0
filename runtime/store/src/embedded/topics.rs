//! The writer's memory of topics: their numbers, places and counts, written down once per commit.
//!
//! The file has one owner, so what is kept here is what is in the file, but for what the transaction under way has
//! changed. A transaction that fails has everything read anew.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use rusqlite::{Connection, params};

use super::fault::Done;
use super::row::{at, ms, whole};
use gristmill_core::job::{Name, Priority, TopicId};
use gristmill_core::time::Timestamp;

/// Reads every topic.
const LOAD: &str = "SELECT number, tenant, topic, used, active, paused, turn, next_due, ready, delayed, running, dead,
                        claimed_high, claimed_normal, claimed_low
                    FROM topics ORDER BY number";

/// Writes a topic down.
const SAVE: &str = "INSERT INTO topics (number, tenant, topic, used, active, paused, turn, next_due, ready, delayed,
                        running, dead, claimed_high, claimed_normal, claimed_low, changed_at)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
                    ON CONFLICT (number) DO UPDATE SET used = ?4, active = ?5, paused = ?6, turn = ?7, next_due = ?8,
                        ready = ?9, delayed = ?10, running = ?11, dead = ?12, claimed_high = ?13,
                        claimed_normal = ?14, claimed_low = ?15, changed_at = max(changed_at, ?16)";

/// Adds to a total.
const ADD: &str = "INSERT INTO totals (topic_number, name, n) VALUES (?1, ?2, ?3)
                   ON CONFLICT (topic_number, name) DO UPDATE SET n = n + ?3";

/// A topic's place in the memory. Good for as long as the store is open.
pub(super) type Number = usize;

#[derive(Debug, Clone)]
pub(super) struct Topic {
    /// In the file.
    pub(super) number: i64,
    pub(super) id: TopicId,
    /// It has held a job.
    pub(super) used: bool,
    /// Jobs became ready, and no claim has found it empty or paused since.
    pub(super) active: bool,
    pub(super) paused: bool,
    pub(super) turn: usize,
    pub(super) next_due: Option<Timestamp>,
    /// How many of its jobs are where.
    pub(super) ready: u64,
    pub(super) delayed: u64,
    pub(super) running: u64,
    pub(super) dead: u64,
    pub(super) claimed: Lines,
}

/// The place in line that was claimed last, of each priority. Whoever lines up gets a later one, so ready jobs stand
/// behind it; running jobs keep theirs, at it or before.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lines {
    high: i64,
    normal: i64,
    low: i64,
}

impl Lines {
    pub(super) const fn new(high: i64, normal: i64, low: i64) -> Self {
        Self { high, normal, low }
    }

    pub(super) fn get(self, priority: Priority) -> i64 {
        match priority {
            Priority::High => self.high,
            Priority::Normal => self.normal,
            Priority::Low => self.low,
        }
    }

    pub(super) fn set(&mut self, priority: Priority, seq: i64) {
        *match priority {
            Priority::High => &mut self.high,
            Priority::Normal => &mut self.normal,
            Priority::Low => &mut self.low,
        } = seq;
    }
}

#[derive(Debug, Default)]
pub(super) struct Topics {
    topics: Vec<Topic>,
    by_id: HashMap<TopicId, Number>,
    by_number: HashMap<i64, Number>,
    /// To be written down at the end of the transaction.
    dirty: BTreeSet<Number>,
    /// What is to be added to which total.
    tally: HashMap<(Number, Cow<'static, str>), u64>,
}

impl Topics {
    pub(super) fn load(connection: &Connection) -> Done<Self> {
        let mut all = Self::default();
        let mut select = connection.prepare(LOAD)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let count = |column| row.get(column).map(whole);
            let (tenant, topic): (String, String) = (row.get(1)?, row.get(2)?);
            // A name that is none was not written by us, and nobody can ask for it.
            let (Ok(tenant), Ok(topic)) = (tenant.parse(), topic.parse()) else { continue };
            all.add(Topic {
                number: row.get(0)?,
                id: TopicId { tenant, topic },
                used: row.get(3)?,
                active: row.get(4)?,
                paused: row.get(5)?,
                turn: usize::try_from(row.get::<_, i64>(6)?).unwrap_or(0),
                next_due: row.get::<_, Option<i64>>(7)?.map(at),
                ready: count(8)?,
                delayed: count(9)?,
                running: count(10)?,
                dead: count(11)?,
                claimed: Lines { high: row.get(12)?, normal: row.get(13)?, low: row.get(14)? },
            });
        }
        Ok(all)
    }

    fn add(&mut self, topic: Topic) -> Number {
        let place = self.topics.len();
        self.by_id.insert(topic.id.clone(), place);
        self.by_number.insert(topic.number, place);
        self.topics.push(topic);
        place
    }

    /// None: nobody has ever used it.
    pub(super) fn find(&self, id: &TopicId) -> Option<Number> {
        self.by_id.get(id).copied()
    }

    pub(super) fn find_number(&self, number: i64) -> Option<Number> {
        self.by_number.get(&number).copied()
    }

    /// Every topic's number in the file, and how far its lines were claimed.
    pub(super) fn lines(&self) -> impl Iterator<Item = (i64, Lines)> {
        self.topics.iter().map(|topic| (topic.number, topic.claimed))
    }

    pub(super) fn find_or_add(&mut self, id: &TopicId) -> Number {
        if let Some(place) = self.find(id) {
            return place;
        }
        let number = self.topics.iter().map(|topic| topic.number).max().unwrap_or(0) + 1;
        self.add(Topic {
            number,
            id: id.clone(),
            used: false,
            active: false,
            paused: false,
            turn: 0,
            next_due: None,
            ready: 0,
            delayed: 0,
            running: 0,
            dead: 0,
            claimed: Lines::default(),
        })
    }

    #[expect(clippy::indexing_slicing, reason = "numbers come from this memory, which never shrinks")]
    pub(super) fn get(&self, topic: Number) -> &Topic {
        &self.topics[topic]
    }

    /// The topic, to be changed.
    #[expect(clippy::indexing_slicing, reason = "numbers come from this memory, which never shrinks")]
    pub(super) fn change(&mut self, topic: Number) -> &mut Topic {
        self.dirty.insert(topic);
        &mut self.topics[topic]
    }

    pub(super) fn count(&mut self, topic: Number, what: impl Into<Cow<'static, str>>, n: u64) {
        *self.tally.entry((topic, what.into())).or_default() += n;
        self.dirty.insert(topic);
    }

    /// The topics of a tenant that have delayed jobs, with the time of the first.
    pub(super) fn due(&self, tenant: &Name) -> impl Iterator<Item = (Timestamp, Number)> {
        let topics = self.topics.iter().enumerate().filter(move |(_, topic)| topic.id.tenant == *tenant);
        topics.filter_map(|(number, topic)| Some((topic.next_due?, number)))
    }

    /// Writes down what has changed.
    pub(super) fn save(&mut self, connection: &Connection, now: Timestamp) -> Done<()> {
        if self.dirty.is_empty() {
            return Ok(());
        }
        let mut save = connection.prepare_cached(SAVE)?;
        for place in std::mem::take(&mut self.dirty) {
            let topic = self.get(place);
            save.execute(params![
                topic.number,
                topic.id.tenant.as_str(),
                topic.id.topic.as_str(),
                topic.used,
                topic.active,
                topic.paused,
                i64::try_from(topic.turn).unwrap_or(0),
                topic.next_due.map(ms),
                row_count(topic.ready),
                row_count(topic.delayed),
                row_count(topic.running),
                row_count(topic.dead),
                topic.claimed.high,
                topic.claimed.normal,
                topic.claimed.low,
                ms(now),
            ])?;
        }
        let mut add = connection.prepare_cached(ADD)?;
        for ((place, what), n) in std::mem::take(&mut self.tally) {
            add.execute(params![self.get(place).number, what, row_count(n)])?;
        }
        Ok(())
    }
}

fn row_count(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
