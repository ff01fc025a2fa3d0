//! Moving jobs out of this store and into it.

use std::ops::RangeInclusive;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::{Done, Fault};
use super::file::request::Weight;
use super::keys::slot::held_key;
use super::memory::topics::Number;
use super::path::push::CHUNK;
use super::path::push::insert::{JobRow, RowPlace};
use super::place::topic_of;
use super::row::{Columns, JobHistory, Written, at, job_columns, limit as limited, ms, read_id, write_failure};
use super::store::EmbeddedStore;
use super::unique::held_until;
use super::work::Work;
use crate::batch::parts;
use crate::clock::{point_ms, wait_ms};
use crate::weight::Weigh;
use crate::{
    Imported, Sealed, StoreError, StoredJob, StoredPlace, StoredResult, StoredState, StoredWindow, TakenBill, Transfer,
};
use gristmill_core::bill::Day;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;

/// What a sealed job is known by that this store can keep: its [`Columns`] as JSON.
const KIND: &str = "sqlite";

/// Jobs of a topic, `?1` and `?2`: first what all share, then the condition and the order.
macro_rules! exported {
    ($which:expr) => {
        concat!(
            "SELECT ",
            job_columns!(),
            ", job_rows.number AS number, slot, delayed_until, dead_since FROM topics CROSS JOIN job_rows ON ",
            $which,
            " LIMIT ?3"
        )
    };
}

/// The condition that a job neither waits for others, or has waited, nor is waited for: what does stays in its store until it has ended.
macro_rules! unlinked {
    () => {
        " AND NOT EXISTS (SELECT 1 FROM links WHERE links.tenant = ?1 AND links.waiter = job_rows.id)
          AND NOT EXISTS (SELECT 1 FROM links WHERE links.tenant = ?1 AND links.job = job_rows.id AND coalesce(links.ended, 'd') = 'd')"
    };
}

/// The ready jobs of a line, given its number and what was claimed of it.
macro_rules! ready {
    ($line:literal, $claimed:literal) => {
        exported!(concat!(
            "job_rows.number > ",
            $claimed,
            " AND job_rows.number < (topics.number << 43) + ((",
            $line,
            " + 1) << 41) WHERE topics.tenant = ?1 AND topic = ?2",
            unlinked!(),
            " ORDER BY job_rows.number"
        ))
    };
}

/// Waiting and dead jobs of a topic, place by place. The plus is for the index, see `dead`.
const OUTGOING: [&str; 6] = [
    ready!("0", "claimed_high"),
    ready!("1", "claimed_normal"),
    ready!("2", "claimed_low"),
    exported!(concat!(
        "job_rows.number >> 43 = +topics.number AND delayed_until IS NOT NULL
         WHERE topics.tenant = ?1 AND topic = ?2",
        unlinked!(),
        " ORDER BY delayed_until, id"
    )),
    exported!(
        "job_rows.number >> 43 = +topics.number AND dead_since IS NOT NULL
         WHERE topics.tenant = ?1 AND topic = ?2 ORDER BY dead_since, id"
    ),
    exported!(concat!(
        "job_rows.number >> 43 = +topics.number AND slot = 0
         WHERE topics.tenant = ?1 AND topic = ?2",
        unlinked!(),
        " ORDER BY key, job_rows.number"
    )),
];

/// Marks a job as moved.
const MARK: &str = "INSERT OR REPLACE INTO moved (tenant, id, enqueued_at) VALUES (?1, ?2, ?3)";

/// Whether this very job is marked: an id may be used again, but not at the same time.
const MARKED: &str = "SELECT 1 FROM moved WHERE tenant = ?1 AND id = ?2 AND enqueued_at = ?3";

/// Takes the mark off a job.
const UNMARK: &str = "DELETE FROM moved WHERE tenant = ?1 AND id = ?2";

/// A job of a topic.
const FIND: &str = "SELECT number, dead_since IS NOT NULL AS dead, delayed_until, unique_value, key, slot FROM job_rows
                    WHERE id = ?1 AND tenant = ?2 AND number >> 43 = ?3";

#[async_trait]
impl Transfer for EmbeddedStore {
    async fn export(&self, topic: &TopicId, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
        let topic = topic.clone();
        self.read_list("read jobs to be moved", move |connection, now| export(connection, &topic, limit, now)).await
    }

    async fn import(&self, jobs: &[StoredJob]) -> Result<Vec<Imported>, StoreError> {
        let mut answers = Vec::with_capacity(jobs.len());
        for (part, weight) in parts(jobs, CHUNK, |stored| Weight::of_job(stored.weight())) {
            let part: Vec<StoredJob> = part.into_iter().cloned().collect();
            let taken: Vec<Imported> = self
                .write("take jobs in", weight, move |work| part.iter().map(|job| work.import(job)).collect())
                .await?;
            answers.extend(taken);
        }
        Ok(answers)
    }

    async fn remove_exported(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        let (topic, ids) = (topic.clone(), ids.to_vec());
        let weight = Weight { jobs: ids.len(), bytes: 0 };
        self.write("let go of jobs", weight, move |work| match work.topics.find(work.connection, &topic)? {
            Some(topic) => ids.iter().map(|id| work.remove_exported(topic, id)).collect(),
            None => Ok(vec![false; ids.len()]),
        })
        .await
    }

    async fn clear_move_marks(&self, tenant: &Name, ids: &[JobId]) -> Result<(), StoreError> {
        let (tenant, ids) = (tenant.clone(), ids.to_vec());
        let weight = Weight { jobs: ids.len(), bytes: 0 };
        self.write("forget moved jobs", weight, move |work| {
            let mut unmark = work.connection.prepare_cached(UNMARK)?;
            ids.iter().try_for_each(|id| unmark.execute([tenant.as_str(), id.as_str()]).map(drop))?;
            Ok(())
        })
        .await
    }

    async fn export_windows(&self, topic: &TopicId, limit: usize) -> Result<Vec<StoredWindow>, StoreError> {
        self.windows(topic, limit).await
    }

    async fn import_windows(&self, topic: &TopicId, windows: &[StoredWindow]) -> Result<(), StoreError> {
        self.add_windows(topic, windows).await
    }

    async fn remove_windows(&self, topic: &TopicId, windows: &[StoredWindow]) -> Result<(), StoreError> {
        self.drop_windows(topic, windows).await
    }

    async fn has_links(&self, tenant: &Name) -> Result<bool, StoreError> {
        self.any_links(tenant).await
    }

    async fn jobs_with_result(&self, tenant: &Name) -> Result<Vec<JobId>, StoreError> {
        self.all_jobs_with_result(tenant).await
    }

    async fn export_results(&self, tenant: &Name, jobs: &[JobId]) -> Result<Vec<StoredResult>, StoreError> {
        self.stored_results(tenant, jobs).await
    }

    async fn import_results(&self, tenant: &Name, results: &[StoredResult]) -> Result<u64, StoreError> {
        self.add_results(tenant, results).await
    }

    async fn keys_with_state(&self, tenant: &Name) -> Result<Vec<(TopicId, String)>, StoreError> {
        self.all_keys_with_state(tenant).await
    }

    async fn export_state(&self, topic: &TopicId, key: &str) -> Result<Option<StoredState>, StoreError> {
        self.one_state(topic, key).await
    }

    async fn import_state(&self, topic: &TopicId, key: &str, state: &StoredState) -> Result<bool, StoreError> {
        let (topic, key, state) = (topic.clone(), key.to_owned(), state.clone());
        let weight = Weight { jobs: 1, bytes: state.value.len() };
        self.write("take the state of a key in", weight, move |work| work.import_state(&topic, &key, &state)).await
    }

    async fn take_bills(
        &self,
        tenant: &Name,
        days: &RangeInclusive<Day>,
        mark: u64,
    ) -> Result<Vec<TakenBill>, StoreError> {
        let (tenant, days) = (tenant.clone(), days.clone());
        let take = move |work: &mut Work<'_>| work.take_bills(&tenant, &days, mark);
        self.write("take a bill out", Weight::default(), take).await
    }

    async fn drop_taken_bill(&self, tenant: &Name, day: Day, mark: u64) -> Result<(), StoreError> {
        let tenant = tenant.clone();
        let drop_taken = move |work: &mut Work<'_>| work.drop_taken_bill(&tenant, day, mark);
        self.write("drop a bill that has moved", Weight::default(), drop_taken).await
    }
}

fn export(connection: &Connection, topic: &TopicId, limit: usize, now: Timestamp) -> Done<Vec<StoredJob>> {
    let mut jobs = Vec::new();
    for sql in OUTGOING {
        let mut select = connection.prepare_cached(sql)?;
        let left = limited(limit - jobs.len());
        let mut rows = select.query(params![topic.tenant.as_str(), topic.topic.as_str(), left])?;
        while let Some(row) = rows.next()? {
            jobs.push(read(connection, row, topic, now)?);
        }
    }
    Ok(jobs)
}

fn read(connection: &Connection, row: &Row<'_>, topic: &TopicId, now: Timestamp) -> Done<StoredJob> {
    let (id, columns, history) = (read_id(row)?, Columns::read(row)?, JobHistory::read(row)?);
    let place = match (row.get::<_, Option<i64>>("delayed_until")?, row.get::<_, Option<i64>>("dead_since")?) {
        (Some(until), _) => StoredPlace::Delayed { until: at(until) },
        (_, Some(since)) => StoredPlace::Dead { since: at(since) },
        (None, None) => StoredPlace::Ready,
    };
    let held = match columns.unique() {
        Some((value, _)) => held_until(connection, topic_of(row.get("number")?), value, &id)?,
        None => None,
    };
    let (job, sealed) = match columns.clone().job(id.clone(), topic) {
        Ok(job) => (job, None),
        Err(problem) => {
            let bytes = serde_json::to_vec(&columns).map_err(|error| Fault::Refused(error.to_string()))?;
            (columns.placeholder(id, topic), Some(Sealed { kind: KIND, bytes, problem }))
        }
    };
    Ok(StoredJob {
        job,
        sealed,
        place,
        attempts: history.attempts,
        deliveries: history.deliveries,
        last_failure: history.failure,
        checkpoint: history.checkpoint,
        holds_slot: place != StoredPlace::Ready && row.get::<_, Option<bool>>("slot")? == Some(true),
        unique_for: held.map(|until| until.since(now)).filter(|left| !left.is_zero()),
    })
}

impl Work<'_> {
    fn import(&mut self, stored: &StoredJob) -> Done<Imported> {
        let spec = &stored.job.spec;
        let written = Written::of(spec)?;
        let columns = match &stored.sealed {
            None => Columns::of(spec, &written, (stored.job.enqueued_at, stored.job.due_at)),
            Some(sealed) => match sealed.open(KIND).map(serde_json::from_slice) {
                Some(Ok(columns)) => columns,
                _ => return Ok(Imported::Unreadable),
            },
        };
        let (tenant, id) = (spec.topic.tenant.as_str(), spec.id.as_str());
        let enqueued_at = ms(stored.job.enqueued_at);
        if self.connection.prepare_cached(MARKED)?.exists(params![tenant, id, enqueued_at])? {
            return Ok(Imported::Before);
        }
        if self.exists(spec)? {
            return Ok(Imported::IdTaken);
        }
        self.connection.prepare_cached(MARK)?.execute(params![tenant, id, enqueued_at])?;
        let topic = self.topics.find_or_add(self.connection, &spec.topic)?;
        self.take_unique(topic, &columns, stored)?;
        let columns_have_key = columns.shared_key().is_some();
        let place = match stored.place {
            StoredPlace::Ready => {
                RowPlace::Waiting(self.wait(topic, columns.priority(), self.now(), columns.shared_key())?)
            }
            StoredPlace::Delayed { until } => {
                RowPlace::Waiting(self.delay(topic, Timestamp::from_millis(point_ms(until)))?)
            }
            StoredPlace::Dead { since } => {
                let changed = self.topics.change(topic);
                changed.dead += 1;
                changed.used = true;
                RowPlace::Dead { since }
            }
        };
        self.insert(
            topic,
            &JobRow {
                id: &spec.id,
                columns,
                place,
                attempts: stored.attempts,
                deliveries: stored.deliveries,
                failure: stored.last_failure.as_ref().map(write_failure).transpose()?,
                checkpoint: stored.checkpoint.as_deref(),
                holds_slot: stored.holds_slot && columns_have_key,
                fixed: false,
            },
        )?;
        Ok(Imported::Stored)
    }

    /// A value that is free goes to the job, if it held it where it comes from.
    fn take_unique(&mut self, topic: Number, columns: &Columns<'_>, stored: &StoredJob) -> Done<()> {
        let Some((value, for_a_time)) = columns.unique() else { return Ok(()) };
        let until = match (for_a_time, stored.unique_for) {
            (true, Some(left)) => Some(self.now().plus(Duration::from_millis(wait_ms(left)))),
            (false, _) if !matches!(stored.place, StoredPlace::Dead { .. }) => None,
            _ => return Ok(()),
        };
        if self.holder(topic, value)?.is_none() {
            self.hold(topic, value, &stored.job.spec.id, until)?;
        }
        Ok(())
    }

    fn remove_exported(&mut self, topic: Number, id: &JobId) -> Done<bool> {
        let found = self.topics.get(topic);
        if found.running_jobs.get(id).is_some() {
            return Ok(false);
        }
        let tenant = found.id.tenant.clone();
        let mut find = self.connection.prepare_cached(FIND)?;
        let row = find
            .query_row(params![id.as_str(), tenant.as_str(), found.number], |row| {
                let value: Option<String> = row.get("unique_value")?;
                let until: Option<i64> = row.get("delayed_until")?;
                let waits_for_key = row.get::<_, Option<bool>>("slot")? == Some(false);
                let key = held_key(row).map(|key| (key, waits_for_key));
                Ok((row.get::<_, i64>("number")?, row.get::<_, bool>("dead")?, until, value, key))
            })
            .optional()?;
        let Some((number, dead, until, value, key)) = row else { return Ok(false) };
        let (key, waits_for_key) = key?;
        if !dead && self.is_linked(&tenant, id)? {
            return Ok(false);
        }
        if dead {
            self.count_dead_out(topic);
            self.delete(number)?;
        } else {
            let was_first = self.leave_waiting(topic, until.map(at));
            if waits_for_key {
                self.leave_key(topic);
            }
            self.delete(number)?;
            self.after_leaving(topic, was_first)?;
        }
        if let Some(key) = key {
            self.free_slot(topic, &key)?;
        }
        if let Some(value) = value {
            self.leave(topic, &value, id)?;
        }
        self.forget_dead(&tenant, id)?;
        self.connection.prepare_cached(UNMARK)?.execute([tenant.as_str(), id.as_str()])?;
        Ok(true)
    }
}
