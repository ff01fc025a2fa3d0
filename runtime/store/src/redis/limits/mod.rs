//! The limits that hold for all runners together, as scripts take them.

use crate::ClaimFrom;
use gristmill_core::topic::{FleetLimits, KeyLimits, OnDead, Rate, TenantFleetLimits};

/// The limits of a topic as `claim.lua` takes them.
pub(super) fn limits_argument(limits: FleetLimits) -> String {
    if (FleetLimits { tenant: TenantFleetLimits::NONE, ..limits }) == FleetLimits::NONE {
        return String::new();
    }
    let max_running = limits.max_running.map(|most| most.to_string()).unwrap_or_default();
    let rate = limits.rate.map(|rate| format!("{}:{}", rate_argument(rate), rate.gathered()));
    format!("{max_running}:{}{}", rate.as_deref().unwrap_or(":::"), key_limits_argument(limits.per_key))
}

fn rate_argument(rate: Rate) -> String {
    let Rate { jobs, burst, .. } = rate;
    format!("{jobs}:{}:{burst}", rate.micros())
}

/// The limits of the tenant whose topics these are as `claim.lua` takes them.
pub(super) fn tenant_limits_argument(part: &[ClaimFrom]) -> String {
    let mut all = part.iter().map(|line| line.limits.tenant);
    let Some(limits) = all.find(TenantFleetLimits::is_some) else { return String::new() };
    let max_running = limits.max_running.map(|most| most.to_string()).unwrap_or_default();
    let [jobs, fuel] = [limits.jobs_per_day, limits.fuel_per_hour].map(|most| most.map(|most| most.to_string()));
    format!("{max_running}:{}:{}", jobs.unwrap_or_default(), fuel.unwrap_or_default())
}

fn key_limits_argument(limits: KeyLimits) -> String {
    let rate = limits.rate.map(|rate| format!("@{}", rate_argument(rate))).unwrap_or_default();
    if (KeyLimits { rate: None, ..limits }) == KeyLimits::DEFAULT {
        return rate;
    }
    let on_dead = match limits.on_dead {
        OnDead::Continue => "continue",
        OnDead::Halt => "halt",
    };
    format!(" {}:{on_dead}{rate}", limits.max_running)
}
