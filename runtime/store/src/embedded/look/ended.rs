//! What is remembered of jobs that have ended: one row for those of a topic that ended in one transaction, and in the same way.

use std::time::Duration;

use rusqlite::{Connection, Row, params};

use crate::clock::wait_ms;
use crate::embedded::fault::Done;
use crate::embedded::row::{at, attempts, limit as limited, ms, text, topic};
use crate::{EndedAs, JobEnd, JobView, REMEMBERED};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;

/// Adds a row. Its number is how many jobs were remembered with it and before.
const ADD: &str = "INSERT INTO ended (topic_number, upto, outcome, at, until, attempts, ids)
                   SELECT ?1, coalesce(max(upto), 0) + ?2, ?3, ?4, ?5, ?6, ?7 FROM ended WHERE topic_number = ?1";

/// Forgets rows behind those of the jobs that are remembered at least.
const CUT: &str = "DELETE FROM ended WHERE topic_number = ?1
                       AND upto <= (SELECT max(upto) FROM ended WHERE topic_number = ?1) - ?2";

/// Forgets rows whose time is over, a bounded number.
const EXPIRE: &str = "DELETE FROM ended WHERE (topic_number, upto) IN
                          (SELECT topic_number, upto FROM ended WHERE until <= ?1 ORDER BY until LIMIT ?2)";

/// Forgets what is remembered of a topic.
const FORGET: &str = "DELETE FROM ended WHERE topic_number = ?1";

/// A job's latest end.
const FIND: &str = "SELECT topic, outcome, at, attempts FROM ended JOIN topics ON topics.number = topic_number
                    WHERE tenant = ?1 AND until > ?3 AND instr(ids, ' ' || ?2 || ' ') > 0 ORDER BY at DESC, upto DESC LIMIT 1";

/// The rows of a topic, the latest first.
const LIST: &str = "SELECT topic, outcome, at, attempts, ids FROM ended JOIN topics ON topics.number = topic_number
                    WHERE tenant = ?1 AND topic = ?2 AND until > ?3 ORDER BY upto DESC LIMIT ?4";

/// How jobs ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::embedded) struct EndRecord {
    pub(in crate::embedded) outcome: EndedAs,
    pub(in crate::embedded) attempts: u32,
    pub(in crate::embedded) keep: Duration,
}

/// Jobs of a topic that ended alike.
#[derive(Debug)]
pub(in crate::embedded) struct Together {
    pub(in crate::embedded) end: EndRecord,
    jobs: usize,
    /// Their ids, a space before each.
    ids: String,
}

impl Together {
    pub(in crate::embedded) const fn new(end: EndRecord) -> Self {
        Self { end, jobs: 0, ids: String::new() }
    }

    pub(in crate::embedded) fn add(&mut self, job: &JobId) {
        self.jobs += 1;
        self.ids.push(' ');
        self.ids.push_str(job.as_str());
    }

    /// Writes them down, and forgets others that are too many.
    pub(in crate::embedded) fn save(mut self, connection: &Connection, topic: i64, now: Timestamp) -> Done<()> {
        let EndRecord { outcome, attempts, keep } = self.end;
        self.ids.push(' ');
        let until = now.plus(Duration::from_millis(wait_ms(keep)));
        let row = params![topic, limited(self.jobs), outcome.as_str(), ms(now), ms(until), attempts, self.ids];
        connection.prepare_cached(ADD)?.execute(row)?;
        connection.prepare_cached(CUT)?.execute([topic, limited(REMEMBERED)])?;
        Ok(())
    }
}

/// Forgets what is remembered of a topic, by its number.
pub(in crate::embedded) fn forget(connection: &Connection, topic: i64) -> Done<()> {
    connection.prepare_cached(FORGET)?.execute([topic])?;
    Ok(())
}

pub(in crate::embedded) fn find(
    connection: &Connection,
    tenant: &Name,
    job: &JobId,
    now: Timestamp,
) -> Done<Option<JobView>> {
    let mut find = connection.prepare_cached(FIND)?;
    let mut rows = find.query(params![tenant.as_str(), job.as_str(), ms(now)])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(read(row, tenant)?.map(|(end, attempts)| JobView::over(job.clone(), attempts, Some(end))))
}

pub(in crate::embedded) fn list(
    connection: &Connection,
    topic: &TopicId,
    limit: usize,
    now: Timestamp,
) -> Done<Vec<JobView>> {
    let mut select = connection.prepare_cached(LIST)?;
    let mut rows = select.query(params![topic.tenant.as_str(), topic.topic.as_str(), ms(now), limited(limit)])?;
    let mut jobs = Vec::new();
    while jobs.len() < limit
        && let Some(row) = rows.next()?
    {
        let Some((end, attempts)) = read(row, &topic.tenant)? else { continue };
        let ids = text(row, "ids")?.unwrap_or_default().split_whitespace().rev().filter_map(|id| id.parse().ok());
        jobs.extend(ids.take(limit - jobs.len()).map(|id| JobView::over(id, attempts, Some(end.clone()))));
    }
    Ok(jobs)
}

/// How jobs ended, and their attempts; `None` if a later version wrote it.
fn read(row: &Row<'_>, tenant: &Name) -> Done<Option<(JobEnd, u32)>> {
    let outcome = text(row, "outcome")?.and_then(EndedAs::parse);
    let (topic, at) = (topic(row, tenant)?, at(row.get("at")?));
    let attempts = attempts(row.get("attempts")?);
    Ok(outcome.map(|outcome| (JobEnd { topic, outcome, at }, attempts)))
}

/// Forgets what is remembered no longer. Returns how much it was.
pub(in crate::embedded) fn expire(connection: &Connection, now: Timestamp, limit: i64) -> Done<usize> {
    Ok(connection.prepare_cached(EXPIRE)?.execute([ms(now), limit])?)
}
