//! One thing that has happened, as a stream of events shows it.

use schemars::JsonSchema;
use serde::Serialize;
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::actor::actor;
use super::topic::AttemptEnd;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;

/// What has happened. The names, in kebab case, are stable; new ones may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, EnumString, IntoStaticStr, VariantNames, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum EventKind {
    /// A producer pushed a job.
    JobPushed,
    /// A worker began an attempt.
    JobStarted,
    /// The handler has said how far it is; at most once a second for each attempt.
    JobProgress,
    /// The job is done.
    JobCompleted,
    /// The attempt failed, and another one follows.
    JobRetried,
    /// The handler asked to run again later.
    JobSnoozed,
    /// Given back as if it had never been claimed.
    JobReleased,
    /// The job is given up.
    JobDead,
    /// The job's time to live ended before an attempt began.
    JobExpired,
    /// The job was cancelled.
    JobCancelled,
    /// A dead job is ready again.
    JobRespawned,
    /// A running job was cancelled or killed, and has not ended yet.
    JobStopping,
    /// A waiting job has another due time or priority.
    JobChanged,
    /// A dead job was deleted.
    JobDeleted,
    /// Taken back from a worker that was lost. What becomes of the job is the next event.
    JobTakenBack,
    /// A component serves its topics for the first time.
    HandlerLoaded,
    /// A component serves in place of another version.
    HandlerReplaced,
    /// A component failed a check, and does not serve.
    HandlerRefused,
    /// The file of a component is gone, and it serves no longer.
    HandlerRemoved,
    /// This server took a component for a topic.
    HandlerUploaded,
    /// A version begins to do a share of a topic's jobs.
    HandlerTried,
    /// A version that did a share of a topic's jobs does all of them.
    HandlerPromoted,
    /// A topic went back to an earlier version.
    HandlerRolledBack,
    /// No job of the topic is handed out.
    TopicPaused,
    /// The topic's jobs are handed out again.
    TopicResumed,
    /// A bulk action begins to change jobs.
    BulkStarted,
    /// A bulk action is done, was aborted, or failed.
    BulkEnded,
    /// A token was made.
    TokenAdded,
    /// A token was revoked.
    TokenRevoked,
}

impl EventKind {
    /// The name of every kind.
    pub const NAMES: &[&str] = Self::VARIANTS;

    /// The name, in kebab case.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The kind of this name; `None` if there is none.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    /// The event of a settlement. Returns `None` if the store did not carry it out.
    pub const fn of_end(end: AttemptEnd) -> Option<Self> {
        match end {
            AttemptEnd::Acked => Some(Self::JobCompleted),
            AttemptEnd::Retried => Some(Self::JobRetried),
            AttemptEnd::Snoozed => Some(Self::JobSnoozed),
            AttemptEnd::Released => Some(Self::JobReleased),
            AttemptEnd::Expired => Some(Self::JobExpired),
            AttemptEnd::Cancelled => Some(Self::JobCancelled),
            AttemptEnd::Dead => Some(Self::JobDead),
            AttemptEnd::LeaseLost | AttemptEnd::Unsettled => None,
        }
    }
}

/// One event. It holds no body, no result, and nothing that a handler wrote.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Event {
    /// What has happened.
    pub kind: EventKind,
    /// This host's clock.
    pub at_ms: Timestamp,
    /// The tenant that it is about; none for a handler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Name>,
    /// The topic that it is about; none for a handler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<Name>,
    /// The job that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// The number of the attempt, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The number of the claim, which only grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<u64>,
    /// How far the attempt is, in hundredths of a per cent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis_points: Option<u32>,
    /// The worker that made the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The handler that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<Name>,
    /// The first digits of the component's SHA-256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// For a job its failure in a word, for a handler why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long until the next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again_in_ms: Option<u64>,
    /// How long the attempt took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Fuel that the attempt used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// The most memory that the guest had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    /// The id of the token that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Who asked for it, if this server took the request: a token by its description and id, or `operator`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The bulk action that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bulk: Option<BulkFacts>,
    /// Further tenants whose streams show it.
    #[serde(skip)]
    pub concerns: Vec<Name>,
}

/// What an event says of a bulk action.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BulkFacts {
    /// Its id.
    pub id: String,
    /// What it does to each job.
    pub action: &'static str,
    /// The query of its jobs.
    pub q: String,
    /// Who made it: a token by its description and id, or `operator`.
    pub actor: String,
    /// `running`, or how it ended.
    pub state: &'static str,
    /// How many jobs the dry run counted.
    pub matched: u64,
    /// How many jobs were changed.
    pub changed: u64,
    /// How many jobs had their turn and were not.
    pub skipped: u64,
}

impl Event {
    /// An event of now with nothing but its kind, and who asked for it if it is emitted in [`as_actor`](crate::as_actor).
    pub fn new(kind: EventKind) -> Self {
        Self {
            kind,
            at_ms: Timestamp::now(),
            tenant: None,
            topic: None,
            job: None,
            attempt: None,
            delivery: None,
            basis_points: None,
            worker: None,
            handler: None,
            version: None,
            reason: None,
            again_in_ms: None,
            duration_ms: None,
            fuel: None,
            memory_peak_bytes: None,
            token: None,
            actor: actor(),
            bulk: None,
            concerns: Vec::new(),
        }
    }

    /// An event about a topic.
    pub fn of_topic(kind: EventKind, TopicId { tenant, topic }: &TopicId) -> Self {
        Self { tenant: Some(tenant.clone()), topic: Some(topic.clone()), ..Self::new(kind) }
    }

    /// An event about a job.
    pub fn of_job(kind: EventKind, topic: &TopicId, job: &JobId) -> Self {
        Self { job: Some(job.clone()), ..Self::of_topic(kind, topic) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in EventKind::NAMES {
            let kind = EventKind::parse(name).unwrap();
            assert_eq!((kind.as_str(), serde_json::to_value(kind).unwrap()), (*name, (*name).into()));
        }
        assert_eq!(EventKind::JobTakenBack.as_str(), "job-taken-back");
        assert_eq!(EventKind::parse("job-vanished"), None);
    }

    #[test]
    fn an_unknown_field_is_left_out() {
        let event = Event { at_ms: Timestamp::from_millis(7), ..Event::new(EventKind::HandlerRemoved) };
        assert_eq!(serde_json::to_string(&event).unwrap(), r#"{"kind":"handler-removed","at_ms":7}"#);
    }
}
