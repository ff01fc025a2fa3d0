//! Cancel: waiting jobs are gone at once, running ones are marked.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{OptionalExtension, params};

use super::fault::Done;
use super::file::request::Weight;
use super::keys::slot::held_key;
use super::memory::topics::Number;
use super::path::finish::how::{EndOptions, How};
use super::row::{at, attempts, read_options, text, unique_until_done};
use super::store::EmbeddedStore;
use super::work::Work;
use crate::pulled::end_pulled;
use crate::{Cancelled, Control, JobChanged, Signal, StoreError};
use gristmill_core::job::{JobChange, JobId, Name, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::ENDED_RETENTION;

/// A job that is not dead.
const FIND: &str = "SELECT number, delayed_until, attempts, unique_value, unique_window_ms, options, key, slot
                    FROM job_rows WHERE id = ?1 AND tenant = ?2 AND dead_since IS NULL";

/// Marks a running job. One that was killed stays so.
const MARK: &str = "UPDATE job_rows SET cancelled = 1, killed = killed OR ?2 WHERE number = ?1";

#[async_trait]
impl Control for EmbeddedStore {
    async fn cancel(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError> {
        self.end(tenant, ids, false).await
    }

    async fn kill(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError> {
        let mut killed = self.end(tenant, ids, true).await?;
        end_pulled(self, tenant, ids, &mut killed).await?;
        Ok(killed)
    }

    async fn change(&self, tenant: &Name, ids: &[JobId], change: &JobChange) -> Result<Vec<JobChanged>, StoreError> {
        let (tenant, ids, change) = (tenant.clone(), ids.to_vec(), *change);
        let weight = Weight { jobs: ids.len(), bytes: 0 };
        let each = move |work: &mut Work<'_>| ids.iter().map(|id| work.change(&tenant, id, &change)).collect();
        self.write("change jobs", weight, each).await
    }

    async fn set_paused(&self, topic: &TopicId, paused: bool) -> Result<bool, StoreError> {
        let topic = topic.clone();
        // The writer is another task, which has no actor.
        let by = gristmill_metrics::actor();
        self.write("pause a topic", Weight::default(), move |work| work.set_paused(&topic, paused, by.as_deref())).await
    }

    async fn forget_topic(&self, topic: &TopicId) -> Result<bool, StoreError> {
        let topic = topic.clone();
        self.write("forget a topic", Weight::default(), move |work| work.forget_topic(&topic)).await
    }
}

impl EmbeddedStore {
    async fn end(&self, tenant: &Name, ids: &[JobId], kill: bool) -> Result<Vec<Cancelled>, StoreError> {
        let (tenant, ids) = (tenant.clone(), ids.to_vec());
        let weight = Weight { jobs: ids.len(), bytes: 0 };
        self.write("cancel jobs", weight, move |work| ids.iter().map(|id| work.cancel(&tenant, id, kill)).collect())
            .await
    }
}

/// A job that can still be cancelled.
struct Alive {
    number: i64,
    until: Option<Timestamp>,
    attempts: u32,
    /// The value that the end of the job sets free.
    unique: Option<String>,
    keep_result: Option<Duration>,
    /// The key of which it holds a slot.
    key: Option<String>,
    waits_for_key: bool,
}

impl Work<'_> {
    fn cancel(&mut self, tenant: &Name, id: &JobId, kill: bool) -> Done<Cancelled> {
        let Some(job) = self.find_alive(tenant, id)? else { return Ok(Cancelled::TooLate) };
        let topic = self.topics.of_job(job.number, id)?;
        if self.topics.get(topic).running_jobs.get(id).is_some() {
            self.connection.prepare_cached(MARK)?.execute(params![job.number, kill])?;
            self.topics.running_jobs_mut(topic).get_mut(id).into_iter().for_each(|job| job.cancelled = true);
            self.signals.push(Signal::Cancelled { tenant: tenant.clone(), id: id.clone() });
            self.signals.extend(kill.then(|| Signal::Killed { tenant: tenant.clone(), id: id.clone() }));
            return Ok(Cancelled::Stopping);
        }
        let options = EndOptions {
            job: id,
            unique: job.unique.as_deref(),
            attempts: job.attempts,
            keep_result: job.keep_result.unwrap_or_default(),
            remember: ENDED_RETENTION,
            notify: job.keep_result.is_some(),
        };
        let was_first = self.leave_waiting(topic, job.until);
        if job.waits_for_key {
            self.leave_key(topic);
        }
        self.finish(topic, Some(job.number), &How::Cancelled, job.key.as_deref(), Some(&options))?;
        self.after_leaving(topic, was_first)?;
        self.carry_ends()?;
        Ok(Cancelled::Gone)
    }

    /// What is left to do once the row of a waiting job is gone; see [`Work::leave_waiting`].
    pub(super) fn after_leaving(&mut self, topic: Number, was_first: bool) -> Done<()> {
        if was_first { self.find_next_due(topic) } else { Ok(()) }
    }

    fn find_alive(&self, tenant: &Name, id: &JobId) -> Done<Option<Alive>> {
        let mut find = self.connection.prepare_cached(FIND)?;
        let found = find.query_row(params![id.as_str(), tenant.as_str()], |row| {
            Ok(Alive {
                number: row.get("number")?,
                until: row.get::<_, Option<i64>>("delayed_until")?.map(at),
                attempts: attempts(row.get("attempts")?),
                unique: unique_until_done(row),
                keep_result: read_options(text(row, "options").ok().flatten())
                    .ok()
                    .and_then(|options| options.keep_result),
                key: held_key(row).ok().flatten(),
                waits_for_key: row.get::<_, Option<bool>>("slot")? == Some(false),
            })
        });
        Ok(found.optional()?)
    }
}
