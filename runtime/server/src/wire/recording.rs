//! Which jobs have recordings, and the calls of a recorded attempt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BATCH, usual_page};
use gristmill_core::job::JobId;
use gristmill_core::time::Timestamp;
use gristmill_runner::{RecordedCall, RecordedLine, Recording};
use gristmill_store::RecordedJob;

/// Which of a topic's recorded jobs are wanted.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordedPage {
    /// The `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<After>,
    #[serde(default = "usual_page")]
    #[schemars(range(min = 1, max = BATCH))]
    pub(crate) limit: usize,
}

/// The last job of a page, as a text.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub(crate) struct After(pub(crate) RecordedJob);

/// A page of a topic's jobs of which a recording is kept.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RecordedJobs {
    pub(crate) jobs: Vec<Recorded>,
    pub(crate) next: Option<After>,
}

/// A job of which a recording is kept.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Recorded {
    pub(crate) id: JobId,
    /// Until when, in milliseconds since 1970.
    #[serde(rename = "until_ms")]
    until: Timestamp,
}

impl RecordedJobs {
    /// What the store found of at most `limit` jobs.
    pub(crate) fn of(jobs: Vec<RecordedJob>, limit: usize) -> Self {
        let next = jobs.last().filter(|_| jobs.len() >= limit).cloned().map(After);
        let jobs = jobs.into_iter().map(|RecordedJob { until, id }| Recorded { id, until }).collect();
        Self { jobs, next }
    }
}

impl From<After> for String {
    fn from(After(RecordedJob { until, id }): After) -> Self {
        format!("{}-{id}", until.as_millis())
    }
}

impl TryFrom<String> for After {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let job = text.split_once('-').and_then(|(until, id)| {
            let until = Timestamp::from_millis(until.parse().ok()?);
            Some(RecordedJob { until, id: id.parse().ok()? })
        });
        job.map(Self).ok_or("it is not the `next` of a page of recordings")
    }
}

/// What the last recorded attempt at a job asked of the host.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobCalls {
    id: JobId,
    /// `null`: no recording is kept, or it cannot be read.
    recorded: Option<RecordedAttempt>,
    /// Why the recording cannot be read here.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
}

/// One attempt: its calls, and what it logged between them.
#[derive(Debug, Serialize, JsonSchema)]
struct RecordedAttempt {
    /// Which attempt, from 1.
    attempt: u32,
    /// How it ended, such as `trapped`.
    outcome: String,
    fuel: u64,
    /// Why it cannot be replayed; not there if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<String>,
    calls: Vec<RecordedCall>,
    /// `null`: a secret was in them, and they are not kept.
    log: Option<Vec<RecordedLine>>,
}

impl JobCalls {
    /// Reads what the store keeps of a job.
    pub(crate) fn of(id: JobId, recording: Option<&[u8]>) -> Self {
        match recording.map(Recording::parse).transpose() {
            Ok(recording) => Self { id, recorded: recording.as_ref().map(RecordedAttempt::of), unreadable: None },
            Err(error) => Self { id, recorded: None, unreadable: Some(error.to_string()) },
        }
    }
}

impl RecordedAttempt {
    fn of(recording: &Recording) -> Self {
        Self {
            attempt: recording.head.attempt,
            outcome: recording.end.outcome.clone(),
            fuel: recording.end.fuel,
            incomplete: recording.incomplete.clone(),
            calls: recording.calls().collect(),
            log: recording.lines(),
        }
    }
}
