//! Unique values: who holds which, and until when.

mod holds;
mod windows;

use rusqlite::{OptionalExtension, params};

use super::fault::{Done, Fault};
use super::memory::topics::Number;
use super::row::{at, ms};
use super::work::Work;
use gristmill_core::job::JobId;
use gristmill_core::time::Timestamp;

/// Who holds a value.
const HOLDER: &str = "SELECT holder, until FROM uniques WHERE topic_number = ?1 AND value = ?2";

/// Gives a value to a job, whichever job had it.
const HOLD: &str = "INSERT INTO uniques (topic_number, value, holder, until) VALUES (?1, ?2, ?3, ?4)
                    ON CONFLICT (topic_number, value) DO UPDATE SET holder = ?3, until = ?4";

/// Takes a value that is held until done from its holder.
const FREE: &str = "DELETE FROM uniques WHERE topic_number = ?1 AND value = ?2 AND holder = ?3 AND until IS NULL";

/// Takes every value that is held until done from a job.
const FREE_ALL: &str = "DELETE FROM uniques WHERE topic_number = ?1 AND holder = ?2 AND until IS NULL";

/// Takes a value from its holder, however it is held.
const LEAVE: &str = "DELETE FROM uniques WHERE topic_number = ?1 AND value = ?2 AND holder = ?3";

/// Until when a job holds a value, if it does so for a time.
const HELD_UNTIL: &str = "SELECT until FROM uniques WHERE topic_number = ?1 AND value = ?2 AND holder = ?3";

/// Forgets values that are free by now, a bounded number.
const EXPIRE: &str = "DELETE FROM uniques WHERE (topic_number, value) IN
                          (SELECT topic_number, value FROM uniques WHERE until <= ?1 ORDER BY until LIMIT ?2)";

impl Work<'_> {
    /// The job that holds the value at this moment.
    pub(super) fn holder(&self, topic: Number, value: &str) -> Done<Option<JobId>> {
        let mut holder = self.connection.prepare_cached(HOLDER)?;
        let found = holder
            .query_row(params![self.topics.get(topic).number, value], |row| {
                Ok((row.get::<_, String>("holder")?, row.get::<_, Option<i64>>("until")?))
            })
            .optional()?;
        match found {
            Some((_, Some(until))) if at(until) <= self.time.now => Ok(None),
            Some((job, _)) => {
                let problem = "it holds a unique value, and its id is none";
                job.parse().map(Some).map_err(|_| Fault::Unreadable { job, problem: problem.into() })
            }
            None => Ok(None),
        }
    }

    /// `until`: none: until the job is done.
    pub(super) fn hold(&self, topic: Number, value: &str, job: &JobId, until: Option<Timestamp>) -> Done<()> {
        let mut hold = self.connection.prepare_cached(HOLD)?;
        hold.execute(params![self.topics.get(topic).number, value, job.as_str(), until.map(ms)])?;
        Ok(())
    }

    /// Frees a value that the job held until done.
    pub(super) fn free(&self, topic: Number, value: &str, job: &JobId) -> Done<()> {
        let mut free = self.connection.prepare_cached(FREE)?;
        free.execute(params![self.topics.get(topic).number, value, job.as_str()])?;
        Ok(())
    }

    /// Frees what a job held until done whose row cannot be read. Looks through all values of the topic.
    pub(super) fn free_all(&self, topic: Number, job: &JobId) -> Done<()> {
        self.connection.prepare_cached(FREE_ALL)?.execute(params![self.topics.get(topic).number, job.as_str()])?;
        Ok(())
    }

    /// Frees a value of a job that leaves the store with it.
    pub(super) fn leave(&self, topic: Number, value: &str, job: &JobId) -> Done<()> {
        let mut leave = self.connection.prepare_cached(LEAVE)?;
        leave.execute(params![self.topics.get(topic).number, value, job.as_str()])?;
        Ok(())
    }

    pub(super) fn expire_uniques(&self, limit: i64) -> Done<usize> {
        Ok(self.connection.prepare_cached(EXPIRE)?.execute([ms(self.time.now), limit])?)
    }
}

/// Until when the job holds the value, where that is for a time and not over.
pub(super) fn held_until(
    connection: &rusqlite::Connection,
    topic_number: i64,
    value: &str,
    job: &JobId,
) -> Done<Option<Timestamp>> {
    let mut held = connection.prepare_cached(HELD_UNTIL)?;
    let until = held.query_row(params![topic_number, value, job.as_str()], |row| row.get::<_, Option<i64>>("until"));
    Ok(until.optional()?.flatten().map(at))
}
