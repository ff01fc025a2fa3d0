//! Jobs to push.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::types::ms;

/// A job to push: a body, as JSON or bytes, and options.
#[derive(Debug, Clone)]
pub struct NewJob(pub(crate) Value);

impl From<Value> for NewJob {
    fn from(body: Value) -> Self {
        Self(json!({ "body": body }))
    }
}

impl From<Vec<u8>> for NewJob {
    fn from(body: Vec<u8>) -> Self {
        Self(json!({ "body_base64": BASE64_STANDARD.encode(body) }))
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
        self.0["metadata"]["traceparent"] = context.into();
        self
    }

    /// Any other field of the API, such as `batch`.
    #[must_use]
    pub fn field(mut self, name: &str, value: Value) -> Self {
        self.0[name] = value;
        self
    }
}
