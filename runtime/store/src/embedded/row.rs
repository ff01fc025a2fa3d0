//! Jobs as rows: which columns say what, and how times, counts and JSON are written.
//!
//! What a producer pushed is in [`Columns`]. A new option of a job needs none: it is in the JSON of `options`.

use std::borrow::Cow;
use std::time::Duration;

use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, ValueRef};
use serde::{Deserialize, Serialize};

use super::fault::{Done, Fault};
use crate::clock::{point_ms, wait_ms};
use gristmill_core::job::{Job, JobId, JobOptions, JobSpec, Name, Payload, Priority, TopicId, Unique};
use gristmill_core::json::is_default;
use gristmill_core::outcome::Failure;
use gristmill_core::time::Timestamp;

/// Defines the columns that [`read_id`], [`Columns::read`] and [`JobHistory::read`] read, each by its place in the row: a name
/// would be looked for in every row. Columns after them are read by name.
macro_rules! define_job_columns {
    ($first:ident = $first_sql:literal, $($column:ident = $sql:expr),+ $(,)?) => {
        /// What a statement selects of a job.
        macro_rules! job_columns {
            () => { concat!($first_sql, $(", ", $sql),+) };
        }
        #[derive(Debug, Clone, Copy)]
        enum Column { $first, $($column),+ }
    };
}
define_job_columns! {
    Id = "id",
    EnqueuedAt = "enqueued_at",
    DueAt = "due_at",
    Priority = "priority",
    UniqueValue = "unique_value",
    UniqueWindow = "unique_window_ms",
    Key = "key",
    ContentType = "content_type",
    Metadata = "metadata",
    Options = "options",
    Body = "coalesce(body, (SELECT bodies.body FROM bodies WHERE bodies.number = large))",
    Attempts = "attempts",
    Deliveries = "deliveries",
    Failure = "failure",
    Checkpoint = "checkpoint",
}
pub(super) use job_columns;

/// How many they are: the place of the first column behind them.
pub(super) const JOB_COLUMNS: usize = Column::Checkpoint as usize + 1;

impl Column {
    fn get<T: FromSql>(self, row: &Row<'_>) -> rusqlite::Result<T> {
        row.get(self as usize)
    }

    /// Text that may be absent, where it is.
    fn text<'a>(self, row: &'a Row<'_>) -> Done<Option<Cow<'a, str>>> {
        Ok(row.get_ref(self as usize)?.as_str_or_null().map_err(no_text)?.map(Cow::Borrowed))
    }
}

/// The running jobs of a tenant, `?1`, with a condition of their own. Their rows have the counts of before they were claimed; see
/// [`JobHistory::claimed`].
macro_rules! running_jobs {
    () => {
        concat!(
            " FROM topics CROSS JOIN batches ON ",
            of_topic!("first"),
            " CROSS JOIN job_rows ON job_rows.number BETWEEN first AND last
              WHERE topics.tenant = ?1 AND topics.running > 0 AND "
        )
    };
}
pub(super) use running_jobs;

/// Until when a running job is leased.
macro_rules! lease_until {
    () => {
        "coalesce(job_rows.lease_until, batches.lease_until)"
    };
}
pub(super) use lease_until;

/// Jobs, each with its topic, and with its batch if it is running: first their condition, then the order. For what
/// [`state`](super::look::inspect::state) reads.
macro_rules! shown_jobs {
    ($($rest:expr),+) => {
        concat!(
            "SELECT ",
            job_columns!(),
            ", job_rows.number AS number, topics.topic AS topic, slot, delayed_until, dead_since, worker, claim, cancelled, ",
            lease_until!(),
            " AS lease_until
             FROM job_rows CROSS JOIN topics ON topics.number = job_rows.number >> 43
                 LEFT JOIN batches ON first = (SELECT max(first) FROM batches WHERE first <= job_rows.number)
                     AND last >= job_rows.number
             WHERE ",
            $($rest),+
        )
    };
}
pub(super) use shown_jobs;

/// A time as it is written.
pub(super) fn ms(at: Timestamp) -> i64 {
    i64::try_from(point_ms(at)).unwrap_or(i64::MAX)
}

/// A time as it is read.
pub(super) fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(whole(ms))
}

/// A count as it is read: a negative one is 0.
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

pub(super) fn write_failure(failure: &Failure) -> Done<String> {
    serde_json::to_string(failure).map_err(|error| Fault::Refused(format!("a failure cannot be written: {error}")))
}

/// Returns `None` for what a later version wrote: a failure is shown, never needed.
pub(super) fn read_failure(stored: Option<&str>) -> Option<Failure> {
    serde_json::from_str(stored?).ok()
}

/// What a job brings that stands in columns as JSON.
#[derive(Debug)]
pub(super) struct Written {
    metadata: Option<String>,
    options: Option<String>,
}

impl Written {
    pub(super) fn of(spec: &JobSpec) -> Done<Self> {
        // These have columns of their own.
        let options = JobOptions { key: None, priority: Priority::Normal, unique: None, ..spec.options.clone() };
        let unwritable = |error| Fault::Refused(format!("job {} cannot be written: {error}", spec.id));
        Ok(Self {
            metadata: unless_default(&spec.metadata).map_err(unwritable)?,
            options: unless_default(&options).map_err(unwritable)?,
        })
    }
}

fn unless_default<T: Serialize + Default + PartialEq>(value: &T) -> serde_json::Result<Option<String>> {
    (!is_default(value)).then(|| serde_json::to_string(value)).transpose()
}

/// What stands in the column `options`.
pub(super) fn read_options(stored: Option<&str>) -> serde_json::Result<JobOptions> {
    stored.map_or_else(|| Ok(JobOptions::default()), serde_json::from_str)
}

/// What a producer pushed, as the columns of a row say it, whether or not it makes sense.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Columns<'a> {
    pub(super) enqueued_at: i64,
    pub(super) due_at: i64,
    pub(super) priority: Cow<'a, str>,
    pub(super) unique_value: Option<Cow<'a, str>>,
    pub(super) unique_window_ms: Option<i64>,
    pub(super) key: Option<Cow<'a, str>>,
    pub(super) content_type: Option<Cow<'a, str>>,
    /// As JSON, like the next.
    pub(super) metadata: Option<Cow<'a, str>>,
    pub(super) options: Option<Cow<'a, str>>,
    pub(super) body: Option<Cow<'a, [u8]>>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(
        spec: &'a JobSpec,
        Written { metadata, options }: &'a Written,
        (enqueued_at, due_at): (Timestamp, Timestamp),
    ) -> Self {
        Self {
            enqueued_at: ms(enqueued_at),
            due_at: ms(due_at),
            priority: spec.options.priority.as_str().into(),
            unique_value: spec.options.unique.as_ref().map(|unique| unique.value.as_str().into()),
            unique_window_ms: spec.options.unique.as_ref().and_then(|unique| unique.window).map(wait),
            key: spec.options.key.as_deref().map(Cow::Borrowed),
            content_type: spec.body.content_type.as_deref().map(Cow::Borrowed),
            metadata: metadata.as_deref().map(Cow::Borrowed),
            options: options.as_deref().map(Cow::Borrowed),
            body: Some(spec.body.data.as_slice().into()),
        }
    }

    /// Reads them from a row that begins with [`job_columns`].
    pub(super) fn read(row: &'a Row<'_>) -> Done<Self> {
        let body = row.get_ref(Column::Body as usize)?.as_blob_or_null().map_err(no_text)?;
        Ok(Self {
            enqueued_at: Column::EnqueuedAt.get(row)?,
            due_at: Column::DueAt.get(row)?,
            priority: Column::Priority.text(row)?.unwrap_or_default(),
            unique_value: Column::UniqueValue.text(row)?,
            unique_window_ms: Column::UniqueWindow.get(row)?,
            key: Column::Key.text(row)?,
            content_type: Column::ContentType.text(row)?,
            metadata: Column::Metadata.text(row)?,
            options: Column::Options.text(row)?,
            body: body.map(Cow::Borrowed),
        })
    }

    /// The value that the job asks to hold, and whether it does so for a time. An empty value is none.
    pub(super) fn unique(&self) -> Option<(&str, bool)> {
        let value = self.unique_value.as_deref().filter(|value| !value.is_empty())?;
        Some((value, self.unique_window_ms.is_some()))
    }

    /// The key whose other jobs this one waits for.
    pub(super) fn shared_key(&self) -> Option<&str> {
        self.key.as_deref().filter(|key| !key.is_empty())
    }

    /// The priority in whose line the job stands. If they say none, it cannot be read, wherever it stands.
    pub(super) fn priority(&self) -> Priority {
        Priority::parse(&self.priority).unwrap_or_default()
    }

    /// The job that they describe.
    ///
    /// # Errors
    /// Why they describe none.
    pub(super) fn job(self, id: JobId, topic: &TopicId) -> Result<Job, String> {
        let priority = Priority::parse(&self.priority).ok_or_else(|| format!("`{}` is no priority", self.priority))?;
        let metadata = self.metadata.as_deref().map(serde_json::from_str).transpose();
        let window = self.unique_window_ms.map(|ms| Duration::from_millis(whole(ms)));
        let spec = JobSpec {
            id,
            topic: topic.clone(),
            body: Payload {
                data: self.body.ok_or("its body is missing")?.into_owned(),
                content_type: self.content_type.map(Cow::into_owned),
            },
            metadata: metadata.map_err(|error| format!("its metadata: {error}"))?.unwrap_or_default(),
            options: JobOptions {
                key: self.key.map(Cow::into_owned),
                priority,
                unique: self.unique_value.map(|value| Unique { value: value.into_owned(), window }),
                ..read_options(self.options.as_deref()).map_err(|error| format!("its options: {error}"))?
            },
        };
        Ok(Job { spec, enqueued_at: at(self.enqueued_at), due_at: at(self.due_at) })
    }

    /// A job that stands for one that cannot be read: its body, as far as there is one, and its times.
    pub(super) fn placeholder(self, id: JobId, topic: &TopicId) -> Job {
        let data = self.body.map(Cow::into_owned).unwrap_or_default();
        let mut spec = JobSpec::new(topic.clone(), Payload { data, content_type: None });
        spec.id = id;
        Job { spec, enqueued_at: at(self.enqueued_at), due_at: at(self.due_at) }
    }
}

/// Reads the job of a row that begins with [`job_columns`].
///
/// # Errors
/// Why it cannot be read.
pub(super) fn read_job(row: &Row<'_>, topic: &TopicId) -> Result<Job, String> {
    let id = read_id(row).map_err(|fault| fault.to_string())?;
    Columns::read(row).map_err(|fault| fault.to_string())?.job(id, topic)
}

/// Reads a job to be shown to a person: one that cannot be read is shown as far as it can.
pub(super) fn show_job(row: &Row<'_>, topic: &TopicId) -> Done<Job> {
    match read_job(row, topic) {
        Ok(job) => Ok(job),
        Err(_) => Ok(Columns::read(row)?.placeholder(read_id(row)?, topic)),
    }
}

/// What is known about a job besides itself.
#[derive(Debug, Default)]
pub(super) struct JobHistory {
    pub(super) attempts: u32,
    pub(super) deliveries: u64,
    pub(super) failure: Option<Failure>,
    pub(super) checkpoint: Option<Vec<u8>>,
}

impl JobHistory {
    /// Of a running job, whose row has the counts of before it was claimed.
    pub(super) fn claimed(self) -> Self {
        Self { attempts: self.attempts.saturating_add(1), deliveries: self.deliveries + 1, ..self }
    }

    /// Reads it from a row that begins with [`job_columns`].
    pub(super) fn read(row: &Row<'_>) -> Done<Self> {
        let failure = row.get_ref(Column::Failure as usize)?.as_str_or_null().unwrap_or_default();
        let checkpoint = row.get_ref(Column::Checkpoint as usize)?.as_blob_or_null().unwrap_or_default();
        Ok(Self {
            attempts: attempts(Column::Attempts.get(row)?),
            deliveries: whole(Column::Deliveries.get(row)?),
            failure: read_failure(failure),
            checkpoint: checkpoint.filter(|state| !state.is_empty()).map(<[u8]>::to_vec),
        })
    }
}

/// How many bytes of a job a row that begins with [`job_columns`] holds: body, metadata, failure and checkpoint.
pub(super) fn stored_bytes(row: &Row<'_>) -> Done<usize> {
    let columns = [Column::Body, Column::Metadata, Column::Failure, Column::Checkpoint];
    columns.into_iter().try_fold(0, |sum, column| {
        Ok(match row.get_ref(column as usize)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => sum + bytes.len(),
            _ => sum,
        })
    })
}

/// The id that a row begins with.
pub(super) fn read_id(row: &Row<'_>) -> Done<JobId> {
    let id = row.get_ref(Column::Id as usize)?.as_str().map_err(no_text)?;
    id.parse().map_err(|_| Fault::Unreadable { job: id.into(), problem: "its id is none".into() })
}

fn no_text(error: FromSqlError) -> Fault {
    Fault::Refused(format!("a column is not what it must be: {error}"))
}

/// Text that may be absent, by the name of its column.
pub(super) fn text<'a>(row: &'a Row<'_>, column: &str) -> Done<Option<&'a str>> {
    row.get_ref(column)?.as_str_or_null().map_err(no_text)
}

/// The priority that a row says. If it says none, its job cannot be read, wherever it stands.
pub(super) fn priority(row: &Row<'_>) -> Done<Priority> {
    Ok(text(row, "priority")?.and_then(Priority::parse).unwrap_or_default())
}

/// The value that the end of a row's job sets free, if there is one.
pub(super) fn unique_until_done(row: &Row<'_>) -> Option<String> {
    let until_done = row.get::<_, Option<i64>>("unique_window_ms").is_ok_and(|window| window.is_none());
    let value = text(row, "unique_value").ok().flatten();
    value.filter(|value| until_done && !value.is_empty()).map(str::to_owned)
}

/// The key of which the job of a row that begins with [`job_columns`] holds a slot, by what it says in `slot`.
pub(super) fn key_of_slot(row: &Row<'_>, slot: Option<i64>) -> Done<Option<String>> {
    Ok(Column::Key.text(row)?.filter(|_| slot.is_some_and(|slot| slot != 0)).map(Cow::into_owned))
}

/// The topic that a row names in its column `topic`.
pub(super) fn topic(row: &Row<'_>, tenant: &Name) -> Done<TopicId> {
    let name = text(row, "topic")?.unwrap_or_default();
    let topic = name.parse().map_err(|error| Fault::Refused(format!("a topic's name is none: {error}")))?;
    Ok(TopicId { tenant: tenant.clone(), topic })
}
