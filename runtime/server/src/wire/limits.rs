//! The limits of a tenant.

use schemars::JsonSchema;
use serde::Serialize;

use gristmill_core::bill::Cost;
use gristmill_core::time::whole_millis;
use gristmill_store::TopicCounts;

/// How much a tenant may ask for, by the manifest of this server. A limit that is null does not hold.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TenantLimits {
    requests_per_second: Option<u32>,
    concurrency: Option<u32>,
    stored_jobs: Option<u64>,
    /// Null: half of what the store can hold.
    stored_bytes: Option<u64>,
    /// Topics that neither the manifest nor a component makes.
    topics: u64,
    payload_bytes: Option<u64>,
    keep_result_ms: u64,
    unique_window_ms: u64,
    weight: u32,
    max_running: Option<u32>,
    jobs_per_day: Option<u64>,
    fuel_per_hour: Option<u64>,
    /// Only workers and who may do everything in all tenants get what is in its jobs.
    hide_payloads: bool,
    used: Used,
}

/// What a tenant has.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Used {
    stored_jobs: u64,
    stored_bytes: u64,
    running: u64,
    /// That ever held a job.
    topics: u64,
    /// Attempts that ended today, UTC.
    attempts_today: u64,
    /// Fuel of these.
    fuel_today: u64,
}

impl Used {
    pub(crate) fn new(counts: &[TopicCounts], stored_bytes: u64, today: Cost) -> Self {
        let sum = |of: fn(&TopicCounts) -> u64| counts.iter().map(of).sum();
        Self {
            stored_jobs: sum(|topic| topic.ready + topic.delayed + topic.running + topic.dead),
            stored_bytes,
            running: sum(|topic| topic.running),
            topics: counts.len() as u64,
            attempts_today: today.attempts,
            fuel_today: today.fuel,
        }
    }
}

impl TenantLimits {
    pub(crate) fn new(limits: &gristmill_config::TenantLimits, used: Used) -> Self {
        Self {
            requests_per_second: limits.requests_per_second,
            concurrency: limits.concurrency,
            stored_jobs: limits.stored_jobs,
            stored_bytes: limits.stored_bytes,
            topics: limits.topics,
            payload_bytes: limits.payload_bytes,
            keep_result_ms: whole_millis(limits.keep_result),
            unique_window_ms: whole_millis(limits.unique_window),
            weight: limits.weight,
            max_running: limits.fleet.max_running,
            jobs_per_day: limits.fleet.jobs_per_day,
            fuel_per_hour: limits.fleet.fuel_per_hour,
            hide_payloads: limits.hide_payloads,
            used,
        }
    }
}
