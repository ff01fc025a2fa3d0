//! A topic as the writer remembers it, and its row.

use rusqlite::{Connection, Row, Statement, params};

use super::running::Running;
use crate::LimitReached;
use crate::embedded::fault::{Done, Fault};
use crate::embedded::place::JobLine;
use crate::embedded::row::{at, ms, text, whole};
use gristmill_core::job::{Name, Priority, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::{KeyLimits, OnDead};

/// The last row of a line.
pub(in crate::embedded) const LAST_OF_LINE: &str =
    "SELECT max(number) FROM job_rows WHERE number > ?1 AND number <= ?2";

/// Writes a topic down.
pub(in crate::embedded) const SAVE: &str =
    "INSERT INTO topics (number, tenant, topic, used, active, paused, turn, next_due, ready, delayed,
                        running, dead, claimed_high, claimed_normal, claimed_low, limited_until, rate_full_at,
                        waiting_for_key, key_slots, key_halts, changed_at)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                    ON CONFLICT (number) DO UPDATE SET used = excluded.used, active = excluded.active,
                        paused = excluded.paused, turn = excluded.turn, next_due = excluded.next_due,
                        ready = excluded.ready, delayed = excluded.delayed, running = excluded.running,
                        dead = excluded.dead, claimed_high = excluded.claimed_high,
                        claimed_normal = excluded.claimed_normal, claimed_low = excluded.claimed_low,
                        limited_until = excluded.limited_until, rate_full_at = excluded.rate_full_at,
                        waiting_for_key = excluded.waiting_for_key, key_slots = excluded.key_slots,
                        key_halts = excluded.key_halts,
                        changed_at = max(changed_at, excluded.changed_at)";

#[derive(Debug)]
pub(in crate::embedded) struct Topic {
    /// In the file.
    pub(in crate::embedded) number: i64,
    pub(in crate::embedded) id: TopicId,
    /// It has held a job.
    pub(in crate::embedded) used: bool,
    /// Jobs became ready, and no claim has found it empty since. Never of a paused topic.
    pub(in crate::embedded) active: bool,
    pub(in crate::embedded) paused: bool,
    pub(in crate::embedded) turn: usize,
    /// See [`Topics::set_next_due`](super::topics::Topics::set_next_due).
    pub(in crate::embedded) next_due: Option<Timestamp>,
    /// The limit that keeps its ready jobs in line. It stays `active`, so that what is pushed meanwhile wakes no claim.
    /// See [`Topics::set_limited`](super::topics::Topics::set_limited).
    pub(in crate::embedded) limited: Option<LimitReached>,
    /// How far its rate is used up: see [`Rate`](gristmill_core::topic::Rate).
    pub(in crate::embedded) rate_full_at: u64,
    /// What holds for the jobs of a key, by the last claim.
    pub(in crate::embedded) per_key: KeyLimits,
    /// How many of its jobs are where.
    pub(in crate::embedded) ready: u64,
    /// Of the ready ones, those that wait for another job of their key.
    pub(in crate::embedded) waiting_for_key: u64,
    pub(in crate::embedded) delayed: u64,
    pub(in crate::embedded) running: u64,
    pub(in crate::embedded) dead: u64,
    /// The row that was claimed last. A job that becomes ready gets a later one, so ready jobs stand behind it; running jobs
    /// keep theirs, at it or before.
    pub(in crate::embedded) claimed: PriorityRows,
    /// No ready job stands behind this row.
    pub(in crate::embedded) last: PriorityRows,
    pub(in crate::embedded) running_jobs: Running,
    /// It is in the list of topics without jobs.
    pub(in crate::embedded) listed: bool,
}

/// A row of each priority's line.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::embedded) struct PriorityRows {
    high: i64,
    normal: i64,
    low: i64,
}

impl PriorityRows {
    /// Reads them from a row of `topics`.
    pub(in crate::embedded) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { high: row.get("claimed_high")?, normal: row.get("claimed_normal")?, low: row.get("claimed_low")? })
    }

    /// What stands before the first row of each line.
    fn beginning(topic: i64) -> Self {
        let before = |priority| JobLine::Of(priority).bounds(topic).0;
        Self { high: before(Priority::High), normal: before(Priority::Normal), low: before(Priority::Low) }
    }

    pub(in crate::embedded) fn get(self, priority: Priority) -> i64 {
        match priority {
            Priority::High => self.high,
            Priority::Normal => self.normal,
            Priority::Low => self.low,
        }
    }

    pub(in crate::embedded) fn set(&mut self, priority: Priority, number: i64) {
        *match priority {
            Priority::High => &mut self.high,
            Priority::Normal => &mut self.normal,
            Priority::Low => &mut self.low,
        } = number;
    }
}

impl Topic {
    pub(in crate::embedded) fn new(number: i64, id: TopicId) -> Self {
        Self {
            number,
            id,
            used: false,
            active: false,
            paused: false,
            turn: 0,
            next_due: None,
            limited: None,
            rate_full_at: 0,
            per_key: KeyLimits::DEFAULT,
            ready: 0,
            waiting_for_key: 0,
            delayed: 0,
            running: 0,
            dead: 0,
            claimed: PriorityRows::beginning(number),
            last: PriorityRows::beginning(number),
            running_jobs: Running::default(),
            listed: false,
        }
    }

    /// Returns `None` for a name that is none: this program did not write it, and no caller can ask for it.
    pub(in crate::embedded) fn read(row: &Row<'_>) -> Done<Option<Self>> {
        let name = |column| Ok::<_, Fault>(text(row, column)?.and_then(|name| name.parse::<Name>().ok()));
        let count = |column: &str| row.get(column).map(whole);
        let (Some(tenant), Some(topic)) = (name("tenant")?, name("topic")?) else { return Ok(None) };
        Ok(Some(Self {
            number: row.get("number")?,
            id: TopicId { tenant, topic },
            used: row.get("used")?,
            active: row.get("active")?,
            paused: row.get("paused")?,
            turn: usize::try_from(row.get::<_, i64>("turn")?).unwrap_or(0),
            next_due: row.get::<_, Option<i64>>("next_due")?.map(at),
            limited: read_limited(row)?,
            rate_full_at: count("rate_full_at")?,
            per_key: read_key_limits(row)?,
            ready: count("ready")?,
            waiting_for_key: count("waiting_for_key")?,
            delayed: count("delayed")?,
            running: count("running")?,
            dead: count("dead")?,
            claimed: PriorityRows::read(row)?,
            last: PriorityRows::read(row)?,
            running_jobs: Running::default(),
            listed: false,
        }))
    }

    pub(in crate::embedded) fn save(&self, save: &mut Statement<'_>, now: Timestamp) -> Done<()> {
        // By place: looking for all these names took longer than the rest of it.
        save.execute(params![
            self.number,
            self.id.tenant.as_str(),
            self.id.topic.as_str(),
            self.used,
            self.active,
            self.paused,
            i64::try_from(self.turn).unwrap_or(0),
            self.next_due.map(ms),
            row_count(self.ready),
            row_count(self.delayed),
            row_count(self.running),
            row_count(self.dead),
            self.claimed.high,
            self.claimed.normal,
            self.claimed.low,
            self.limited.map(|limited| match limited {
                LimitReached::TenantMaxRunning => UNTIL_AN_END_OF_TENANT,
                limit => limit.until().map_or(UNTIL_AN_END, ms),
            }),
            row_count(self.rate_full_at),
            row_count(self.waiting_for_key),
            self.per_key.max_running,
            self.per_key.on_dead == OnDead::Halt,
            ms(now),
        ])?;
        Ok(())
    }

    /// Looks for the last row of each line.
    pub(in crate::embedded) fn find_last(&mut self, connection: &Connection) -> Done<()> {
        let mut find = connection.prepare_cached(LAST_OF_LINE)?;
        for priority in Priority::ALL {
            let last: Option<i64> = find.query_row(JobLine::Of(priority).bounds(self.number), |row| row.get(0))?;
            self.last.set(priority, last.unwrap_or(0).max(self.claimed.get(priority)));
        }
        Ok(())
    }

    /// When something is to be done for it that no request asks for.
    pub(in crate::embedded) fn wakes_at(&self) -> Option<Timestamp> {
        let limited_until = self.limited.as_ref().and_then(LimitReached::until);
        self.next_due.into_iter().chain(limited_until).min()
    }

    /// Whether it has jobs that a claim may take.
    pub(in crate::embedded) fn has_claimable(&self) -> bool {
        self.ready > self.waiting_for_key
    }

    pub(in crate::embedded) fn is_empty(&self) -> bool {
        self.ready == 0 && self.delayed == 0 && self.running == 0 && self.dead == 0
    }
}

/// What `limited_until` says of a topic whose running jobs are too many.
const UNTIL_AN_END: i64 = -1;

/// The same of one whose tenant has too many of them.
const UNTIL_AN_END_OF_TENANT: i64 = -2;

/// Reads the limit that keeps jobs in line from a row of `topics`. A budget of its tenant reads as a rate.
pub(in crate::embedded) fn read_limited(row: &Row<'_>) -> rusqlite::Result<Option<LimitReached>> {
    Ok(row.get::<_, Option<i64>>("limited_until")?.map(|until| match until {
        UNTIL_AN_END => LimitReached::MaxRunning,
        UNTIL_AN_END_OF_TENANT => LimitReached::TenantMaxRunning,
        until => LimitReached::Rate { until: at(until) },
    }))
}

fn read_key_limits(row: &Row<'_>) -> rusqlite::Result<KeyLimits> {
    let halts: bool = row.get("key_halts")?;
    let on_dead = if halts { OnDead::Halt } else { OnDead::Continue };
    Ok(KeyLimits { max_running: row.get("key_slots")?, on_dead, rate: None })
}

pub(in crate::embedded) fn row_count(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
