//! The versions of a topic's handler.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gristmill_core::capability::Capability;
use gristmill_core::deployment::Deployment;
use gristmill_core::job::Name;
use gristmill_core::time::Timestamp;
use gristmill_core::topic::Topic;
use gristmill_runner::Version;
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
    /// What was decided about versions: which one serves in place of which, and which is tried on a share of the jobs. Null: the file in the folder simply serves.
    deployment: Option<Deployment>,
    /// The first digits of the versions that the topic can go back to on this machine, the latest first.
    kept: Vec<String>,
    /// The last five that passed every check since the process of this server began, the latest first.
    versions: Vec<HandlerVersion>,
}

/// Of the versions of a topic's handler, what a command reads.
#[derive(Debug, Clone, Deserialize)]
pub struct HandlerSeen {
    /// The version that does the topic's jobs, by its first digits.
    pub served: Option<String>,
    /// What was decided about versions, such as which one is tried.
    pub deployment: Option<Deployment>,
    /// The last ones that passed every check, the latest first.
    pub versions: Vec<VersionSeen>,
}

/// Of a version, what a command reads.
#[derive(Debug, Clone, Deserialize)]
pub struct VersionSeen {
    /// Its first digits.
    pub version: String,
    /// The interfaces that it imports.
    pub imports: Vec<String>,
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
            refused: registry.refused_for(entry).map(str::to_owned),
            deployment: entry.deployment.clone(),
            kept: registry.kept(&handler).iter().map(Version::to_string).collect(),
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
