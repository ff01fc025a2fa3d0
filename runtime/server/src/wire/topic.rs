//! A topic: how many jobs are in it, what does them, and why nothing does.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gristmill_core::capability::Capability;
use gristmill_core::deployment::{Deployment, Other, show_share};
use gristmill_core::job::Name;
use gristmill_core::time::{Timestamp, whole_millis};
use gristmill_runner::handlers::{Handler, HandlerRegistry};
use gristmill_runner::why::Idle;
use gristmill_runner::{RunTimes, Version};
use gristmill_store::TopicCounts;

/// Every topic that the manifest or a component makes, or that ever held a job, by name.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Topics")]
pub(crate) struct TopicsSeen {
    pub(crate) topics: Vec<TopicSeen>,
}

/// A topic: its jobs, and what does them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Topic")]
pub struct TopicSeen {
    /// Its jobs.
    #[serde(flatten)]
    pub counts: TopicCounts,
    /// Neither the manifest nor a component makes it a topic: its jobs wait.
    pub unknown: bool,
    /// Which handler does its jobs.
    pub handler: Option<Name>,
    /// Pull workers do its jobs.
    #[serde(default)]
    pub external: bool,
    /// The version of the component that does the topic's jobs.
    pub version: Option<String>,
    /// The version that is being tried on a share of the jobs, of which `version` does the others. Null: none is.
    pub trial: Option<TopicTrial>,
    /// What the component in the folder imports and the topic does not grant.
    #[schemars(with = "Vec<Capability>")]
    pub lacking: Vec<String>,
    /// Why the server does not use the component in the folder, or null. Then `version` is the one before, which does the jobs; null if
    /// there is none.
    pub refused: Option<String>,
    /// The component in the folder waits to be compiled, or is being compiled. Then `version` is also the one before.
    #[serde(default)]
    pub compiling: bool,
    /// Why no further job is begun here. Null if jobs are.
    pub idle: Option<Idle>,
    /// What the manifest allows its jobs. Null if neither the manifest nor a component makes it a topic.
    pub limits: Option<TopicLimits>,
    /// Of the totals, over at most the last minute, between two requests to this server. Null until there were two.
    pub rates: Option<TopicRates>,
    /// How long the latest attempts ran that the server's own runner has made. Null: it remembers none.
    pub run: Option<RunTimes>,
    /// What the attempts of the last minute came to that the server's own runner has made, or pull workers by way of it. Null: none has ended yet.
    pub recent: Option<RecentByVersion>,
}

/// A version that is being tried.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TopicTrial {
    /// Its first digits.
    pub version: String,
    /// How many of the jobs it does, such as `5%`.
    pub share: String,
    /// Since when, by the clock of the host that decided it.
    pub since_ms: Timestamp,
}

impl From<&Other> for TopicTrial {
    fn from(Other { version, share, since_ms, .. }: &Other) -> Self {
        Self { version: version.to_string(), share: show_share(*share), since_ms: *since_ms }
    }
}

/// Whether the request paused or resumed the topic.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PauseSet {
    pub(crate) changed: bool,
    /// That the topic is unknown: no section of the manifest and no component makes it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

/// Whether the version that serves fails more often than the one before it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RecentByVersion {
    /// At least three attempts failed, and half of them; or five, a twentieth, and five times as often as of the version before.
    pub failing: bool,
    /// Of the version whose attempt began last: within the last minute.
    pub serving: RecentOfVersion,
    /// Of the version before it: within the last minute of its attempts.
    pub before: Option<RecentOfVersion>,
}

/// What a version's attempts within a minute came to.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RecentOfVersion {
    /// Null: the handler is native, or pull workers do the jobs.
    pub version: Option<String>,
    /// Those that were done, snoozed or failed.
    pub attempts: u64,
    /// Those that failed.
    pub failed: u64,
}

impl From<gristmill_metrics::RecentByVersion> for RecentByVersion {
    fn from(recent: gristmill_metrics::RecentByVersion) -> Self {
        let of = |of: gristmill_metrics::RecentOfVersion| RecentOfVersion {
            version: of.version.map(|digest| Version(digest).to_string()),
            attempts: of.attempts,
            failed: of.failed,
        };
        Self { failing: recent.is_failing(), serving: of(recent.serving), before: recent.before.map(of) }
    }
}

/// What holds for a job of the topic, from its section, the defaults of the manifest, or those of Gristmill.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TopicLimits {
    /// Attempts at once in one runner.
    pub concurrency: u32,
    /// Attempts at once in all runners together. Null: any number.
    pub max_running: Option<u32>,
    /// Attempts that may start in a unit of time in all runners together, as in `100/s`. Null: any number.
    pub rate: Option<String>,
    /// How many of them may start at once. Null without a rate.
    pub burst: Option<u32>,
    /// Attempts of a job in all.
    pub attempts: u32,
    /// Before the second attempt.
    pub backoff_base_ms: u64,
    /// Before any attempt, at most.
    pub backoff_max_ms: u64,
    /// Of an attempt.
    pub timeout_ms: u64,
    /// Of an attempt.
    pub fuel: u64,
    /// Of a guest.
    pub memory_bytes: u64,
    /// Of a body.
    pub payload_bytes: u64,
    /// Of a result.
    pub output_bytes: u64,
    /// How long results are kept.
    pub result_retention_ms: u64,
    /// How long a job that is over is remembered.
    pub ended_retention_ms: u64,
}

/// How much the totals grew.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Rates")]
pub struct TopicRates {
    /// Within this time.
    pub over_ms: u64,
    /// Of each total, in a second.
    pub per_second: BTreeMap<String, f64>,
}

impl TopicLimits {
    /// Those of this topic.
    pub fn of(topic: &gristmill_core::topic::Topic) -> Self {
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
            ended_retention_ms: whole_millis(topic.ended_retention),
        }
    }
}

impl TopicSeen {
    /// `registry`: `None` while the handlers are being read.
    pub(crate) fn new(
        counts: TopicCounts,
        unknown: bool,
        registry: Option<&HandlerRegistry>,
        idle: Option<Idle>,
        rates: Option<TopicRates>,
        run: Option<RunTimes>,
        recent: Option<RecentByVersion>,
    ) -> Self {
        let id = &counts.topic;
        let entry = registry.and_then(|registry| registry.get(id));
        let of_handler = registry.zip(entry.map(|entry| &entry.topic.handler));
        let lacking = entry.into_iter().flat_map(|entry| &entry.lacking);
        Self {
            unknown,
            handler: entry.map(|entry| entry.topic.handler.clone()),
            external: entry.is_some_and(|entry| entry.topic.external),
            version: entry
                .and_then(|entry| entry.handler.as_ref())
                .and_then(Handler::version)
                .map(|version| version.to_string()),
            trial: entry
                .and_then(|entry| entry.deployment.as_ref())
                .and_then(Deployment::candidate)
                .map(TopicTrial::from),
            lacking: lacking.map(|lacking| lacking.name().to_owned()).collect(),
            refused: registry.zip(entry).and_then(|(registry, entry)| registry.refused_for(entry)).map(str::to_owned),
            compiling: of_handler.is_some_and(|(registry, handler)| registry.is_uncompiled(handler)),
            idle,
            limits: entry.map(|entry| TopicLimits::of(&entry.topic)),
            counts,
            rates,
            run,
            recent,
        }
    }
}
