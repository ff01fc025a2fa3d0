//! The language of the puppet's payloads.

use serde::{Deserialize, Serialize};

/// What a job tells the puppet to do. Without an end among its steps it completes with no result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    #[serde(rename = "do")]
    pub steps: Vec<Step>,
}

impl Script {
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect() }
    }

    /// Nothing but an ending.
    pub fn end(end: End) -> Self {
        Self::new([Step::End(end)])
    }

    /// The payload.
    #[expect(clippy::expect_used, reason = "no map in it has a key that is no string")]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a script is JSON")
    }
}

/// One thing to do. In JSON: `{"log": "x"}`, `{"sleep-ms": 50}`, `"wait-until-cancelled"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Step {
    /// One line through the log interface, at info, with the field `puppet`.
    Log(String),
    /// This many lines of this many bytes through the log interface.
    LogFlood {
        lines: u64,
        bytes: usize,
    },
    /// Text as it is, without a line end.
    Stdout(String),
    Stderr(String),
    /// This many lines of this many bytes to stdout.
    StdoutFlood {
        lines: u64,
        bytes: usize,
    },
    /// Fails the attempt with a retry, as `?` does, at the first job refused.
    Enqueue(Enqueue),
    /// Ignores every refusal and goes on.
    EnqueueIgnoringErrors(Enqueue),
    /// Stops at the first refusal and goes on with the next step.
    EnqueueUntilRefused(Enqueue),
    /// Fails the attempt with a retry if it is refused.
    Checkpoint(String),
    /// A checkpoint of this many bytes; a refusal becomes a log line.
    CheckpointBytes(usize),
    /// Basis points, and a note.
    Progress(u32, Option<String>),
    /// A blocking sleep through WASI; longer than the deadline if told so.
    SleepMs(u64),
    /// Rounds of a loop that cannot be optimised away, some fuel each.
    Burn(u64),
    /// This many calls of `context.now`.
    HostCalls(u64),
    /// Allocates and touches this many bytes and keeps them.
    Allocate(usize),
    /// Allocates and touches this many bytes and never frees them.
    Leak(usize),
    /// Sleeps 5 ms at a time until the host says that the attempt is cancelled.
    WaitUntilCancelled,
    /// Goes on only from this attempt on; before it, ends with a retry after these milliseconds.
    RetryUntilAttempt {
        attempt: u32,
        after_ms: Option<u64>,
    },
    /// Goes on only if there is a checkpoint; if there is none, saves this one and ends with a retry.
    RetryUntilCheckpoint(String),
    /// Traps, unless this is the first job of its instance.
    TrapIfUsed,
    /// Ends the attempt. Steps after it are not reached.
    End(End),
}

/// A job to enqueue, `count` times over; `count` of none is once, and `forever` means until something gives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Enqueue {
    pub topic: String,
    #[serde(default)]
    pub data: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    #[serde(default)]
    pub count: Count,
    /// What it waits for: `itself` is the job that runs, `0` the first job that this attempt has enqueued, all else an id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// It runs even if one of them was not done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub run_after_failed: bool,
    /// Named like those in `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Count {
    #[default]
    Once,
    Times(u64),
    Forever,
}

/// How the attempt ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum End {
    /// No result.
    Complete,
    /// This text as the result.
    Text(String),
    /// This many bytes `x` as the result.
    Bytes(usize),
    /// [`crate::Report`] as the result, with the values of these settings and secrets.
    Report {
        config: Vec<String>,
        secrets: Vec<String>,
    },
    /// The 25 bytes of the version marker as the result.
    Version,
    /// How many jobs this instance has begun, this one included, as text.
    JobCount,
    SnoozeMs(u64),
    Retry(Cause),
    Reject(Cause),
    Panic(String),
    Unreachable,
    /// Recursion without end.
    StackOverflow,
    InfiniteLoop,
    /// Allocates until the allocator gives up, which aborts.
    MemoryBomb,
    /// `process::exit` with this code.
    Exit(i32),
}

/// The puppet's own words about a failure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Cause {
    pub code: String,
    #[serde(default)]
    pub message: String,
    /// Text kept with the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Means nothing to a reject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_may_be_written_by_hand() {
        let text = r#"{"do": [
            {"log": "x"},
            {"enqueue": {"topic": "t", "data": "d", "count": {"times": 3}}},
            "wait-until-cancelled",
            {"retry-until-attempt": {"attempt": 3, "after-ms": null}},
            {"end": {"retry": {"code": "busy", "after-ms": 5}}}
        ]}"#;
        let enqueue = Enqueue { topic: "t".into(), data: "d".into(), count: Count::Times(3), ..Enqueue::default() };
        let expected = Script::new([
            Step::Log("x".into()),
            Step::Enqueue(enqueue),
            Step::WaitUntilCancelled,
            Step::RetryUntilAttempt { attempt: 3, after_ms: None },
            Step::End(End::Retry(Cause { code: "busy".into(), after_ms: Some(5), ..Cause::default() })),
        ]);
        assert_eq!(serde_json::from_str::<Script>(text).expect("a script"), expected);
        assert_eq!(serde_json::from_slice::<Script>(&expected.to_json()).expect("a script"), expected);
    }
}
