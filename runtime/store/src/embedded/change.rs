//! Change: when waiting jobs are due, and their priorities.

use rusqlite::{OptionalExtension, params};

use super::fault::Done;
use super::row::{at, ms, text};
use super::work::Work;
use crate::JobChanged;
use crate::clock::NEVER;
use gristmill_core::job::{Due, JobChange, JobId, Name, Priority};
use gristmill_core::time::Timestamp;

/// A job that is not dead.
const FIND: &str = "SELECT number, priority, delayed_until, due_at, deliveries, key, slot
                    FROM job_rows WHERE id = ?1 AND tenant = ?2 AND dead_since IS NULL";

/// A waiting job as it is from now on.
const CHANGE: &str =
    "UPDATE job_rows SET number = ?2, delayed_until = ?3, due_at = ?4, priority = ?5, slot = ?6, fixed = coalesce(?7, fixed)
     WHERE number = ?1";

/// A job that can perhaps be changed.
struct ChangeableJob {
    number: i64,
    priority: Priority,
    until: Option<Timestamp>,
    due_at: Timestamp,
    has_run: bool,
    key: Option<String>,
    slot: Option<i64>,
}

impl ChangeableJob {
    fn holds_slot(&self) -> bool {
        self.slot.is_some_and(|slot| slot != 0)
    }

    /// It is ready, and waits for its key.
    fn waits_for_key(&self) -> bool {
        self.slot == Some(0)
    }
}

impl Work<'_> {
    pub(super) fn change(&mut self, tenant: &Name, id: &JobId, change: &JobChange) -> Done<JobChanged> {
        let Some(job) = self.find_changeable(tenant, id)? else { return Ok(JobChanged::TooLate) };
        let topic = self.topics.of_job(job.number, id)?;
        if self.topics.get(topic).running_jobs.get(id).is_some() {
            return Ok(JobChanged::TooLate);
        }
        let stands_by = job.until == Some(NEVER);
        let before = if stands_by { job.due_at } else { job.until.unwrap_or(self.now()) };
        let due = change.due.map(|due| self.due(due)).filter(|due| *due != before);
        let priority = change.priority.unwrap_or(job.priority);
        if due.is_none() && priority == job.priority {
            return Ok(JobChanged::Unchanged);
        }
        let (mut number, mut until, mut slot) = (job.number, job.until, job.slot);
        let (mut was_first, mut frees) = (false, false);
        // One that waits for others is due when they have ended.
        if let Some(due) = due.filter(|_| !stands_by) {
            was_first = self.leave_waiting(topic, job.until);
            if job.waits_for_key() {
                self.leave_key(topic);
            }
            let place = self.wait(topic, priority, due, job.key.as_deref().filter(|_| !job.holds_slot()))?;
            (number, until) = (place.number, place.until);
            if until.is_some() {
                frees = job.holds_slot() && !job.has_run;
                slot = (job.holds_slot() && job.has_run).then_some(1);
            } else {
                slot = place.slot.map_or(slot, |holds| Some(holds.into()));
            }
        } else if job.until.is_none() && !job.waits_for_key() {
            self.leave_waiting(topic, None);
            number = self.line_up(topic, priority)?.number;
        }
        let due_at = ms(due.unwrap_or(job.due_at));
        let fixed = change.due.map(|due| matches!(due, Due::At(_)));
        let mut update = self.connection.prepare_cached(CHANGE)?;
        update.execute(params![job.number, number, until.map(ms), due_at, priority.as_str(), slot, fixed])?;
        if let Some(key) = job.key.as_deref().filter(|_| frees) {
            self.free_slot(topic, key)?;
        }
        // An earlier time is noted and signalled once the request has succeeded.
        if was_first && until.is_none_or(|until| Some(until) > job.until) {
            self.find_next_due(topic)?;
        }
        Ok(JobChanged::Changed)
    }

    fn find_changeable(&self, tenant: &Name, id: &JobId) -> Done<Option<ChangeableJob>> {
        let mut find = self.connection.prepare_cached(FIND)?;
        let found = find.query_row(params![id.as_str(), tenant.as_str()], |row| {
            let written = text(row, "priority").ok().flatten();
            // A later version may have written another one, which is not to be lost.
            let Some(priority) = written.map_or(Some(Priority::Normal), Priority::parse) else { return Ok(None) };
            Ok(Some(ChangeableJob {
                number: row.get("number")?,
                priority,
                until: row.get::<_, Option<i64>>("delayed_until")?.map(at),
                due_at: at(row.get("due_at")?),
                has_run: row.get::<_, i64>("deliveries")? > 0,
                key: text(row, "key").ok().flatten().filter(|key| !key.is_empty()).map(str::to_owned),
                slot: row.get("slot")?,
            }))
        });
        Ok(found.optional()?.flatten())
    }
}
