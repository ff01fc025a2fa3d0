//! What goes in and comes out: declarations, and how they are written in JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufReader, Lines};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::client::Client;
use crate::http::Reader;

/// What the server refused, by its problem document.
#[derive(Debug, Clone)]
pub struct Error {
    /// A stable word, such as `job-unknown`. Without an answer `unreachable` or `wait-timeout`.
    pub code: String,
    /// The status in words.
    pub title: String,
    /// What is wrong.
    pub detail: String,
    /// Of HTTP; 0 without an answer.
    pub status: u16,
    /// How long the server asks to wait.
    pub retry_after: Duration,
}

/// What became of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// The job's id.
    pub id: String,
    /// `stored`, `exists`, `duplicate` (`id` is the other job's) or, of many, `refused`.
    pub status: String,
    /// Why it is refused.
    pub problem: Option<String>,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Failure {
    pub reason: String,
    pub code: String,
    pub message: String,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// `complete`, `dead`, `expired`, `cancelled` or `deleted`.
    pub outcome: String,
    /// There if [`NewJob::keep_result`](crate::NewJob::keep_result) or the topic keeps it.
    pub result: Option<Payload>,
    /// Why the last attempt failed.
    pub failure: Option<Failure>,
}

/// A body or a result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payload {
    /// Its bytes.
    pub data: Vec<u8>,
    /// Its media type.
    pub content_type: Option<String>,
}

/// Chooses events; what is left out excludes none.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Filter<'a> {
    pub topic: Option<&'a str>,
    pub job: Option<&'a str>,
    pub kinds: &'a [&'a str],
}

/// An event.
#[derive(Debug, Clone)]
pub struct Event {
    /// As docs/reference/events.md names it, or `reconnected`: events between may be missing.
    pub kind: String,
    /// All of it.
    pub data: Value,
}

/// Never ends by itself: when the connection breaks, it is made again.
pub struct Events {
    pub(crate) client: Client,
    pub(crate) path: String,
    pub(crate) lines: Lines<BufReader<Reader>>,
}

/// A claimed job.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Job {
    pub id: String,
    pub topic: String,
    pub body: Payload,
    pub key: Option<String>,
    pub metadata: BTreeMap<String, String>,
    pub attempt: u64,
    pub attempts_max: u64,
    /// Why the last attempt failed.
    pub previous: Option<String>,
    pub traceparent: Option<String>,
    pub(crate) cancelled: Arc<AtomicBool>,
}

/// A result: of `()` none, a value of JSON, or bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output(pub(crate) Value);

/// How an attempt ends without a result. Any error becomes a retry, so `?` does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending(pub(crate) Value);

/// How [`Client::work`] works.
#[derive(Debug, Clone)]
pub struct Work<'a> {
    /// Jobs at once.
    pub concurrency: usize,
    /// How long a job is held without a heartbeat.
    pub lease: Duration,
    /// For operators.
    pub name: &'a str,
}

impl Default for Work<'_> {
    fn default() -> Self {
        Self { concurrency: 1, lease: Duration::from_secs(60), name: "rust" }
    }
}

impl Error {
    pub(crate) fn of(code: &str, title: &str, detail: impl Into<String>, status: u16) -> Self {
        Self { code: code.into(), title: title.into(), detail: detail.into(), status, retry_after: Duration::ZERO }
    }

    /// Whether another try may go better.
    pub fn is_temporary(&self) -> bool {
        matches!(self.status, 429 | 502..=504) || self.code == "unreachable"
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)
    }
}

impl std::error::Error for Error {}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Events({})", self.path)
    }
}

impl Event {
    /// The job that it is about, or nothing.
    pub fn job(&self) -> String {
        text(&self.data["job"])
    }
}

impl Payload {
    pub(crate) fn read(it: &Value) -> Option<Self> {
        let data = match it["text"].as_str() {
            Some(text) => text.into(),
            None => BASE64_STANDARD.decode(it["base64"].as_str()?).ok()?,
        };
        Some(Self { data, content_type: optional(&it["content_type"]) })
    }

    /// What the JSON in it says.
    ///
    /// # Errors
    /// It is no JSON.
    pub fn json(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_slice(&self.data)
    }
}

impl End {
    pub(crate) fn read(view: &Value) -> Self {
        let result = &view["result"];
        let outcome =
            [&result["outcome"], &view["ended"]["outcome"], &view["state"]].into_iter().find(|it| it.is_string());
        let failure = [&result["failure"], &view["last_failure"]].into_iter().find(|it| it.is_object());
        let read = |it: &Value| Failure {
            reason: text(&it["reason"]),
            code: text(&it["code"]),
            message: text(&it["message"]),
        };
        Self {
            outcome: outcome.map(text).unwrap_or_default(),
            result: Payload::read(&result["output"]),
            failure: failure.map(read),
        }
    }
}

impl Job {
    pub(crate) fn read(claim: &Value) -> Self {
        let spec = &claim["job"]["spec"];
        let pairs = spec["metadata"].as_array().into_iter().flatten();
        Self {
            id: text(&spec["id"]),
            topic: text(&spec["topic"]),
            body: Payload::read(&spec["body"]).unwrap_or_default(),
            key: optional(&spec["key"]),
            metadata: pairs.map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
            attempt: claim["attempt"].as_u64().unwrap_or(1),
            attempts_max: claim["attempts_max"].as_u64().unwrap_or(1),
            previous: optional(&claim["previous"]),
            traceparent: optional(&claim["traceparent"]),
            cancelled: Arc::default(),
        }
    }

    /// There is no point in going on: the job was cancelled, or another worker has it.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

impl From<()> for Output {
    fn from((): ()) -> Self {
        Self(json!({ "ack": {} }))
    }
}

impl From<Payload> for Output {
    fn from(it: Payload) -> Self {
        Self(
            json!({ "ack": { "result": { "base64": BASE64_STANDARD.encode(it.data), "content_type": it.content_type } } }),
        )
    }
}

impl From<Value> for Output {
    fn from(value: Value) -> Self {
        Payload { data: value.to_string().into(), content_type: Some("application/json".into()) }.into()
    }
}

impl From<Vec<u8>> for Output {
    fn from(data: Vec<u8>) -> Self {
        Payload { data, content_type: Some("application/octet-stream".into()) }.into()
    }
}

impl Ending {
    /// Run the job again after this time, with no attempt used.
    pub fn snooze(after: Duration) -> Self {
        Self(json!({ "snooze_ms": ms(after) }))
    }

    /// The attempt failed; the next one comes by the topic's backoff.
    pub fn retry(code: &str, message: impl fmt::Display) -> Self {
        Self(json!({ "retry": { "error": { "code": code, "message": message.to_string() } } }))
    }

    /// The same, but the next attempt comes after this time.
    #[must_use]
    pub fn after(mut self, time: Duration) -> Self {
        self.0["retry"]["after_ms"] = ms(time).into();
        self
    }

    /// The job can never succeed: it is dead at once.
    pub fn reject(code: &str, message: impl fmt::Display) -> Self {
        Self(json!({ "bury": { "error": { "code": code, "message": message.to_string() } } }))
    }
}

impl<E: std::error::Error> From<E> for Ending {
    fn from(error: E) -> Self {
        Self::retry("error", error)
    }
}

pub(crate) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn optional(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().into()
}
