//! One attempt, as it is kept and as it is shown.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::journal::AttemptLine;
use crate::record::{AttemptRecord, cut};
use gristmill_core::outcome::{OutcomeKind, Settled};
use gristmill_core::time::Timestamp;
use gristmill_sandbox::LogTail;

/// What the texts of an attempt's names take in memory besides the attempt itself, at least.
const NAMES: usize = 128;

/// An attempt that was settled lately.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RecentAttempt {
    /// As the journal has it.
    #[serde(flatten)]
    attempt: AttemptLine,
    /// When the runner kept it: after the settle, or when it took the job back from a lost worker. By the server's clock.
    at_ms: Timestamp,
    /// It failed, the host failed, or what it did was not counted because its lease was lost or the store refused.
    failed: bool,
    /// Of a failure: what the handler said, or Gristmill for it. At most 4 KiB.
    message: Option<String>,
    /// What the guest logged and printed, the earliest first: at most 16 KiB, of a longer log the end.
    log: Vec<LoggedLine>,
    /// How many lines came before those of `log`, and are not kept.
    log_left_out: u64,
}

impl RecentAttempt {
    /// Leaves out what the guest logged and printed.
    pub fn hide_log(&mut self) {
        self.log_left_out += self.log.drain(..).count() as u64;
    }
}

/// A line that a guest logged or printed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LoggedLine {
    /// When, by the store's clock.
    at_ms: Timestamp,
    /// `error`, `warn`, `info`, `debug` or `trace`. Standard output is `info`, standard error `warn`.
    level: String,
    /// `log`, `stdout`, `stderr`, `progress` or `http`.
    source: &'static str,
    /// What it says, with its fields as `name=value`.
    text: String,
}

/// An attempt in memory. Clones share its texts.
#[derive(Debug, Clone)]
pub(super) struct BufferedAttempt {
    /// Grows with each attempt.
    pub(super) number: u64,
    pub(super) at: Timestamp,
    pub(super) line: AttemptLine,
    pub(super) failed: bool,
    message: Option<Arc<str>>,
    /// `None`: the guest logged nothing.
    log: Option<Arc<LogTail>>,
    /// What it takes in memory, roughly.
    pub(super) bytes: usize,
}

impl BufferedAttempt {
    pub(super) fn new(number: u64, at: Timestamp, record: &AttemptRecord, log: Option<LogTail>) -> Self {
        let failure = record.verdict.failure();
        let failed = failure.is_some()
            || matches!(record.settled, None | Some(Settled::LeaseLost))
            || record.outcome == OutcomeKind::HostFault;
        let message = failure.map(|failure| Arc::from(&*cut(&failure.detail.message)));
        let log = log.filter(|log| !log.is_empty()).map(|log| Arc::new(log.ended()));
        let texts = message.as_ref().map_or(0, |message: &Arc<str>| message.len())
            + log.as_ref().map_or(0, |log| log.bytes() + size_of::<LogTail>());
        let bytes = size_of::<Self>() + NAMES + texts;
        Self { number, at, line: AttemptLine::from(record), failed, message, log, bytes }
    }
}

impl From<BufferedAttempt> for RecentAttempt {
    fn from(BufferedAttempt { at, line, failed, message, log, .. }: BufferedAttempt) -> Self {
        Self {
            attempt: line,
            at_ms: at,
            failed,
            message: message.map(|message| message.to_string()),
            log: log.as_deref().into_iter().flat_map(lines).collect(),
            log_left_out: log.map_or(0, |log| log.left_out()),
        }
    }
}

fn lines(log: &LogTail) -> impl Iterator<Item = LoggedLine> {
    log.lines().map(|(at, line)| {
        let fields = line.fields_in_words();
        let text = if fields.is_empty() { line.message.clone() } else { format!("{} {fields}", line.message) };
        LoggedLine { at_ms: *at, level: line.level.as_str().to_ascii_lowercase(), source: line.source, text }
    })
}
