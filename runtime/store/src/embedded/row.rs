//! Jobs as rows: which columns say what, and how times, counts and JSON are written.

use std::time::Duration;

use rusqlite::types::{FromSqlError, ValueRef};
use rusqlite::{Row, params};

use super::fault::{Done, Fault};
use super::topics::Number;
use super::work::{Waiting, Work};
use crate::clock::{point_ms, wait_ms};
use gristmill_core::job::{Due, Job, JobId, JobSpec, NewJob, Payload, TopicId, Unique};
use gristmill_core::outcome::Failure;
use gristmill_core::time::Timestamp;

/// Up to this size a body is written with each change of its job, which costs less than a row of its own.
const SMALL: usize = 1024;

/// The columns of a job that [`read_job`] and [`Known::read`] read, in their order; further ones begin at [`MORE`].
macro_rules! job_columns {
    () => {
        "id, priority, enqueued_at, due_at, unique_value, unique_window_ms, key, content_type, metadata, max_attempts, \
         ttl_ms, keep_result_ms, \
         coalesce(body, (SELECT bodies.body FROM bodies WHERE bodies.number = jobs.number)), \
         attempts, deliveries, failure, checkpoint"
    };
}
pub(super) use job_columns;

/// The running jobs of a tenant, `?1`, with a condition of their own: they stand at the head of each line, in front of
/// the ready ones.
macro_rules! running_jobs {
    () => {
        " FROM topics
          CROSS JOIN (SELECT 'high' AS line UNION ALL SELECT 'normal' UNION ALL SELECT 'low')
          CROSS JOIN jobs ON topic_number = topics.number AND priority = line
              AND seq <= CASE line WHEN 'high' THEN claimed_high WHEN 'normal' THEN claimed_normal ELSE claimed_low END
          WHERE topics.tenant = ?1 AND topics.running > 0 AND state = 'running' AND "
    };
}
pub(super) use running_jobs;

/// The first column after those of [`job_columns`].
pub(super) const MORE: usize = 17;

/// Stores a job's row. It leaves the room that a claim needs for worker and lease: a page is full of jobs, and one that
/// grows has to be split.
const INSERT: &str = "INSERT INTO jobs (number, tenant, topic, topic_number, id, state, priority, seq, delayed_until,
                          cancelled, dead_since, attempts, deliveries, enqueued_at, due_at, unique_value,
                          unique_window_ms, key, content_type, metadata, max_attempts, ttl_ms, keep_result_ms, failure,
                          checkpoint, body, room)
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
                          ?20, ?21, ?22, ?23, ?24, ?25, zeroblob(40))";

/// Stores a large body.
const INSERT_BODY: &str = "INSERT INTO bodies (number, body) VALUES (?1, ?2)";

/// Whether there is a job with this id.
const EXISTS: &str = "SELECT 1 FROM jobs WHERE id = ?1 AND tenant = ?2";

/// Removes a job's row, by its number.
const DELETE: &str = "DELETE FROM jobs WHERE number = ?1";

/// Removes a large body.
const DELETE_BODY: &str = "DELETE FROM bodies WHERE number = ?1";

/// A time as it is written.
pub(super) fn ms(at: Timestamp) -> i64 {
    i64::try_from(point_ms(at)).unwrap_or(i64::MAX)
}

/// A time as it is read.
pub(super) fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(whole(ms))
}

/// A count as it is read: never negative, whoever wrote it.
pub(super) fn whole(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// A number of attempts as it is read.
pub(super) fn attempts(n: i64) -> u32 {
    u32::try_from(whole(n)).unwrap_or(u32::MAX)
}

/// A wait as it is written.
pub(super) fn wait(wait: Duration) -> i64 {
    i64::try_from(wait_ms(wait)).unwrap_or(i64::MAX)
}

/// A limit for SQL.
pub(super) fn limit(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The value that a job asks to hold. An empty one is none.
pub(super) fn unique(spec: &JobSpec) -> Option<&Unique> {
    spec.unique.as_ref().filter(|unique| !unique.value.is_empty())
}

pub(super) fn write_failure(failure: &Failure) -> Done<String> {
    serde_json::to_string(failure).map_err(|error| Fault::Refused(format!("a failure cannot be written: {error}")))
}

/// None for what a later version wrote: a failure is told, never needed.
pub(super) fn read_failure(stored: Option<&str>) -> Option<Failure> {
    serde_json::from_str(stored?).ok()
}

/// None if there is none.
pub(super) fn write_metadata(spec: &JobSpec) -> Done<Option<String>> {
    if spec.metadata.is_empty() {
        return Ok(None);
    }
    let unwritable = |error| Fault::Refused(format!("metadata of job {} cannot be written: {error}", spec.id));
    serde_json::to_string(&spec.metadata).map(Some).map_err(unwritable)
}

/// Reads a job whose row begins with [`job_columns`]. Err: why it cannot be read.
pub(super) fn read_job(row: &Row<'_>, topic: &TopicId) -> Result<Job, String> {
    read_columns(row, topic).map_err(|error| error.to_string())
}

fn read_columns(row: &Row<'_>, topic: &TopicId) -> anyhow::Result<Job> {
    let duration = |column| row.get::<_, Option<i64>>(column).map(|ms| ms.map(|ms| Duration::from_millis(whole(ms))));
    let metadata = row.get_ref(8)?.as_str_or_null()?;
    let window = duration(5)?;
    let priority = row.get_ref(1)?.as_str()?;
    let spec = JobSpec {
        id: row.get_ref(0)?.as_str()?.parse()?,
        topic: topic.clone(),
        body: Payload {
            data: row.get_ref(12)?.as_blob().map_err(|_| anyhow::anyhow!("its body is missing"))?.to_vec(),
            content_type: row.get(7)?,
        },
        metadata: metadata.map(serde_json::from_str).transpose()?.unwrap_or_default(),
        key: row.get(6)?,
        priority: gristmill_core::job::Priority::parse(priority)
            .ok_or_else(|| anyhow::anyhow!("`{priority}` is no priority"))?,
        unique: row.get::<_, Option<String>>(4)?.map(|value| Unique { value, window }),
        max_attempts: row.get(9)?,
        ttl: duration(10)?,
        keep_result: duration(11)?,
    };
    Ok(Job { spec, enqueued_at: at(row.get(2)?), due_at: at(row.get(3)?) })
}

/// A job that stands for one that cannot be read: what can be read of it, so that nothing is lost on people.
pub(super) fn placeholder(row: &Row<'_>, topic: &TopicId, id: JobId) -> Done<Job> {
    let body = row.get_ref(12)?.as_blob().unwrap_or_default().to_vec();
    let mut spec = JobSpec::new(topic.clone(), Payload { data: body, content_type: None });
    spec.id = id;
    Ok(Job { spec, enqueued_at: at(row.get(2)?), due_at: at(row.get(3)?) })
}

/// What is known about a job besides itself.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) attempts: u32,
    pub(super) deliveries: u64,
    pub(super) failure: Option<Failure>,
    pub(super) checkpoint: Option<Vec<u8>>,
}

impl Known {
    /// Reads it from a row that begins with [`job_columns`].
    pub(super) fn read(row: &Row<'_>) -> Done<Self> {
        let failure = row.get_ref(15)?.as_str_or_null().unwrap_or_default();
        let checkpoint = row.get_ref(16)?.as_blob_or_null().unwrap_or_default();
        Ok(Self {
            attempts: attempts(row.get(13)?),
            deliveries: whole(row.get(14)?),
            failure: read_failure(failure),
            checkpoint: checkpoint.filter(|state| !state.is_empty()).map(<[u8]>::to_vec),
        })
    }
}

/// The id that a row begins with.
pub(super) fn read_id(row: &Row<'_>) -> Done<JobId> {
    let id = row.get_ref(0)?.as_str().map_err(no_text)?;
    id.parse().map_err(|_| Fault::Unreadable { job: id.into(), problem: "its id is none".into() })
}

pub(super) fn no_text(error: FromSqlError) -> Fault {
    Fault::Refused(format!("a column is not what it must be: {error}"))
}

/// Text that may be absent.
pub(super) fn text<'a>(row: &'a Row<'_>, column: usize) -> Done<Option<&'a str>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        value => value.as_str().map(Some).map_err(no_text),
    }
}

/// A job as it is stored: where, and with what history.
#[derive(Debug)]
pub(super) struct Stored<'a> {
    pub(super) spec: &'a JobSpec,
    /// As JSON; see [`write_metadata`].
    pub(super) metadata: Option<&'a str>,
    pub(super) enqueued_at: Timestamp,
    pub(super) due_at: Timestamp,
    pub(super) place: Place,
    pub(super) attempts: u32,
    pub(super) deliveries: u64,
    pub(super) failure: Option<String>,
    pub(super) checkpoint: Option<&'a [u8]>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Waiting(Waiting),
    Dead { since: Timestamp },
}

impl Work<'_> {
    pub(super) fn exists(&mut self, spec: &JobSpec) -> Done<bool> {
        let exists = self.statements.get(EXISTS)?;
        Ok(exists.exists(params![spec.id.as_str(), spec.topic.tenant.as_str()])?)
    }

    pub(super) fn insert(&mut self, topic: Number, job: &Stored<'_>) -> Done<()> {
        let spec = job.spec;
        let (state, seq, until, dead_since) = match job.place {
            Place::Waiting(waiting) => (waiting.state(), waiting.seq(), waiting.until(), None),
            Place::Dead { since } => ("dead", None, None, Some(since)),
        };
        let number = seq.unwrap_or_else(|| self.sequence.next());
        let body = spec.body.data.as_slice();
        let small = body.len() <= SMALL;
        let insert = self.statements.get(INSERT)?;
        insert.execute(params![
            number,
            spec.topic.tenant.as_str(),
            spec.topic.topic.as_str(),
            self.topics.get(topic).number,
            spec.id.as_str(),
            state,
            spec.priority.as_str(),
            seq,
            until.map(ms),
            dead_since.map(ms),
            job.attempts,
            i64::try_from(job.deliveries).unwrap_or(i64::MAX),
            ms(job.enqueued_at),
            ms(job.due_at),
            spec.unique.as_ref().map(|unique| unique.value.as_str()),
            spec.unique.as_ref().and_then(|unique| unique.window).map(wait),
            spec.key,
            spec.body.content_type,
            job.metadata,
            spec.max_attempts,
            spec.ttl.map(wait),
            spec.keep_result.map(wait),
            job.failure,
            job.checkpoint,
            small.then_some(body),
        ])?;
        if !small {
            self.statements.get(INSERT_BODY)?.execute(params![number, body])?;
        }
        Ok(())
    }

    /// Removes a job, wherever it is. Whoever calls this counts it out.
    pub(super) fn delete(&mut self, number: i64) -> Done<()> {
        self.statements.get(DELETE)?.execute([number])?;
        self.statements.get(DELETE_BODY)?.execute([number])?;
        Ok(())
    }

    /// When a new job is due: a time that has passed is now.
    pub(super) fn due(&self, job: &NewJob) -> Timestamp {
        match job.due {
            Due::Now => self.time.now,
            Due::After(wait) if wait.is_zero() => self.time.now,
            Due::After(wait) => self.time.up.plus(Duration::from_millis(wait_ms(wait))),
            Due::At(at) => Timestamp::from_millis(point_ms(at)).max(self.time.now),
        }
    }
}
