//! Jobs on their way in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{object, whole_ms};
use gristmill_core::job::{self, JobId, JobSpec, Name, Priority, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_store as store;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewJob {
    #[serde(deserialize_with = "object::one")]
    spec: Spec,
    #[serde(default)]
    due: Due,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Due {
    #[default]
    Now,
    AfterMs(u64),
    AtMs(u64),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    pub(super) id: JobId,
    tenant: Name,
    topic: Name,
    #[serde(default, deserialize_with = "object::one")]
    body: Payload,
    /// Pairs.
    #[serde(default)]
    metadata: Vec<(String, String)>,
    key: Option<String>,
    #[serde(default)]
    priority: Priority,
    #[serde(default, deserialize_with = "object::maybe")]
    unique: Option<Unique>,
    attempts_max: Option<u32>,
    ttl_ms: Option<u64>,
    keep_result_ms: Option<u64>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Payload {
    #[serde(with = "super::base64")]
    base64: Vec<u8>,
    content_type: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unique {
    value: String,
    window_ms: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub(crate) enum Pushed {
    Stored,
    Exists,
    Duplicate { of: JobId },
}

impl NewJob {
    pub(super) fn tenant(&self) -> &Name {
        &self.spec.tenant
    }
}

impl From<&job::NewJob> for NewJob {
    fn from(new: &job::NewJob) -> Self {
        let due = match new.due {
            job::Due::Now => Due::Now,
            job::Due::After(wait) => Due::AfterMs(whole_ms(wait)),
            job::Due::At(at) => Due::AtMs(at.as_millis()),
        };
        Self { spec: Spec::from(&new.spec), due }
    }
}

impl From<NewJob> for job::NewJob {
    fn from(NewJob { spec, due }: NewJob) -> Self {
        let due = match due {
            Due::Now => job::Due::Now,
            Due::AfterMs(ms) => job::Due::After(Duration::from_millis(ms)),
            Due::AtMs(ms) => job::Due::At(Timestamp::from_millis(ms)),
        };
        Self { spec: spec.into(), due }
    }
}

impl From<&JobSpec> for Spec {
    fn from(spec: &JobSpec) -> Self {
        let unique =
            |unique: &job::Unique| Unique { value: unique.value.clone(), window_ms: unique.window.map(whole_ms) };
        Self {
            id: spec.id.clone(),
            tenant: spec.topic.tenant.clone(),
            topic: spec.topic.topic.clone(),
            body: Payload::from(&spec.body),
            metadata: spec.metadata.clone(),
            key: spec.key.clone(),
            priority: spec.priority,
            unique: spec.unique.as_ref().map(unique),
            attempts_max: spec.max_attempts,
            ttl_ms: spec.ttl.map(whole_ms),
            keep_result_ms: spec.keep_result.map(whole_ms),
        }
    }
}

impl From<Spec> for JobSpec {
    fn from(spec: Spec) -> Self {
        Self {
            id: spec.id,
            topic: TopicId { tenant: spec.tenant, topic: spec.topic },
            body: spec.body.into(),
            metadata: spec.metadata,
            key: spec.key,
            priority: spec.priority,
            unique: spec.unique.map(Into::into),
            max_attempts: spec.attempts_max,
            ttl: spec.ttl_ms.map(Duration::from_millis),
            keep_result: spec.keep_result_ms.map(Duration::from_millis),
        }
    }
}

impl From<Unique> for job::Unique {
    fn from(Unique { value, window_ms }: Unique) -> Self {
        Self { value, window: window_ms.map(Duration::from_millis) }
    }
}

impl From<&job::Payload> for Payload {
    fn from(payload: &job::Payload) -> Self {
        Self { base64: payload.data.clone(), content_type: payload.content_type.clone() }
    }
}

impl From<Payload> for job::Payload {
    fn from(Payload { base64, content_type }: Payload) -> Self {
        Self { data: base64, content_type }
    }
}

impl From<store::Pushed> for Pushed {
    fn from(pushed: store::Pushed) -> Self {
        match pushed {
            store::Pushed::Stored => Self::Stored,
            store::Pushed::Exists => Self::Exists,
            store::Pushed::Duplicate(of) => Self::Duplicate { of },
        }
    }
}

impl From<Pushed> for store::Pushed {
    fn from(pushed: Pushed) -> Self {
        match pushed {
            Pushed::Stored => Self::Stored,
            Pushed::Exists => Self::Exists,
            Pushed::Duplicate { of } => Self::Duplicate(of),
        }
    }
}
