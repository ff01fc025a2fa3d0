//! Handlers without a component: processes of this machine, in the language's own CPython or Node.js, which do jobs as `handler.toml` says.
//!
//! [`process`] has the protocol. Who answers what a handler asks is a [`Host`]: the runner whose job it is (`live`), or the recording of an attempt that is
//! replayed (`recorded`).

mod live;
mod process;
mod recorded;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) use self::process::{Debugger, Mode, Process};
use gristmill_core::job::{Job, Payload};
use gristmill_runner::native::LogLine;
use gristmill_sandbox::NativeRequest;

/// Gives a process its job, and answers what its handler asks meanwhile.
pub(super) trait Host: Send {
    fn request(&self) -> Request<'_>;
    fn log(&mut self, line: LogLine);
    fn answer(&mut self, question: Question) -> impl Future<Output = HostAnswer> + Send;
}

/// A code for the SDK, and a message for people, if there is no good answer.
pub(super) type HostAnswer = Result<Value, (&'static str, String)>;

/// A job, as the process gets it. Bytes are payloads, since these are written as base64.
#[derive(Serialize)]
pub(super) struct Request<'a> {
    job: &'a Job,
    attempt: u32,
    max_attempts: u32,
    deadline_ms: u64,
    now_ms: u64,
    checkpoint: Option<Payload>,
    config: &'a BTreeMap<String, String>,
    secrets: BTreeMap<&'a str, Payload>,
}

/// What a handler asks. Each is answered: `{"ok": …}`, or `{"code": …, "message": …}`.
#[derive(Debug, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Question {
    IsCancelled,
    Checkpoint {
        state: Payload,
    },
    State,
    SetState {
        value: Option<Payload>,
    },
    Enqueue {
        job: Value,
    },
    // Only a replay asks for the rest: else the job comes with it, or the process knows.
    Config {
        name: String,
    },
    Secret {
        name: String,
    },
    Enabled {
        level: String,
    },
    /// Seconds since the Unix epoch, and nanoseconds.
    Time,
    Http {
        request: NativeRequest,
    },
}

fn bytes(data: Vec<u8>) -> Payload {
    Payload { data, content_type: None }
}
