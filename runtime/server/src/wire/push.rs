//! Jobs as people write them: `{"body": {"to": "ada"}, "delay_ms": 5000}`.

use std::fmt;
use std::time::Duration;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::object;
use gristmill_core::job::{self, Due, JobId, JobSpec, NewJob, Payload, Priority, TopicId};
use gristmill_core::time::Timestamp;

const JSON: &str = "application/json";

/// One job in a document.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Job {
    /// Kept as it is written, to the last digit of a number.
    #[serde(default, deserialize_with = "written")]
    body: Option<Box<RawValue>>,
    body_base64: Option<Bytes>,
    content_type: Option<String>,
    #[serde(default, deserialize_with = "object::maybe")]
    unique: Option<Unique>,
    #[serde(default)]
    metadata: Metadata,
    id: Option<JobId>,
    delay_ms: Option<u64>,
    at_ms: Option<u64>,
    #[serde(default)]
    priority: Priority,
    attempts_max: Option<u32>,
    ttl_ms: Option<u64>,
    keep_result_ms: Option<u64>,
    key: Option<String>,
}

/// What can be said of a job whose bytes are the request's body: in the query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Raw {
    unique: Option<String>,
    unique_window_ms: Option<u64>,
    id: Option<JobId>,
    delay_ms: Option<u64>,
    at_ms: Option<u64>,
    #[serde(default)]
    priority: Priority,
    attempts_max: Option<u32>,
    ttl_ms: Option<u64>,
    keep_result_ms: Option<u64>,
    key: Option<String>,
    #[serde(default)]
    pub(crate) wait_ms: WaitMs,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bulk {
    #[serde(deserialize_with = "object::each")]
    pub(crate) jobs: Vec<Job>,
}

/// Tells one job from many.
#[derive(Debug, Deserialize)]
pub(crate) struct Probe {
    pub(crate) jobs: Option<de::IgnoredAny>,
}

/// What became of one job of a push.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Accepted {
    /// The job that stands for this push: of a `duplicate`, the one that holds the unique value.
    pub(crate) id: JobId,
    pub(crate) status: Status,
    /// What is known of it, if the request asked to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<super::JobView>,
    /// Set if the job was pushed by itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Status {
    Stored,
    Exists,
    Duplicate,
}

/// In the order of the jobs.
#[derive(Debug, Serialize)]
pub(crate) struct AcceptedAll {
    pub(crate) jobs: Vec<Accepted>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

/// `?wait_ms=`, and nothing else.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Waiting {
    #[serde(default)]
    pub(crate) wait_ms: WaitMs,
}

/// How long an answer may be put off: up to a minute.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(try_from = "u64")]
pub(crate) struct WaitMs(u64);

impl TryFrom<u64> for WaitMs {
    type Error = &'static str;

    fn try_from(ms: u64) -> Result<Self, Self::Error> {
        if ms <= 60_000 { Ok(Self(ms)) } else { Err("a wait is at most 60000 ms: ask again after it") }
    }
}

impl WaitMs {
    /// None: do not wait.
    pub(crate) fn patience(self) -> Option<Duration> {
        (self.0 > 0).then(|| Duration::from_millis(self.0))
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unique {
    value: String,
    window_ms: Option<u64>,
}

impl From<Unique> for job::Unique {
    fn from(Unique { value, window_ms }: Unique) -> Self {
        Self { value, window: window_ms.map(Duration::from_millis) }
    }
}

#[derive(Debug, Deserialize)]
struct Bytes(#[serde(with = "super::base64")] Vec<u8>);

/// Also `null`, which is a body like any other.
fn written<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// An object of texts. Their order stays, and names may repeat.
#[derive(Debug, Default)]
struct Metadata(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Metadata;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Metadata(pairs))
            }
        }
        from.deserialize_map(Pairs)
    }
}

impl Job {
    pub(crate) const fn has_id(&self) -> bool {
        self.id.is_some()
    }

    /// # Errors
    /// In words: what does not go together.
    pub(crate) fn into_new(self, topic: TopicId) -> Result<NewJob, String> {
        let body = match (self.body, self.body_base64) {
            (Some(_), Some(_)) => return Err("`body` and `body_base64` are two bodies: leave one of them out".into()),
            (Some(written), None) => {
                let content_type = self.content_type.or_else(|| Some(JSON.into()));
                Payload { data: Box::<str>::from(written).into_string().into_bytes(), content_type }
            }
            (None, bytes) => {
                let data = bytes.map(|Bytes(bytes)| bytes).unwrap_or_default();
                Payload { data, content_type: self.content_type }
            }
        };
        let spec = JobSpec {
            metadata: self.metadata.0,
            key: self.key,
            priority: self.priority,
            unique: self.unique.map(job::Unique::from),
            max_attempts: self.attempts_max,
            ttl: self.ttl_ms.map(Duration::from_millis),
            keep_result: self.keep_result_ms.map(Duration::from_millis),
            ..JobSpec::new(topic, body)
        };
        finish(spec, self.id, self.delay_ms, self.at_ms)
    }
}

impl Raw {
    pub(crate) const fn has_id(&self) -> bool {
        self.id.is_some()
    }

    /// The job whose body is `data`.
    ///
    /// # Errors
    /// In words: what does not go together.
    pub(crate) fn into_new(self, topic: TopicId, data: Vec<u8>, media: String) -> Result<NewJob, String> {
        let window = self.unique_window_ms.map(Duration::from_millis);
        let unique = match (self.unique, window) {
            (None, Some(_)) => return Err("`unique_window_ms` says nothing without `unique`".into()),
            (value, window) => value.map(|value| job::Unique { value, window }),
        };
        let spec = JobSpec {
            key: self.key,
            priority: self.priority,
            unique,
            max_attempts: self.attempts_max,
            ttl: self.ttl_ms.map(Duration::from_millis),
            keep_result: self.keep_result_ms.map(Duration::from_millis),
            ..JobSpec::new(topic, Payload { data, content_type: Some(media) })
        };
        finish(spec, self.id, self.delay_ms, self.at_ms)
    }
}

fn finish(mut spec: JobSpec, id: Option<JobId>, delay: Option<u64>, at: Option<u64>) -> Result<NewJob, String> {
    let due = match (delay, at) {
        (None, None) => Due::Now,
        (Some(delay), None) => Due::After(Duration::from_millis(delay)),
        (None, Some(at)) => Due::At(Timestamp::from_millis(at)),
        (Some(_), Some(_)) => return Err("`delay_ms` and `at_ms` are two times: leave one of them out".into()),
    };
    if let Some(id) = id {
        spec.id = id;
    }
    Ok(NewJob { spec, due })
}
