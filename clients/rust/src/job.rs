//! Jobs to push, and what is in jobs.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

/// A job to push: a body, as JSON or bytes, and options.
#[derive(Debug, Clone)]
pub struct NewJob(pub(crate) Map<String, Value>);

impl From<Value> for NewJob {
    fn from(body: Value) -> Self {
        Self(Map::from_iter([("body".into(), body)]))
    }
}

impl From<Vec<u8>> for NewJob {
    fn from(body: Vec<u8>) -> Self {
        Self(Map::from_iter([("body_base64".into(), BASE64_STANDARD.encode(body).into())]))
    }
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident($value:ident: $kind:ty) $field:literal = $json:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(self, $value: $kind) -> Self {
            self.field($field, json!($json))
        }
    )*};
}

impl NewJob {
    options! {
        /// Due after this time.
        delay(by: Duration) "delay_ms" = ms(by);
        /// Due then.
        at(time: SystemTime) "at_ms" = ms(time.duration_since(UNIX_EPOCH).unwrap_or_default());
        /// Jobs of a topic with the same key run one after the other.
        key(key: &str) "key" = key;
        /// Only one job of the topic holds this value, until it is over.
        unique(value: &str) "unique" = value;
        /// `high`, `normal` or `low`.
        priority(priority: &str) "priority" = priority;
        /// Ids of jobs that end before this one starts.
        after(ids: &[&str]) "after" = ids;
        /// How many attempts it has at most.
        attempts(most: u32) "attempts_max" = most;
        /// Its id.
        id(id: &str) "id" = id;
        /// How long after it became due it may still start.
        ttl(time: Duration) "ttl_ms" = ms(time);
        /// How long its result is kept.
        keep_result(time: Duration) "keep_result_ms" = ms(time);
        /// For the handler.
        metadata(pairs: &BTreeMap<&str, &str>) "metadata" = pairs;
    }

    /// The trace context that it belongs to. Goes into the metadata.
    #[must_use]
    pub fn traceparent(mut self, context: &str) -> Self {
        self.0.entry("metadata").or_insert_with(|| json!({}))["traceparent"] = context.into();
        self
    }

    /// Any other field of the API, such as `batch`.
    #[must_use]
    pub fn field(mut self, name: &str, value: Value) -> Self {
        self.0.insert(name.into(), value);
        self
    }
}

/// A body or a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// Its bytes.
    pub data: Vec<u8>,
    /// Its media type.
    pub content_type: Option<String>,
}

impl Payload {
    pub(crate) fn read(it: &Value) -> Option<Self> {
        let content_type = it["content_type"].as_str().map(str::to_owned);
        let data = match (it["text"].as_str(), it["base64"].as_str()) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(text)) => BASE64_STANDARD.decode(text).ok()?,
            (None, None) => return None,
        };
        Some(Self { data, content_type })
    }

    pub(crate) fn write(&self) -> Value {
        json!({ "base64": BASE64_STANDARD.encode(&self.data), "content_type": self.content_type })
    }

    /// What the JSON in it says.
    ///
    /// # Errors
    /// It is no JSON.
    pub fn json(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_slice(&self.data)
    }
}

pub(crate) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
