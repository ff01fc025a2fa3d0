//! A topic: how many jobs are in it, what does them, and why nothing does.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::topic_rates::Rate;
use gristmill_core::capability::Capability;
use gristmill_core::job::Name;
use gristmill_core::time::whole_millis;
use gristmill_runner::handlers::{Handler, TopicHandler};
use gristmill_store::TopicCounts;

/// Every topic that the manifest or a component makes, or that ever held a job, by name.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Topics {
    pub(crate) topics: Vec<Topic>,
}

/// A topic: its jobs, and what does them.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Topic {
    #[serde(flatten)]
    counts: TopicCounts,
    /// Neither the manifest nor a component makes it a topic: its jobs wait.
    unknown: bool,
    handler: Option<Name>,
    /// The version of the component that does the topic's jobs.
    version: Option<String>,
    /// What the component in the folder imports and the topic does not grant.
    lacking: Vec<Capability>,
    /// Why the server does not use the component in the folder, or null. Then `version` is the one before, which does the jobs; null if
    /// there is none.
    refused: Option<String>,
    /// Why no further job is begun here. Null if jobs are.
    idle: Option<Idle>,
    /// Of the totals, over at most the last minute, between two requests to this server. Null until there were two.
    rates: Option<Rates>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Idle {
    reason: IdleReason,
    /// For people.
    detail: String,
}

#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum IdleReason {
    Starting,
    Paused,
    NoHandler,
    Refused,
    LacksGrants,
    Empty,
    ConcurrencyReached,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Rates {
    over_ms: u64,
    per_second: BTreeMap<String, f64>,
}

impl Idle {
    pub(crate) fn new(reason: IdleReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

impl Topic {
    pub(crate) fn new(
        counts: TopicCounts,
        unknown: bool,
        entry: Option<&TopicHandler>,
        refused: Option<&str>,
        idle: Option<Idle>,
        rate: Option<Rate>,
    ) -> Self {
        let rates = rate.map(|Rate { over, per_second }| Rates { over_ms: whole_millis(over), per_second });
        Self {
            counts,
            unknown,
            handler: entry.map(|entry| entry.topic.handler.clone()),
            version: entry
                .and_then(|entry| entry.handler.as_ref())
                .and_then(Handler::version)
                .map(|version| version.to_string()),
            lacking: entry.map(|entry| entry.lacking.clone()).unwrap_or_default(),
            refused: refused.map(str::to_owned),
            idle,
            rates,
        }
    }
}
