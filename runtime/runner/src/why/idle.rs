//! The reasons for which a topic begins no job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gristmill_core::time::Timestamp;
use gristmill_core::topic::Rate;

/// Why no further job of a topic is begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Idle {
    /// For programs.
    pub reason: IdleReason,
    /// For people.
    pub detail: String,
    /// The limit that is reached, with its counts. `None` if it is none, or the process that was asked does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitCounts>,
    /// How many other runners live, which may serve the topic, although the process that was asked does not. `None` if it does, or there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_runners: Option<u64>,
}

/// A limit, and how far it is used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitCounts {
    /// What is used of it: jobs that run or have started, or fuel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// How much may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<u64>,
    /// A rate, such as `100/s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// How many jobs may start at once by the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// When the next job may start, in milliseconds since 1970.
    #[serde(rename = "until_ms", default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// Why no further job of a topic is begun, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum IdleReason {
    /// The handlers are being read.
    Starting,
    /// The topic is paused.
    Paused,
    /// No runner lives.
    NoRunner,
    /// Nothing makes it a topic, or there is no component for it.
    NoHandler,
    /// The same in the process that was asked; other runners live, which may serve it.
    NoHandlerHere,
    /// Its component waits to be compiled, or is being compiled.
    Compiling,
    /// Its component was refused.
    Refused,
    /// Its component imports what the topic does not grant.
    LacksGrants,
    /// No job is ready, and none runs.
    Empty,
    /// As many run as the topic's `concurrency` allows in all runners that live.
    ConcurrencyReached,
    /// As many run in all runners as the topic's `max-running` allows.
    MaxRunningReached,
    /// As many have started in all runners as the topic's `rate` allows.
    RateLimited,
    /// As many jobs of the tenant run in all runners as its `max-running` allows.
    TenantMaxRunningReached,
    /// As many jobs of the tenant have started in all runners as its `jobs-per-day` allows.
    JobsPerDayUsedUp,
    /// The tenant's jobs have used as much fuel in all runners as its `fuel-per-hour` allows.
    FuelPerHourUsedUp,
}

impl Idle {
    pub(super) fn new(reason: IdleReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), limit: None, other_runners: None }
    }

    pub(super) fn with(self, limit: LimitCounts) -> Self {
        Self { limit: (limit != LimitCounts::default()).then_some(limit), ..self }
    }

    /// When the limit that it is lets the next job start.
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.limit.as_ref()?.until
    }

    /// Whether it keeps a job that is first in line. Another runner may serve the topic, and a place that is taken becomes free.
    pub(super) fn stops(&self) -> bool {
        let passes = matches!(self.reason, IdleReason::Empty | IdleReason::ConcurrencyReached);
        !passes && self.other_runners.is_none()
    }

    /// The same, if other runners live.
    pub(super) fn beside(self, others: u64) -> Self {
        if others == 0 {
            return self;
        }
        let reason = if self.reason == IdleReason::NoHandler { IdleReason::NoHandlerHere } else { self.reason };
        let others_live =
            if others == 1 { "another runner lives".into() } else { format!("{others} other runners live") };
        let detail = format!("{}; {others_live}, and may have a handler for it", self.detail);
        Self { reason, detail, other_runners: Some(others), ..self }
    }
}

impl LimitCounts {
    /// A rate that lets the next job start at a time.
    pub(super) fn of_rate(rate: Option<Rate>, until: Timestamp) -> Self {
        let (burst, rate) = (rate.map(|rate| rate.burst), rate.map(|rate| rate.to_string()));
        Self { rate, burst, until: Some(until), ..Self::default() }
    }
}
