//! Follow-up jobs.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::bindings::gristmill::job::queue as wire;
pub use crate::bindings::gristmill::job::queue::{AfterFailed, Priority};
use crate::host::{context, queue};
use crate::outcome::whole_millis;
use crate::{Failure, Payload};

/// A job to be enqueued if this attempt succeeds.
///
/// No follow-up job is visible until the handler returns `Ok`: acknowledgement and follow-up jobs are one step in the
/// store. So a failed attempt enqueues nothing, and a retried one never enqueues twice.
///
/// ```
/// # use std::time::Duration;
/// # use gristmill_guest::{Failure, NewJob};
/// # fn handle(order: u32) -> Result<(), Failure> {
/// NewJob::to("remind").body("pay up").after(Duration::from_secs(3600)).unique(format!("remind-{order}")).enqueue()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a job is enqueued by `.enqueue()`"]
pub struct NewJob {
    job: wire::NewJob,
    links: wire::Links,
    due: Due,
}

#[derive(Debug, Clone, Copy)]
enum Due {
    Now,
    After(Duration),
    At(u64),
}

impl NewJob {
    /// A job with an empty body for this topic of the same tenant, due at once.
    pub fn to(topic: impl Into<String>) -> Self {
        let job = wire::NewJob {
            topic: topic.into(),
            body: Payload { data: Vec::new(), content_type: None },
            metadata: Vec::new(),
            key: None,
            not_before: None,
            unique: None,
            priority: Priority::Normal,
            unique_window: None,
        };
        let links = wire::Links { after: Vec::new(), after_failed: AfterFailed::Dead, batch: None, open: false };
        Self { job, links, due: Due::Now }
    }

    /// Bytes, text, or a [`Payload`] with a content type of its own.
    pub fn body(mut self, body: impl Into<Payload>) -> Self {
        self.job.body = body.into();
        self
    }

    /// `value` as JSON.
    ///
    /// # Errors
    ///
    /// As [`Payload::json`].
    pub fn json(self, value: &(impl Serialize + ?Sized)) -> Result<Self, Failure> {
        Ok(self.body(Payload::json(value)?))
    }

    /// Due this long after [`NewJob::enqueue`], in whole milliseconds. Replaces [`NewJob::at`].
    pub fn after(mut self, delay: Duration) -> Self {
        self.due = Due::After(delay);
        self
    }

    /// Due at this time, in milliseconds since the Unix epoch by the store's clock. Replaces [`NewJob::after`].
    pub fn at(mut self, unix_millis: u64) -> Self {
        self.due = Due::At(unix_millis);
        self
    }

    /// At most one waiting or running job per topic and value: if there is one already, this job is dropped when the
    /// attempt is settled.
    pub fn unique(mut self, value: impl Into<String>) -> Self {
        self.job.unique = Some(value.into());
        self.job.unique_window = None;
        self
    }

    /// At most one job per topic and value within `window`, whatever becomes of it: for this long from this attempt's
    /// acknowledgement on, others are dropped. Whole milliseconds. Replaces [`NewJob::unique`].
    pub fn unique_for(mut self, value: impl Into<String>, window: Duration) -> Self {
        self.job.unique = Some(value.into());
        self.job.unique_window = Some(whole_millis(window));
        self
    }

    /// Which of the topic's ready jobs come first.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.job.priority = priority;
        self
    }

    /// Jobs of the topic with the same key run one at a time and in order. The job's handler sees it.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.job.key = Some(key.into());
        self
    }

    /// Adds a metadata entry; names may repeat.
    pub fn meta(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.job.metadata.push((name.into(), value.into()));
        self
    }

    /// Adds jobs of the same tenant that have to end before this one starts: done, dead, expired or cancelled. Among them may be the job
    /// that runs ([`Job::id`](crate::Job)), and follow-ups that it has enqueued before. At most 1,000 in all.
    ///
    /// ```
    /// # use gristmill_guest::{Failure, Job, NewJob};
    /// # fn handle(job: Job) -> Result<(), Failure> {
    /// let resized = NewJob::to("resize").body(job.body).enqueue()?;
    /// NewJob::to("publish").after_jobs([resized]).enqueue()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn after_jobs(mut self, ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.links.after.extend(ids.into_iter().map(Into::into));
        self
    }

    /// What becomes of this job if one of those that it waited for was not done: by default it is dead, too.
    pub fn after_failed(mut self, then: AfterFailed) -> Self {
        self.links.after_failed = then;
        self
    }

    /// Makes this job a member of a batch: a job that waits, which waits for this one, too.
    ///
    /// A job that waits for the one that runs takes members until this one has ended, and needs no seal:
    ///
    /// ```
    /// # use gristmill_guest::{Failure, Job, NewJob};
    /// # fn handle(job: Job) -> Result<(), Failure> {
    /// let report = NewJob::to("report").after_jobs([&job.id]).enqueue()?;
    /// for row in job.text()?.lines() {
    ///     NewJob::to("import-row").body(row).batch(&report).enqueue()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch(mut self, id: impl Into<String>) -> Self {
        self.links.batch = Some(id.into());
        self
    }

    /// Makes this job a batch that other producers may add members to: it waits until it is sealed from outside, by `gristmill job seal` or
    /// over HTTP, and all its members have ended.
    pub fn open(mut self) -> Self {
        self.links.open = true;
        self
    }

    /// Hands the job to the host and returns the id that it will have.
    ///
    /// # Errors
    ///
    /// See [`EnqueueError`]. The attempt may go on regardless: a refused job leaves the others as they are.
    pub fn enqueue(mut self) -> Result<String, EnqueueError> {
        self.job.not_before = match self.due {
            Due::Now => None,
            Due::After(delay) => Some(context::now().saturating_add(whole_millis(delay))),
            Due::At(unix_millis) => Some(unix_millis),
        };
        queue::enqueue_linked(&self.job, &self.links).map_err(|error| EnqueueError::new(error, self.job.topic))
    }
}

/// Why the host refused a follow-up job. Through `?` it fails the attempt with a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum EnqueueError {
    /// The manifest does not let this topic enqueue to that one.
    Denied { topic: String },
    /// The tenant has no such topic.
    UnknownTopic { topic: String },
    /// The body is larger than that topic accepts; or the headers are larger than any topic accepts. A due time or a unique
    /// window that no topic accepts is refused likewise: then the limit is in milliseconds.
    TooLarge { topic: String, limit_bytes: u64 },
    /// This attempt has enqueued as many jobs as it may.
    TooMany { limit: u32 },
    /// An id is invalid, there are too many ids, or the links contradict each other or those of an earlier follow-up.
    InvalidLinks { topic: String, problem: String },
}

impl EnqueueError {
    /// Whether another try may end differently: a topic may be made meanwhile, and nothing else here depends on the time.
    pub fn is_worth_a_retry(&self) -> bool {
        matches!(self, Self::UnknownTopic { .. })
    }

    fn new(error: wire::LinkedError, topic: String) -> Self {
        match error {
            wire::LinkedError::Denied => Self::Denied { topic },
            wire::LinkedError::UnknownTopic => Self::UnknownTopic { topic },
            wire::LinkedError::TooLarge(limit_bytes) => Self::TooLarge { topic, limit_bytes },
            wire::LinkedError::TooMany(limit) => Self::TooMany { limit },
            wire::LinkedError::InvalidLinks(problem) => Self::InvalidLinks { topic, problem },
        }
    }
}

impl fmt::Display for EnqueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied { topic } => {
                write!(f, "this topic may not enqueue to `{topic}`; name it in the manifest's `enqueue` grant")
            }
            Self::UnknownTopic { topic } => {
                write!(f, "there is no topic `{topic}` to enqueue to; name it under `topics` in the manifest")
            }
            Self::TooLarge { topic, limit_bytes } => {
                write!(
                    f,
                    "the job is over a limit of topic `{topic}`: {limit_bytes} bytes of its body or headers, or milliseconds of a time"
                )
            }
            Self::TooMany { limit } => write!(f, "one attempt may enqueue no more than {limit} jobs"),
            Self::InvalidLinks { topic, problem } => {
                write!(f, "the job for topic `{topic}` has invalid links: {problem}")
            }
        }
    }
}

/// It does not implement `std::error::Error`: that conversion makes a retry of every error, and most of these are not worth one.
impl From<EnqueueError> for Failure {
    fn from(error: EnqueueError) -> Self {
        let kind = if error.is_worth_a_retry() { Self::retry } else { Self::reject };
        kind("enqueue-failed", error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Host, job};

    #[test]
    fn a_follow_up_carries_everything_it_was_given() {
        let run = Host::new().now(1_000).run(
            |_| -> Result<(), Failure> {
                let job = NewJob::to("notify").json(&[1])?.after(Duration::from_millis(500)).unique("u").key("k");
                job.meta("a", "1").meta("a", "2").enqueue()?;
                NewJob::to("later").body("x").at(99).enqueue()?;
                Ok(())
            },
            job("t"),
        );
        let [notify, later] = run.enqueued() else { panic!("two jobs: {run:?}") };
        assert_eq!(notify.body, Payload::new("[1]", "application/json"));
        assert_eq!((notify.unique.as_deref(), notify.key.as_deref()), (Some("u"), Some("k")));
        assert_eq!(notify.metadata, [("a".into(), "1".into()), ("a".into(), "2".into())]);
        assert_eq!((notify.not_before, later.not_before), (Some(1_500), Some(99)));
        assert_eq!((notify.priority, notify.unique_window), (Priority::Normal, None));
    }

    #[test]
    fn priority_and_window_are_passed_on() {
        let enqueue = |_| -> Result<(), Failure> {
            let window = Duration::from_secs(60);
            NewJob::to("report").unique_for("daily", window).priority(Priority::Low).enqueue()?;
            NewJob::to("report").unique_for("daily", window).unique("other").enqueue()?;
            Ok(())
        };
        let run = Host::new().run(enqueue, job("t"));
        let [first, second] = run.enqueued() else { panic!("two jobs: {run:?}") };
        assert_eq!((first.unique.as_deref(), first.unique_window), (Some("daily"), Some(60_000)));
        assert_eq!(first.priority, Priority::Low);
        assert_eq!((second.unique.as_deref(), second.unique_window), (Some("other"), None));
    }

    #[test]
    fn links_are_passed_on() {
        let enqueue = |job: crate::Job| -> Result<(), Failure> {
            let report = NewJob::to("report").after_jobs([&job.id]).after_jobs(["stored"]);
            let report = report.after_failed(AfterFailed::Run).enqueue()?;
            NewJob::to("import").batch(&report).open().enqueue()?;
            NewJob::to("plain").enqueue()?;
            Ok(())
        };
        let first = job("t").build();
        let run = Host::new().run(enqueue, first.clone());
        let [report, import, plain] = run.enqueued() else { panic!("three jobs: {run:?}") };
        let none = wire::Links { after: vec![], after_failed: AfterFailed::Dead, batch: None, open: false };
        let after = vec![first.id, "stored".into()];
        assert_eq!(report.links, wire::Links { after, after_failed: AfterFailed::Run, ..none.clone() });
        assert_eq!(import.links, wire::Links { batch: Some(report.id.clone()), open: true, ..none.clone() });
        assert_eq!((plain.topic.as_str(), &plain.links), ("plain", &none));
    }

    #[test]
    fn refusals_say_what_to_do() {
        let enqueue = |_| -> Result<(), Failure> {
            NewJob::to("bank").enqueue()?;
            Ok(())
        };
        let run = Host::new().deny("bank").run(enqueue, job("t"));
        let failure = run.failure().expect("denied");
        assert!(!failure.is_retry() && failure.code() == "enqueue-failed", "{failure:?}");
        assert!(failure.message().contains("may not enqueue to `bank`"), "{failure:?}");
        let unknown = EnqueueError::new(wire::LinkedError::UnknownTopic, "bank".into());
        assert!(unknown.to_string().contains("no topic `bank` to enqueue to; name it under `topics`"), "{unknown}");
        assert!(Failure::from(unknown).is_retry(), "the operator may make the topic");
        let invalid = EnqueueError::new(wire::LinkedError::InvalidLinks("`?` is no job id".into()), "bank".into());
        assert_eq!(invalid.to_string(), "the job for topic `bank` has invalid links: `?` is no job id");
    }
}
