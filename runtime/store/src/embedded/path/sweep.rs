//! Sweep: what has outlived its limits is dropped.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Rows, params};

use super::finish::how::How;
use crate::embedded::dead::deleted;
use crate::embedded::fault::Done;
use crate::embedded::file::request::Weight;
use crate::embedded::keys::slot::held_key;
use crate::embedded::look::ended;
use crate::embedded::recordings;
use crate::embedded::row::{at, attempts, limit as limited, ms, read_id, topic, wait};
use crate::embedded::store::EmbeddedStore;
use crate::embedded::work::Work;
use crate::list::PAGE_JOBS;
use crate::{DeadLimits, IDLE_TOPICS, StoreError, Sweep, Sweepable};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;

/// How many dead jobs of a topic one call drops at most, and how many results and unique values one round of it.
const SWEEP: i64 = 1000;

/// How many such rounds one call makes at most.
const SWEEPS: usize = 1000;

/// Topics with dead jobs.
const PERISHABLE: &str = "SELECT topic FROM topics WHERE tenant = ?1 AND dead > 0";

/// Topics without jobs that are not paused and have not changed since a time. One that was forgotten is found again once no unique value names
/// it: only then its row is removed.
const IDLE: &str = "SELECT topic FROM topics WHERE tenant = ?1 AND paused = 0
                        AND (used = 1 OR NOT EXISTS (SELECT 1 FROM uniques WHERE topic_number = number))
                        AND ready + delayed + running + dead = 0 AND changed_at <= ?2 LIMIT ?3";

/// The ids of the oldest dead jobs of a topic. Without the plus, the topic's number would be compared as that of a column, and not be looked
/// for in the index.
const OLDEST_IDS: &str = "SELECT id, dead_since FROM job_rows
     WHERE number >> 43 = (SELECT +number FROM topics WHERE tenant = ?1 AND topic = ?2) AND dead_since IS NOT NULL
     ORDER BY dead_since, id LIMIT ?3";

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
                    .max(ended::expire(work.connection, work.now(), SWEEP)?)
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

fn topics(mut rows: Rows<'_>, tenant: &Name) -> Done<Vec<TopicId>> {
    let mut topics = Vec::new();
    while let Some(row) = rows.next()? {
        topics.push(topic(row, tenant)?);
    }
    Ok(topics)
}

impl Work<'_> {
    pub(in crate::embedded) fn sweep_dead(&mut self, limits: &DeadLimits) -> Done<u64> {
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
