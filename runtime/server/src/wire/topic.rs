//! What is told of a topic: what is in it, who does its jobs, and why nobody does.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::api::topic_rates::Rate;
use gristmill_core::job::Name;
use gristmill_core::time::whole_millis;
use gristmill_runner::handlers::{Handler, TopicHandler};
use gristmill_store::TopicCounts;

#[derive(Debug, Serialize)]
pub(crate) struct Topics {
    pub(crate) topics: Vec<Topic>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Topic {
    #[serde(flatten)]
    counts: TopicCounts,
    /// Neither the manifest nor a component makes it a topic.
    unknown: bool,
    handler: Option<Name>,
    /// Of the component that does the topic's jobs.
    version: Option<String>,
    /// What the component in the folder imports and the topic does not grant.
    lacking: Vec<&'static str>,
    /// Why no further job is begun here.
    idle: Option<Idle>,
    rates: Option<Rates>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Idle {
    reason: &'static str,
    detail: String,
}

#[derive(Debug, Serialize)]
struct Rates {
    over_ms: u64,
    per_second: BTreeMap<String, f64>,
}

impl Idle {
    pub(crate) fn new(reason: &'static str, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

impl Topic {
    pub(crate) fn new(
        counts: TopicCounts,
        unknown: bool,
        entry: Option<&TopicHandler>,
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
            lacking: entry.iter().flat_map(|entry| &entry.lacking).map(|lacking| lacking.name()).collect(),
            idle,
            rates,
        }
    }
}
