//! The calls of a recorded attempt.

use schemars::JsonSchema;
use serde::Serialize;

use gristmill_core::job::JobId;
use gristmill_runner::{RecordedCall, RecordedLine, Recording};

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
