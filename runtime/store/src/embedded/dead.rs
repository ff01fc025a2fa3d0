//! Dead jobs: listed, brought back, deleted, and dropped when they are too old or too many.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Rows, params};

use super::ended::End;
use super::fault::Done;
use super::finish::How;
use super::keys::held_key;
use super::recordings;
use super::request::Weight;
use super::result;
use super::row::{at, attempts, limit as limited, ms, priority, read_id, topic, unique_until_done, wait};
use super::store::EmbeddedStore;
use super::topics::Number;
use super::work::Work;
use crate::list::PAGE_JOBS;
use crate::{DeadJobs, DeadLimits, EndedAs, IDLE_TOPICS, StoreError, Sweep, Sweepable};
use gristmill_core::job::{JobId, Name, Priority, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::ENDED_RETENTION;

/// How many dead jobs of a topic one call drops at most, and how many results and unique values one round of it.
const SWEEP: i64 = 1000;

/// How many such rounds one call makes at most.
const SWEEPS: usize = 1000;

/// Topics with dead jobs.
const PERISHABLE: &str = "SELECT topic FROM topics WHERE tenant = ?1 AND dead > 0";

/// Topics without jobs that are not paused and have not changed since a time.
const IDLE: &str = "SELECT topic FROM topics WHERE tenant = ?1 AND used = 1 AND paused = 0
                        AND ready + delayed + running + dead = 0 AND changed_at <= ?2 LIMIT ?3";

/// The ids of the oldest dead jobs of a topic. Without the plus, the topic's number would be compared as that of a column, and not be looked
/// for in the index.
const OLDEST_IDS: &str = "SELECT id, dead_since FROM job_rows
     WHERE number >> 43 = (SELECT +number FROM topics WHERE tenant = ?1 AND topic = ?2) AND dead_since IS NOT NULL
     ORDER BY dead_since, id LIMIT ?3";

/// A dead job of a topic, by its id.
const FIND: &str = "SELECT number, priority, attempts, unique_value, unique_window_ms, key, slot FROM job_rows
                    WHERE id = ?1 AND tenant = ?2 AND number >> 43 = ?3 AND dead_since IS NOT NULL";

/// Makes a dead job ready, with all its attempts before it.
const RESPAWN: &str =
    "UPDATE job_rows SET number = ?2, dead_since = NULL, attempts = 0, failure = NULL, due_at = ?3, slot = ?4,
                         delayed_until = ?5
     WHERE number = ?1";

/// The oldest dead jobs of a topic.
const OLDEST: &str = "SELECT number, id, attempts, key, slot FROM job_rows
     WHERE number >> 43 = ?1 AND dead_since IS NOT NULL ORDER BY dead_since, id LIMIT ?2";

/// How many of the oldest dead jobs of a topic have been dead since a time or longer; counts no further than a limit.
const AGED: &str =
    "SELECT count(*) FROM (SELECT 1 FROM job_rows WHERE number >> 43 = ?1 AND dead_since <= ?2 LIMIT ?3)";

#[async_trait]
impl Sweep for EmbeddedStore {
    async fn sweepable(&self, tenant: &Name, idle_for: Duration) -> Result<Sweepable, StoreError> {
        let tenant = tenant.clone();
        self.read("look for what is over", move |connection, now| {
            let idle_since = ms(now).saturating_sub(wait(idle_for));
            let mut perishable = connection.prepare_cached(PERISHABLE)?;
            let mut idle = connection.prepare_cached(IDLE)?;
            Ok(Sweepable {
                perishable: topics(perishable.query([tenant.as_str()])?, &tenant)?,
                idle: topics(idle.query(params![tenant.as_str(), idle_since, limited(IDLE_TOPICS)])?, &tenant)?,
            })
        })
        .await
    }

    async fn sweep(&self, limits: &[DeadLimits]) -> Result<Vec<u64>, StoreError> {
        const DOING: &str = "sweep";
        let weight = Weight { jobs: 1000, bytes: 0 };
        let mut dropped = Vec::with_capacity(limits.len());
        for line in limits {
            let line = line.clone();
            dropped.push(self.write(DOING, weight, move |work| work.sweep_dead(&line)).await?);
        }
        self.write(DOING, weight, |work| work.forget_workers()).await?;
        // A thousand a minute would be less than a busy producer makes; each thousand is a commit of its own.
        for _ in 0..SWEEPS {
            let expired = |work: &mut Work<'_>| {
                Ok(work
                    .expire_results(SWEEP)?
                    .max(work.expire_ended(SWEEP)?)
                    .max(work.expire_recordings(SWEEP)?)
                    .max(work.expire_uniques(SWEEP)?)
                    .max(work.expire_bills(SWEEP)?)
                    .max(work.expire_states(SWEEP)?))
            };
            if self.write(DOING, weight, expired).await? < SWEEP.unsigned_abs() as usize {
                break;
            }
        }
        Ok(dropped)
    }

    async fn oldest_dead(&self, topic: &TopicId, limit: usize) -> Result<Vec<(Timestamp, JobId)>, StoreError> {
        let (topic, limit) = (topic.clone(), limited(limit.min(PAGE_JOBS)));
        self.read("look for the oldest dead jobs", move |connection, _| {
            let mut select = connection.prepare_cached(OLDEST_IDS)?;
            let mut rows = select.query(params![topic.tenant.as_str(), topic.topic.as_str(), limit])?;
            let mut oldest = Vec::new();
            while let Some(row) = rows.next()? {
                oldest.push((at(row.get("dead_since")?), read_id(row)?));
            }
            Ok(oldest)
        })
        .await
    }
}

#[async_trait]
impl DeadJobs for EmbeddedStore {
    async fn respawn(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        self.each_dead("respawn dead jobs", topic, ids, |work, topic, id| work.respawn(topic, id)).await
    }

    async fn delete_dead(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        self.each_dead("delete dead jobs", topic, ids, |work, topic, id| {
            let Some(dead) = work.find_dead(topic, id)? else { return Ok(false) };
            work.count_dead_out(topic);
            work.finish(topic, Some(dead.number), &How::Deleted, dead.held_key(), None)?;
            work.topics.remember(topic, id, deleted(dead.attempts));
            let name = work.topics.get(topic).id.clone();
            work.forget_dead(&name.tenant, id)?;
            recordings::forget(work.connection, &name, id)?;
            Ok(true)
        })
        .await
    }
}

impl EmbeddedStore {
    async fn each_dead(
        &self,
        doing: &'static str,
        topic: &TopicId,
        ids: &[JobId],
        change: fn(&mut Work<'_>, Number, &JobId) -> Done<bool>,
    ) -> Result<Vec<bool>, StoreError> {
        let mut answers = Vec::with_capacity(ids.len());
        while let Some(ids) = ids.get(answers.len()..).filter(|ids| !ids.is_empty()) {
            let (topic, ids) = (topic.clone(), ids.to_vec());
            let some = self.write(doing, Weight { jobs: ids.len(), bytes: 0 }, move |work| {
                let Some(topic) = work.topics.find(work.connection, &topic)? else { return Ok(vec![false; ids.len()]) };
                let mut some = Vec::new();
                for id in &ids {
                    some.push(change(work, topic, id)?);
                    // What is left is for the next transaction.
                    if work.room == 0 {
                        break;
                    }
                }
                Ok(some)
            });
            answers.extend(some.await?);
        }
        Ok(answers)
    }
}

fn topics(mut rows: Rows<'_>, tenant: &Name) -> Done<Vec<TopicId>> {
    let mut topics = Vec::new();
    while let Some(row) = rows.next()? {
        topics.push(topic(row, tenant)?);
    }
    Ok(topics)
}

/// What is remembered of a dead job that is deleted.
const fn deleted(attempts: u32) -> End {
    End { outcome: EndedAs::Deleted, attempts, keep: ENDED_RETENTION }
}

/// A dead job.
struct Dead {
    number: i64,
    attempts: u32,
    priority: Priority,
    /// The value that it held until it died.
    unique: Option<String>,
    key: Option<String>,
    /// It holds a slot of its key.
    halts: bool,
}

impl Dead {
    fn held_key(&self) -> Option<&str> {
        self.key.as_deref().filter(|_| self.halts)
    }
}

impl Work<'_> {
    fn find_dead(&self, topic: Number, id: &JobId) -> Done<Option<Dead>> {
        let TopicId { tenant, .. } = &self.topics.get(topic).id;
        let mut find = self.connection.prepare_cached(FIND)?;
        let found: Option<(_, _, Done<_>, _, Option<String>, Option<bool>)> = find
            .query_row(params![id.as_str(), tenant.as_str(), self.topics.get(topic).number], |row| {
                let (number, made) = (row.get("number")?, row.get("attempts")?);
                Ok((number, made, priority(row), unique_until_done(row), row.get("key")?, row.get("slot")?))
            })
            .optional()?;
        let dead = |(number, made, priority, unique, key, slot): (_, _, Done<_>, _, Option<String>, _)| {
            let key = key.filter(|key| !key.is_empty());
            Ok(Dead { number, attempts: attempts(made), priority: priority?, unique, key, halts: slot == Some(true) })
        };
        found.map(dead).transpose()
    }

    fn respawn(&mut self, topic: Number, id: &JobId) -> Done<bool> {
        let Some(dead) = self.find_dead(topic, id)? else { return Ok(false) };
        if let Some(value) = &dead.unique {
            if self.holder(topic, value)?.is_some_and(|holder| holder != *id) {
                return Ok(false);
            }
            self.hold(topic, value, id, None)?;
        }
        let tenant = self.topics.get(topic).id.tenant.clone();
        self.room = self.room.saturating_sub(self.reopen(&tenant, id)?);
        let mut place = if self.waits_for_some(&tenant, id)? {
            self.stand_by(topic)?
        } else {
            self.wait(topic, dead.priority, self.now(), dead.key.as_deref().filter(|_| !dead.halts))?
        };
        if dead.halts {
            place.slot = Some(true);
        }
        let mut respawn = self.connection.prepare_cached(RESPAWN)?;
        respawn.execute(params![dead.number, place.number, ms(self.now()), place.slot, place.until.map(ms)])?;
        self.count_dead_out(topic);
        result::forget(self.connection, &tenant, id)?;
        Ok(true)
    }

    pub(super) fn count_dead_out(&mut self, topic: Number) {
        let changed = self.topics.change(topic);
        changed.dead = changed.dead.saturating_sub(1);
    }

    pub(super) fn sweep_dead(&mut self, limits: &DeadLimits) -> Done<u64> {
        let Some(topic) = self.topics.find(self.connection, &limits.topic)? else { return Ok(0) };
        let found = self.topics.get(topic);
        let too_many = i64::try_from(found.dead.saturating_sub(limits.keep)).unwrap_or(SWEEP);
        let last = ms(self.now()).saturating_sub(wait(limits.retention));
        let mut aged = self.connection.prepare_cached(AGED)?;
        let too_old: i64 = aged.query_row([found.number, last, SWEEP], |row| row.get(0))?;
        // Both are the oldest: those that are over one limit are among those that are over the other, or the reverse.
        let over = too_many.max(too_old).min(SWEEP);
        if over == 0 {
            return Ok(0);
        }
        let mut select = self.connection.prepare_cached(OLDEST)?;
        let dead = select.query_map([found.number, over], |row| {
            Ok((row.get("number")?, row.get("id")?, row.get("attempts")?, held_key(row)))
        })?;
        let dead = dead.collect::<Result<Vec<(i64, String, i64, _)>, _>>()?;
        let count = dead.len() as u64;
        for (number, id, made, key) in dead {
            self.count_dead_out(topic);
            self.finish(topic, Some(number), &How::Discarded, key?.as_deref(), None)?;
            if let Ok(id) = id.parse() {
                self.topics.remember(topic, &id, deleted(attempts(made)));
                self.forget_dead(&limits.topic.tenant, &id)?;
                recordings::forget(self.connection, &limits.topic, &id)?;
            }
        }
        Ok(count)
    }
}
