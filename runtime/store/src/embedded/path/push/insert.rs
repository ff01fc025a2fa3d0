//! Jobs come into the table and leave it.

use std::time::Duration;

use rusqlite::params;

use crate::clock::{due_ms, wait_ms};
use crate::embedded::fault::Done;
use crate::embedded::memory::topics::Number;
use crate::embedded::row::{Columns, ms};
use crate::embedded::work::{Waiting, Work};
use gristmill_core::job::{Due, JobId, JobSpec};
use gristmill_core::time::Timestamp;

/// Up to this size a body is written with each change of its job, which costs less than a row of its own.
const SMALL: usize = 1024;

/// Stores a large body.
const INSERT_BODY: &str = "INSERT INTO bodies (number, body) VALUES (?1, ?2)";

/// Whether there is a job with this id.
const EXISTS: &str = "SELECT 1 FROM job_rows WHERE id = ?1 AND tenant = ?2";

/// Removes a job's row, by its number.
const DELETE: &str = "DELETE FROM job_rows WHERE number = ?1";

/// Removes the large body of a job that is still there.
const DELETE_BODY_OF: &str = "DELETE FROM bodies WHERE number = (SELECT large FROM job_rows WHERE number = ?1)";

/// A job as it is stored: where, and with what history.
#[derive(Debug)]
pub(in crate::embedded) struct JobRow<'a> {
    pub(in crate::embedded) id: &'a JobId,
    pub(in crate::embedded) columns: Columns<'a>,
    pub(in crate::embedded) place: RowPlace,
    pub(in crate::embedded) attempts: u32,
    pub(in crate::embedded) deliveries: u64,
    pub(in crate::embedded) failure: Option<String>,
    pub(in crate::embedded) checkpoint: Option<&'a [u8]>,
    /// It holds a slot of its key, though it is delayed or dead.
    pub(in crate::embedded) holds_slot: bool,
    /// A producer has named the time at which it is due.
    pub(in crate::embedded) fixed: bool,
}

#[derive(Debug, Clone, Copy)]
pub(in crate::embedded) enum RowPlace {
    Waiting(Waiting),
    Dead { since: Timestamp },
}

/// Inserts a job's row: each column beside its value.
macro_rules! insert_job {
    ($statements:expr, $($column:ident = $value:expr),+ $(,)?) => {
        $statements
            .get(concat!(
                "INSERT INTO job_rows (cancelled", $(", ", stringify!($column)),+,
                ") VALUES (0", $(value_of!($column)),+, ")"
            ))?
            .execute(params![$($value),+])
    };
}
macro_rules! value_of {
    ($column:ident) => {
        ", ?"
    };
}

impl Work<'_> {
    pub(in crate::embedded) fn exists(&mut self, spec: &JobSpec) -> Done<bool> {
        let exists = self.statements.get(EXISTS)?;
        Ok(exists.exists(params![spec.id.as_str(), spec.topic.tenant.as_str()])?)
    }

    pub(in crate::embedded) fn insert(&mut self, topic: Number, job: &JobRow<'_>) -> Done<()> {
        let (number, until, dead_since, slot) = match job.place {
            RowPlace::Waiting(Waiting { number, until, slot }) => (number, until, None, slot),
            RowPlace::Dead { since } => (self.place_beside(topic)?, None, Some(since), None),
        };
        let slot = if job.holds_slot { Some(true) } else { slot };
        let Columns { body, .. } = &job.columns;
        let (small, large) = match body {
            Some(body) if body.len() > SMALL => (None, Some(body)),
            small => (small.as_ref(), None),
        };
        let topic = self.topics.get(topic);
        insert_job!(
            self.statements,
            number = number,
            tenant = topic.id.tenant.as_str(),
            id = job.id.as_str(),
            delayed_until = until.map(ms),
            dead_since = dead_since.map(ms),
            attempts = job.attempts,
            deliveries = i64::try_from(job.deliveries).unwrap_or(i64::MAX),
            failure = job.failure,
            checkpoint = job.checkpoint,
            enqueued_at = job.columns.enqueued_at,
            due_at = job.columns.due_at,
            priority = job.columns.priority,
            unique_value = job.columns.unique_value,
            unique_window_ms = job.columns.unique_window_ms,
            key = job.columns.key,
            slot = slot,
            fixed = job.fixed,
            content_type = job.columns.content_type,
            metadata = job.columns.metadata,
            options = job.columns.options,
            body = small,
            large = large.map(|_| number),
        )?;
        if let Some(body) = large {
            self.statements.get(INSERT_BODY)?.execute(params![number, body])?;
        }
        Ok(())
    }

    /// Removes a job, wherever it is. The caller counts it out.
    pub(in crate::embedded) fn delete(&mut self, number: i64) -> Done<()> {
        self.statements.get(DELETE_BODY_OF)?.execute([number])?;
        self.statements.get(DELETE)?.execute([number])?;
        Ok(())
    }

    /// When a new job is due: a time that has passed is now.
    pub(in crate::embedded) fn due(&self, due: Due) -> Timestamp {
        match due {
            Due::Now => self.time.now,
            Due::After(wait) if wait.is_zero() => self.time.now,
            Due::After(wait) => self.time.up.plus(Duration::from_millis(wait_ms(wait))),
            Due::At(at) => Timestamp::from_millis(due_ms(at)).max(self.time.now),
        }
    }
}
