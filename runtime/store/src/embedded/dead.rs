//! Dead jobs: brought back and deleted.

use async_trait::async_trait;
use rusqlite::{OptionalExtension, params};

use super::fault::Done;
use super::file::request::Weight;
use super::look::ended::EndRecord;
use super::memory::topics::Number;
use super::path::finish::how::How;
use super::recordings;
use super::results;
use super::row::{attempts, ms, priority, unique_until_done};
use super::store::EmbeddedStore;
use super::work::Work;
use crate::{DeadJobs, EndedAs, StoreError};
use gristmill_core::job::{JobId, Priority, TopicId};
use gristmill_core::topic::ENDED_RETENTION;

/// A dead job of a topic, by its id.
const FIND: &str = "SELECT number, priority, attempts, unique_value, unique_window_ms, key, slot FROM job_rows
                    WHERE id = ?1 AND tenant = ?2 AND number >> 43 = ?3 AND dead_since IS NOT NULL";

/// Makes a dead job ready, with all its attempts before it.
const RESPAWN: &str =
    "UPDATE job_rows SET number = ?2, dead_since = NULL, attempts = 0, failure = NULL, due_at = ?3, slot = ?4,
                         delayed_until = ?5, fixed = 0
     WHERE number = ?1";

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

/// What is remembered of a dead job that is deleted.
pub(super) const fn deleted(attempts: u32) -> EndRecord {
    EndRecord { outcome: EndedAs::Deleted, attempts, keep: ENDED_RETENTION }
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
        results::forget(self.connection, &tenant, id)?;
        Ok(true)
    }

    pub(super) fn count_dead_out(&mut self, topic: Number) {
        let changed = self.topics.change(topic);
        changed.dead = changed.dead.saturating_sub(1);
    }
}
