//! One thing that has happened, as it is told.

use serde::{Serialize, Serializer};

use super::topic::End;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;

/// What has happened. The names are stable; new ones may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    JobPushed,
    JobStarted,
    JobCompleted,
    JobRetried,
    JobSnoozed,
    /// Given back as if it had never been claimed.
    JobReleased,
    JobDead,
    JobExpired,
    JobCancelled,
    JobRespawned,
    /// Taken back from a worker that was lost. What becomes of the job is the next event.
    JobTakenBack,
    HandlerLoaded,
    HandlerReplaced,
    HandlerRefused,
    HandlerRemoved,
    TopicPaused,
    TopicResumed,
}

impl EventKind {
    pub const ALL: [(Self, &str); 17] = [
        (Self::JobPushed, "job-pushed"),
        (Self::JobStarted, "job-started"),
        (Self::JobCompleted, "job-completed"),
        (Self::JobRetried, "job-retried"),
        (Self::JobSnoozed, "job-snoozed"),
        (Self::JobReleased, "job-released"),
        (Self::JobDead, "job-dead"),
        (Self::JobExpired, "job-expired"),
        (Self::JobCancelled, "job-cancelled"),
        (Self::JobRespawned, "job-respawned"),
        (Self::JobTakenBack, "job-taken-back"),
        (Self::HandlerLoaded, "handler-loaded"),
        (Self::HandlerReplaced, "handler-replaced"),
        (Self::HandlerRefused, "handler-refused"),
        (Self::HandlerRemoved, "handler-removed"),
        (Self::TopicPaused, "topic-paused"),
        (Self::TopicResumed, "topic-resumed"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind)
    }

    /// What follows for the job from a settlement that the store has carried out.
    pub const fn of_end(end: End) -> Option<Self> {
        match end {
            End::Acked => Some(Self::JobCompleted),
            End::Retried => Some(Self::JobRetried),
            End::Snoozed => Some(Self::JobSnoozed),
            End::Released => Some(Self::JobReleased),
            End::Expired => Some(Self::JobExpired),
            End::Cancelled => Some(Self::JobCancelled),
            End::Dead(_) => Some(Self::JobDead),
            End::LeaseLost | End::Unsettled => None,
        }
    }
}

/// By name.
impl Serialize for EventKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

/// One event. Neither bodies nor results, nor what a handler said.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    pub kind: EventKind,
    /// This host's clock.
    pub at_ms: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<Name>,
    /// The beginning of the component's SHA-256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Of a job its failure in a word, of a handler why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again_in_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    /// Whose business it is besides `tenant`.
    #[serde(skip)]
    pub concerns: Vec<Name>,
}

impl Event {
    /// An event of which nothing else is known yet.
    pub fn new(kind: EventKind) -> Self {
        Self {
            kind,
            at_ms: Timestamp::now(),
            tenant: None,
            topic: None,
            job: None,
            attempt: None,
            delivery: None,
            worker: None,
            handler: None,
            version: None,
            reason: None,
            again_in_ms: None,
            duration_ms: None,
            fuel: None,
            memory_peak_bytes: None,
            concerns: Vec::new(),
        }
    }

    pub fn of_topic(kind: EventKind, TopicId { tenant, topic }: &TopicId) -> Self {
        Self { tenant: Some(tenant.clone()), topic: Some(topic.clone()), ..Self::new(kind) }
    }

    pub fn of_job(kind: EventKind, topic: &TopicId, job: &JobId) -> Self {
        Self { job: Some(job.clone()), ..Self::of_topic(kind, topic) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (kind, name) in EventKind::ALL {
            assert_eq!((EventKind::parse(name), kind.as_str()), (Some(kind), name));
        }
        assert_eq!(EventKind::parse("job-vanished"), None);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let event = Event { at_ms: Timestamp::from_millis(7), ..Event::new(EventKind::HandlerRemoved) };
        assert_eq!(serde_json::to_string(&event).unwrap(), r#"{"kind":"handler-removed","at_ms":7}"#);
    }
}
