//! Rates of keys: which jobs a claim holds back because the bucket of their key has no token left.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::embedded::fault::{Done, Fault};
use crate::embedded::limits::micros;
use crate::embedded::memory::topic::{Topic, row_count};
use crate::embedded::memory::topics::Number;
use crate::embedded::row::{at, limit as limited, ms, whole};
use crate::embedded::work::Work;
use gristmill_core::job::TopicId;
use gristmill_core::time::Timestamp;
use gristmill_core::topic::{KeyLimits, Rate};

/// What `slot` says of a job that was held back and has not started since. It starts before other jobs that hold slots of its key.
pub(in crate::embedded) const HELD_BACK: i64 = 2;

/// Whether that is what a row says.
pub(in crate::embedded) fn was_held_back(row: &Row<'_>) -> Done<bool> {
    Ok(row.get::<_, Option<i64>>("slot")? == Some(HELD_BACK))
}

/// How many jobs of a topic a claim holds back at most.
pub(in crate::embedded) const JOBS: usize = 1000;

/// When the bucket of a key is full again.
const READ: &str = "SELECT full_at FROM key_rates WHERE tenant = ?1 AND topic = ?2 AND key = ?3";

/// The jobs of a key that are held back. One that is ready again, and was not asked yet, is delayed until no time.
const HELD: &str = "SELECT delayed_until FROM job_rows WHERE number >> 43 = ?1 AND key = ?2 AND slot = 2";

/// Notes when the bucket of a key is full again.
const SAVE: &str = "INSERT INTO key_rates (tenant, topic, key, full_at) VALUES (?1, ?2, ?3, ?4)
                    ON CONFLICT (tenant, topic, key) DO UPDATE SET full_at = excluded.full_at";

/// Forgets buckets that are full again.
const FORGET: &str = "DELETE FROM key_rates WHERE (tenant, topic, key) IN
                          (SELECT tenant, topic, key FROM key_rates WHERE full_at <= ?1 ORDER BY full_at LIMIT ?2)";

/// A ready job is held back.
const HOLD_BACK: &str = "UPDATE job_rows SET number = ?2, delayed_until = ?3, slot = 2 WHERE number = ?1";

/// A job that was held back starts.
const START: &str = "UPDATE job_rows SET slot = 1 WHERE number = ?1";

/// The buckets of a topic's keys, as far as a claim has asked for them.
#[derive(Debug)]
pub(in crate::embedded) struct KeyRates<'a> {
    connection: &'a Connection,
    number: i64,
    topic: TopicId,
    rate: Rate,
    /// Several jobs of a key may hold a slot, so others may be held back already.
    several: bool,
    now: Timestamp,
    buckets: HashMap<String, Bucket>,
    /// Jobs that are held back, by their rows: each with the time.
    held_back: Vec<(i64, Timestamp)>,
}

#[derive(Debug)]
struct Bucket {
    full_at: u64,
    is_changed: bool,
    /// How many jobs of the key are held back.
    held: u64,
    /// Until when they are delayed. None of a key of which one job runs at a time.
    until: BTreeSet<Timestamp>,
}

/// A job with a key that is next in line.
#[derive(Debug, Clone, Copy)]
pub(in crate::embedded) struct Asking<'a> {
    pub(in crate::embedded) row: i64,
    pub(in crate::embedded) key: &'a str,
    pub(in crate::embedded) was_held_back: bool,
}

impl<'a> KeyRates<'a> {
    /// Returns `None` if the keys have no rate.
    pub(in crate::embedded) fn new(
        connection: &'a Connection,
        of: &Topic,
        limits: KeyLimits,
        now: Timestamp,
    ) -> Option<Self> {
        let (number, topic, rate, several) = (of.number, of.id.clone(), limits.rate?, limits.max_running > 1);
        Some(Self { connection, number, topic, rate, several, now, buckets: HashMap::new(), held_back: Vec::new() })
    }

    /// Whether no more jobs can be held back.
    pub(in crate::embedded) fn is_full(&self) -> bool {
        self.held_back.len() >= JOBS
    }

    pub(in crate::embedded) fn holds_some_back(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// Whether a job may start. If not, it is held back.
    pub(in crate::embedded) fn may_start(&mut self, asking: Asking<'_>) -> Done<bool> {
        let (rate, now) = (self.rate, self.now);
        let bucket = self.bucket(asking.key)?;
        if rate.allowed(bucket.full_at, micros(now)) > 0 && (asking.was_held_back || bucket.held == 0) {
            return Ok(true);
        }
        let until = bucket.next_start(rate, now, asking.was_held_back);
        bucket.until.insert(until);
        bucket.held = (bucket.held + u64::from(!asking.was_held_back)).max(1);
        self.held_back.push((asking.row, until));
        Ok(false)
    }

    /// Takes a token for a job that starts.
    pub(in crate::embedded) fn start(&mut self, asking: Asking<'_>) -> Done<()> {
        let (rate, now) = (self.rate, micros(self.now));
        let bucket = self.bucket(asking.key)?;
        bucket.full_at = rate.full_again(bucket.full_at, now, 1);
        bucket.is_changed = true;
        if asking.was_held_back {
            bucket.held = bucket.held.saturating_sub(1);
        }
        Ok(())
    }

    fn bucket(&mut self, key: &str) -> Done<&mut Bucket> {
        if !self.buckets.contains_key(key) {
            let bucket = self.read(key)?;
            self.buckets.insert(key.to_owned(), bucket);
        }
        self.buckets.get_mut(key).ok_or(Fault::Closed)
    }

    fn read(&self, key: &str) -> Done<Bucket> {
        let mut read = self.connection.prepare_cached(READ)?;
        let of = params![self.topic.tenant.as_str(), self.topic.topic.as_str(), key];
        let full_at = read.query_row(of, |row| row.get(0).map(whole)).optional()?.unwrap_or(0);
        // One that is emptier than empty is taken as empty: the rate was raised since, or the clock set back.
        let now = micros(self.now);
        let cut = self.rate.full_again(full_at, now, 0);
        let mut bucket = Bucket { full_at: cut, is_changed: cut < full_at, held: 0, until: BTreeSet::new() };
        if self.several {
            let mut held = self.connection.prepare_cached(HELD)?;
            for until in held.query_map(params![self.number, key], |row| row.get::<_, Option<i64>>(0))? {
                bucket.held += 1;
                bucket.until.extend(until?.map(at));
            }
        }
        Ok(bucket)
    }
}

impl Bucket {
    /// When a job may start that gets no token now. A new one comes after those that are held back already. One that was held back comes when
    /// there is a token: those before it were asked before it, and those after it find no token earlier either. Each time is one job's, so that
    /// times alone say the order.
    fn next_start(&self, rate: Rate, now: Timestamp, was_held_back: bool) -> Timestamp {
        let (each, step) = (Duration::from_micros(rate.time_of(1)), Duration::from_millis(1));
        let last = self.until.last().copied().filter(|_| !was_held_back).unwrap_or_default();
        let mut due = Timestamp::from_millis(rate.next_at(self.full_at, micros(now), 1).div_ceil(1000));
        if !was_held_back && self.held > 0 {
            due = due.max(last.max(now).plus(each + Duration::from_micros(999)));
        }
        due = due.min(now.plus(KeyLimits::HELD_MAX)).max(last.plus(step)).max(now.plus(step));
        while self.until.contains(&due) {
            due = due.plus(step);
        }
        due
    }
}

impl Work<'_> {
    /// Writes down what a claim found out about the keys of a topic.
    pub(in crate::embedded) fn save_key_rates(&mut self, topic: Number, rates: KeyRates<'_>) -> Done<()> {
        let changed: Vec<_> = rates.buckets.iter().filter(|(_, bucket)| bucket.is_changed).collect();
        if !changed.is_empty() {
            // Each bucket makes room for itself and more: those that are full again cannot pile up.
            let (now, room) = (row_count(micros(self.now())), limited(2 * changed.len()));
            self.statements.get(FORGET)?.execute(params![now, room])?;
        }
        for (key, bucket) in changed {
            let TopicId { tenant, topic } = &rates.topic;
            let full_at = row_count(bucket.full_at);
            self.statements.get(SAVE)?.execute(params![tenant.as_str(), topic.as_str(), key, full_at])?;
        }
        for (row, until) in rates.held_back {
            let place = self.delay(topic, until)?;
            self.statements.get(HOLD_BACK)?.execute(params![row, place.number, ms(until)])?;
            let changed = self.topics.change(topic);
            changed.ready = changed.ready.saturating_sub(1);
        }
        Ok(())
    }

    /// A job that was held back starts.
    pub(in crate::embedded) fn start_held_back(&mut self, row: i64) -> Done<()> {
        self.statements.get(START)?.execute([row])?;
        Ok(())
    }
}
