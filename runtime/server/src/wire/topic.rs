//! A topic: how many jobs are in it, what does them, and why nothing does.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::topic_rates::Rate;
use gristmill_core::capability::Capability;
use gristmill_core::job::Name;
use gristmill_core::time::whole_millis;
use gristmill_runner::handlers::{Handler, TopicHandler};
use gristmill_runner::why::Idle;
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
    /// What the manifest allows its jobs. Null if neither the manifest nor a component makes it a topic.
    limits: Option<Limits>,
    /// Of the totals, over at most the last minute, between two requests to this server. Null until there were two.
    rates: Option<Rates>,
}

/// Of a topic, what a server says of the component that does its jobs.
#[derive(Debug, Clone, Deserialize)]
pub struct TopicServing {
    /// The version that does the jobs. `None`: there is none.
    pub version: Option<String>,
    /// What the component in the folder imports and the topic does not grant.
    pub lacking: Vec<String>,
    /// Why the server does not use the component in the folder.
    pub refused: Option<String>,
}

/// What holds for a job of the topic, from its section, the defaults of the manifest, or those of Gristmill.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TopicLimits")]
struct Limits {
    /// Attempts at once in one runner.
    concurrency: u32,
    /// Attempts at once in all runners together. Null: any number.
    max_running: Option<u32>,
    /// Attempts that may start in a unit of time in all runners together, as in `100/s`. Null: any number.
    rate: Option<String>,
    /// How many of them may start at once. Null without a rate.
    burst: Option<u32>,
    /// Attempts of a job in all.
    attempts: u32,
    backoff_base_ms: u64,
    backoff_max_ms: u64,
    timeout_ms: u64,
    fuel: u64,
    memory_bytes: u64,
    payload_bytes: u64,
    output_bytes: u64,
    result_retention_ms: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Rates {
    over_ms: u64,
    per_second: BTreeMap<String, f64>,
}

impl Limits {
    fn of(topic: &gristmill_core::topic::Topic) -> Self {
        let (limits, retry) = (&topic.limits, &topic.retry);
        Self {
            concurrency: topic.concurrency,
            max_running: topic.fleet.max_running,
            rate: topic.fleet.rate.map(|rate| rate.to_string()),
            burst: topic.fleet.rate.map(|rate| rate.burst),
            attempts: retry.attempts,
            backoff_base_ms: whole_millis(retry.backoff.base),
            backoff_max_ms: whole_millis(retry.backoff.max),
            timeout_ms: whole_millis(limits.timeout),
            fuel: limits.fuel,
            memory_bytes: limits.memory_bytes,
            payload_bytes: limits.payload_bytes,
            output_bytes: limits.output_bytes,
            result_retention_ms: whole_millis(topic.result_retention),
        }
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
            limits: entry.map(|entry| Limits::of(&entry.topic)),
            idle,
            rates,
        }
    }
}
