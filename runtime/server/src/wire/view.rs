//! What is told of jobs and topics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::job::{Payload, Spec};
use gristmill_core::job::{self, JobId, Name, TopicId};
use gristmill_core::outcome::{self, Reason};
use gristmill_core::time::Timestamp;
use gristmill_store as store;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct JobView {
    id: JobId,
    #[serde(flatten)]
    state: JobState,
    job: Option<Job>,
    attempts: u32,
    last_failure: Option<Failure>,
    result: Option<Ending>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    spec: Spec,
    enqueued_at_ms: Timestamp,
    due_at_ms: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
enum JobState {
    Ready,
    Delayed { until_ms: Timestamp },
    Running { worker: String, delivery: u64, lease_until_ms: Timestamp, cancelled: bool },
    Dead { since_ms: Timestamp },
    Finished,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Failure {
    reason: Reason,
    code: String,
    message: String,
    context: Option<Payload>,
    backtrace: Option<String>,
}

/// What became of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
enum Ending {
    Complete { output: Option<Payload> },
    Dead { failure: Failure },
    Expired,
    Cancelled,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DeadJob {
    job: Job,
    since_ms: Timestamp,
    attempts: u32,
    failure: Option<Failure>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TopicCounts {
    tenant: Name,
    topic: Name,
    ready: u64,
    delayed: u64,
    running: u64,
    dead: u64,
    oldest_ready_ms: Option<Timestamp>,
    paused: bool,
    totals: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cancelled {
    Gone,
    Stopping,
    TooLate,
}

impl From<store::JobView> for JobView {
    fn from(view: store::JobView) -> Self {
        let state = match view.state {
            store::JobState::Ready => JobState::Ready,
            store::JobState::Delayed { until } => JobState::Delayed { until_ms: until },
            store::JobState::Running { worker, delivery, lease_until, cancelled } => {
                JobState::Running { worker, delivery, lease_until_ms: lease_until, cancelled }
            }
            store::JobState::Dead { since } => JobState::Dead { since_ms: since },
            store::JobState::Finished => JobState::Finished,
        };
        Self {
            id: view.id,
            state,
            job: view.job.as_ref().map(Job::from),
            attempts: view.attempts,
            last_failure: view.last_failure.map(Failure::from),
            result: view.result.map(Ending::from),
        }
    }
}

impl From<JobView> for store::JobView {
    fn from(view: JobView) -> Self {
        let state = match view.state {
            JobState::Ready => store::JobState::Ready,
            JobState::Delayed { until_ms } => store::JobState::Delayed { until: until_ms },
            JobState::Running { worker, delivery, lease_until_ms, cancelled } => {
                store::JobState::Running { worker, delivery, lease_until: lease_until_ms, cancelled }
            }
            JobState::Dead { since_ms } => store::JobState::Dead { since: since_ms },
            JobState::Finished => store::JobState::Finished,
        };
        Self {
            id: view.id,
            state,
            job: view.job.map(Into::into),
            attempts: view.attempts,
            last_failure: view.last_failure.map(Into::into),
            result: view.result.map(Into::into),
        }
    }
}

impl From<&job::Job> for Job {
    fn from(job: &job::Job) -> Self {
        Self { spec: Spec::from(&job.spec), enqueued_at_ms: job.enqueued_at, due_at_ms: job.due_at }
    }
}

impl From<Job> for job::Job {
    fn from(Job { spec, enqueued_at_ms, due_at_ms }: Job) -> Self {
        Self { spec: spec.into(), enqueued_at: enqueued_at_ms, due_at: due_at_ms }
    }
}

impl From<outcome::Failure> for Failure {
    fn from(failure: outcome::Failure) -> Self {
        let outcome::Failure { reason, detail, backtrace } = failure;
        let context = detail.context.as_ref().map(Payload::from);
        Self { reason, code: detail.code, message: detail.message, context, backtrace }
    }
}

impl From<Failure> for outcome::Failure {
    fn from(failure: Failure) -> Self {
        let Failure { reason, code, message, context, backtrace } = failure;
        let detail = outcome::FailureDetail { code, message, context: context.map(Into::into) };
        Self { reason, detail, backtrace }
    }
}

impl From<store::ResultView> for Ending {
    fn from(result: store::ResultView) -> Self {
        match result {
            store::ResultView::Complete(output) => Self::Complete { output: output.as_ref().map(Payload::from) },
            store::ResultView::Dead(failure) => Self::Dead { failure: failure.into() },
            store::ResultView::Expired => Self::Expired,
            store::ResultView::Cancelled => Self::Cancelled,
        }
    }
}

impl From<Ending> for store::ResultView {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Complete { output } => Self::Complete(output.map(Into::into)),
            Ending::Dead { failure } => Self::Dead(failure.into()),
            Ending::Expired => Self::Expired,
            Ending::Cancelled => Self::Cancelled,
        }
    }
}

impl From<store::DeadJob> for DeadJob {
    fn from(dead: store::DeadJob) -> Self {
        let failure = dead.failure.map(Failure::from);
        Self { job: Job::from(&dead.job), since_ms: dead.since, attempts: dead.attempts, failure }
    }
}

impl From<DeadJob> for store::DeadJob {
    fn from(dead: DeadJob) -> Self {
        let failure = dead.failure.map(Into::into);
        Self { job: dead.job.into(), since: dead.since_ms, attempts: dead.attempts, failure }
    }
}

impl From<store::TopicCounts> for TopicCounts {
    fn from(counts: store::TopicCounts) -> Self {
        let store::TopicCounts { topic, ready, delayed, running, dead, oldest_ready, paused, totals } = counts;
        let TopicId { tenant, topic } = topic;
        Self { tenant, topic, ready, delayed, running, dead, oldest_ready_ms: oldest_ready, paused, totals }
    }
}

impl From<TopicCounts> for store::TopicCounts {
    fn from(counts: TopicCounts) -> Self {
        let TopicCounts { tenant, topic, ready, delayed, running, dead, oldest_ready_ms, paused, totals } = counts;
        let topic = TopicId { tenant, topic };
        Self { topic, ready, delayed, running, dead, oldest_ready: oldest_ready_ms, paused, totals }
    }
}

impl From<store::Cancelled> for Cancelled {
    fn from(cancelled: store::Cancelled) -> Self {
        match cancelled {
            store::Cancelled::Gone => Self::Gone,
            store::Cancelled::Stopping => Self::Stopping,
            store::Cancelled::TooLate => Self::TooLate,
        }
    }
}

impl From<Cancelled> for store::Cancelled {
    fn from(cancelled: Cancelled) -> Self {
        match cancelled {
            Cancelled::Gone => Self::Gone,
            Cancelled::Stopping => Self::Stopping,
            Cancelled::TooLate => Self::TooLate,
        }
    }
}
