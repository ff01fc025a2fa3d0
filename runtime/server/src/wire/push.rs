//! Jobs as people write them: `{"body": {"to": "ada"}, "delay_ms": 5000}`.

use std::fmt;
use std::time::Duration;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use super::{Base64, JobView};
use gristmill_core::job::{Due, JobId, JobSpec, NewJob, Payload, Priority, TopicId, Unique};
use gristmill_core::json::{self, object};
use gristmill_core::time::Timestamp;

const JSON: &str = "application/json";
/// Fields of a document that the body of another request stands for.
const BODY: [&str; 4] = ["body", "body_base64", "content_type", "metadata"];

/// One job in a document.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Job {
    /// Kept as it is written, to the last digit of a number.
    #[serde(default, deserialize_with = "written")]
    body: Option<Box<RawValue>>,
    body_base64: Option<Base64>,
    content_type: Option<String>,
    #[serde(default, deserialize_with = "object::maybe")]
    unique: Option<Unique>,
    #[serde(default)]
    metadata: Metadata,
    id: Option<JobId>,
    #[serde(rename = "delay_ms", default, with = "json::optional_wait_ms")]
    delay: Option<Duration>,
    at_ms: Option<Timestamp>,
    #[serde(default)]
    priority: Priority,
    attempts_max: Option<u32>,
    #[serde(rename = "ttl_ms", default, with = "json::optional_wait_ms")]
    ttl: Option<Duration>,
    #[serde(rename = "keep_result_ms", default, with = "json::optional_wait_ms")]
    keep_result: Option<Duration>,
    key: Option<String>,
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
    pub(crate) job: Option<JobView>,
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

fn text(error: serde_json::Error) -> String {
    error.to_string()
}

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
    /// The job whose body is `data`. Its options are in the query, under the names that a document has for them; `unique`
    /// is the value, and `unique_window_ms` its window.
    ///
    /// # Errors
    /// In words: which option is wrong.
    pub(crate) fn of_bytes(data: Vec<u8>, media: String, query: &str) -> Result<(Self, WaitMs), String> {
        let mut options = Map::new();
        for (name, text) in form_urlencoded::parse(query.as_bytes()) {
            let is_number = name.ends_with("_ms") || name == "attempts_max";
            let value = if is_number {
                text.parse::<u64>().map_err(|_| format!("`{name}` is no whole number: `{text}`"))?.into()
            } else {
                Value::from(text)
            };
            if BODY.contains(&&*name) {
                return Err(format!("`{name}`: the request's body is the job's"));
            }
            if options.insert(name.to_string(), value).is_some() {
                return Err(format!("`{name}` is given twice"));
            }
        }
        let wait_ms = options.remove("wait_ms").map(serde_json::from_value).transpose().map_err(text)?;
        match (options.remove("unique"), options.remove("unique_window_ms")) {
            (None, None) => {}
            (None, Some(_)) => return Err("`unique_window_ms` says nothing without `unique`".into()),
            (Some(value), window) => {
                options.insert("unique".into(), json!({ "value": value, "window_ms": window }));
            }
        }
        let job: Self = serde_json::from_value(options.into()).map_err(text)?;
        let job = Self { body_base64: Some(Base64(data)), content_type: Some(media), ..job };
        Ok((job, wait_ms.unwrap_or_default()))
    }

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
                let data = bytes.map(|Base64(bytes)| bytes).unwrap_or_default();
                Payload { data, content_type: self.content_type }
            }
        };
        let due = match (self.delay, self.at_ms) {
            (None, None) => Due::Now,
            (Some(delay), None) => Due::After(delay),
            (None, Some(at)) => Due::At(at),
            (Some(_), Some(_)) => return Err("`delay_ms` and `at_ms` are two times: leave one of them out".into()),
        };
        let spec = JobSpec {
            id: self.id.unwrap_or_else(JobId::generate),
            topic,
            body,
            metadata: self.metadata.0,
            key: self.key,
            priority: self.priority,
            unique: self.unique,
            max_attempts: self.attempts_max,
            ttl: self.ttl,
            keep_result: self.keep_result,
        };
        Ok(NewJob { spec, due })
    }
}
