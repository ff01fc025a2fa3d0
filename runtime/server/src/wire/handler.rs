//! The versions of a topic's handler.

use schemars::JsonSchema;
use serde::Serialize;

use gristmill_core::capability::Capability;
use gristmill_core::job::Name;
use gristmill_core::time::Timestamp;
use gristmill_core::topic::Topic;
use gristmill_runner::handlers::{Handler, HandlerRegistry, SeenVersion, TopicHandler};

/// What does a topic's jobs, and the versions of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HandlerVersions {
    handler: Name,
    /// The version that does the topic's jobs. Null: there is none.
    served: Option<String>,
    /// Why the server does not use the component in the folder. Null: it does.
    refused: Option<String>,
    /// What the component in the folder imports and the topic does not grant: then `served` is one before it.
    lacking: Vec<Capability>,
    /// The last five that passed every check since the process of this server began, the latest first.
    versions: Vec<HandlerVersion>,
}

/// A component that passed every check.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HandlerVersion {
    version: String,
    /// SHA-256 of the component's bytes, in hexadecimal digits.
    digest: String,
    /// When the process of this server met it first, by its clock.
    since_ms: Timestamp,
    /// The interfaces that it imports.
    imports: Vec<String>,
    /// What of them a topic must grant.
    needs: Vec<Need>,
}

/// Something that a topic must grant.
#[derive(Debug, Serialize, JsonSchema)]
struct Need {
    capability: Capability,
    /// Whether the topic does.
    granted: bool,
}

impl HandlerVersions {
    pub(crate) fn of(entry: &TopicHandler, registry: &HandlerRegistry) -> Self {
        let handler = entry.topic.handler.clone();
        let served = entry.handler.as_ref().and_then(Handler::version).map(|version| version.to_string());
        let seen = registry.seen(&handler).iter().rev();
        Self {
            served,
            refused: registry.refused(&handler).map(str::to_owned),
            lacking: entry.lacking.clone(),
            versions: seen.map(|seen| HandlerVersion::of(seen, &entry.topic)).collect(),
            handler,
        }
    }
}

impl HandlerVersion {
    fn of(seen: &SeenVersion, topic: &Topic) -> Self {
        let need = |capability: &Capability| Need { capability: *capability, granted: topic.grants.has(*capability) };
        Self {
            version: seen.version.to_string(),
            digest: hex::encode(seen.version.0),
            since_ms: seen.at,
            imports: seen.imports.clone(),
            needs: seen.demands.iter().map(need).collect(),
        }
    }
}
