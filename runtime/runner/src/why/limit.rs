//! Which limit a topic has reached, and how far it is used.

use super::idle::{Idle, IdleReason, LimitCounts};
use gristmill_config::units::{self, COUNT};
use gristmill_core::topic::{FleetLimits, Rate};
use gristmill_store::{LimitReached, TopicCounts};

/// A rate in words, such as `100/s, 10 at once`.
pub(super) fn about_rate(rate: Rate) -> String {
    format!("{rate}, {} at once", rate.burst)
}

/// Why the limit keeps the topic's jobs. `of_tenant`: how many jobs of its tenant run.
pub(super) fn limited(limit: LimitReached, counts: &TopicCounts, of_tenant: u64, limits: &FleetLimits) -> Idle {
    let tenant = format!("the tenant `{}`", counts.topic.tenant);
    match limit {
        LimitReached::TenantMaxRunning => {
            let most = limits.tenant.max_running.map(u64::from);
            let detail = match most {
                Some(most) => {
                    let (one, many) = (format!("job of {tenant} runs"), format!("jobs of {tenant} run"));
                    let run = units::counted(of_tenant, &one, &many);
                    format!("{run}, and its `max-running` allows {most} in all runners together")
                }
                None => format!("as many jobs of {tenant} run as its `max-running` allows in all runners together"),
            };
            let limit = LimitCounts { used: Some(of_tenant), most, ..LimitCounts::default() };
            Idle::new(IdleReason::TenantMaxRunningReached, detail).with(limit)
        }
        LimitReached::JobsPerDay { used, budget, until } => {
            let limit =
                LimitCounts { used: Some(used), most: Some(budget), until: Some(until), ..LimitCounts::default() };
            let [used, budget] = [used, budget].map(|jobs| COUNT.show(jobs));
            let detail = format!(
                "`jobs-per-day` of {tenant} is used up: {used} of {budget} have started, and the next ones may at {until}"
            );
            Idle::new(IdleReason::JobsPerDayUsedUp, detail).with(limit)
        }
        LimitReached::FuelPerHour { used, budget, until } => {
            let limit =
                LimitCounts { used: Some(used), most: Some(budget), until: Some(until), ..LimitCounts::default() };
            let [used, budget] = [used, budget].map(|fuel| COUNT.about(fuel));
            let detail = format!(
                "`fuel-per-hour` of {tenant} is used up: {used} of {budget}, and the next jobs may start at {until}"
            );
            Idle::new(IdleReason::FuelPerHourUsedUp, detail).with(limit)
        }
        LimitReached::MaxRunning => {
            let (running, most) = (counts.running, limits.max_running.map(u64::from));
            let allows = most.map_or_else(
                || "as many as its `max-running` allows".into(),
                |most| format!("and its `max-running` allows {most}"),
            );
            let run = units::counted(running, "of its jobs runs", "of its jobs run");
            let detail = format!("{run}, {allows} in all runners together");
            let limit = LimitCounts { used: Some(running), most, ..LimitCounts::default() };
            Idle::new(IdleReason::MaxRunningReached, detail).with(limit)
        }
        LimitReached::Rate { until } => {
            let rate = limits.rate;
            let said = rate.map(|rate| format!(" ({})", about_rate(rate))).unwrap_or_default();
            let detail = format!("its `rate`{said} allows all runners together to start the next job at {until}");
            Idle::new(IdleReason::RateLimited, detail).with(LimitCounts::of_rate(rate, until))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gristmill_core::time::Timestamp;
    use gristmill_core::topic::TenantFleetLimits;

    #[test]
    fn a_limit_that_is_reached_is_named_with_its_count() {
        let until = Timestamp::from_millis(1_800_000_000_000);
        let limits = FleetLimits {
            max_running: Some(2),
            rate: Some(Rate { burst: 7, ..Rate::new(100, Duration::from_secs(1)) }),
            tenant: TenantFleetLimits { max_running: Some(9), ..TenantFleetLimits::NONE },
            ..FleetLimits::NONE
        };
        let counts = TopicCounts { ready: 5, running: 2, ..TopicCounts::none("acme/mail".parse().unwrap()) };
        let limited = |reached, limits| limited(reached, &counts, 9, &limits);
        let used = |used, most| LimitCounts { used: Some(used), most, ..LimitCounts::default() };
        let found = limited(LimitReached::MaxRunning, limits);
        let said = "2 of its jobs run, and its `max-running` allows 2 in all runners together";
        assert_eq!((found.reason, found.detail.as_str()), (IdleReason::MaxRunningReached, said));
        assert_eq!(found.limit, Some(used(2, Some(2))));
        let found = limited(LimitReached::MaxRunning, FleetLimits::NONE);
        assert!(found.detail.starts_with("2 of its jobs run, as many as its `max-running` allows"), "another's limit");
        assert_eq!(found.limit, Some(used(2, None)));
        let one = TopicCounts { running: 1, ..counts.clone() };
        let found = super::limited(LimitReached::TenantMaxRunning, &one, 1, &limits);
        assert!(found.detail.starts_with("1 job of the tenant `acme` runs, and its"), "{}", found.detail);
        let found = limited(LimitReached::Rate { until }, limits);
        let said = "its `rate` (100/s, 7 at once) allows all runners together to start the next job at 2027-01-15T08:00:00.000Z";
        assert_eq!((found.reason, found.detail.as_str()), (IdleReason::RateLimited, said));
        assert_eq!(found.limit, Some(LimitCounts::of_rate(limits.rate, until)));
        let found = limited(LimitReached::TenantMaxRunning, limits);
        let said = "9 jobs of the tenant `acme` run, and its `max-running` allows 9 in all runners together";
        assert_eq!((found.reason, found.detail.as_str()), (IdleReason::TenantMaxRunningReached, said));
        assert_eq!(found.limit, Some(used(9, Some(9))));
        let found = limited(LimitReached::JobsPerDay { used: 100_000, budget: 100_000, until }, limits);
        let said = "`jobs-per-day` of the tenant `acme` is used up: 100k of 100k have started, and the next ones may at 2027-01-15T08:00:00.000Z";
        assert_eq!((found.reason, found.detail.as_str()), (IdleReason::JobsPerDayUsedUp, said));
        let fuel = LimitReached::FuelPerHour { used: 5_200_000_000_001, budget: 5_000_000_000_000, until };
        let found = limited(fuel, limits);
        let said = "`fuel-per-hour` of the tenant `acme` is used up: 5.2T of 5T, and the next jobs may start at 2027-01-15T08:00:00.000Z";
        assert_eq!((found.reason, found.detail.as_str()), (IdleReason::FuelPerHourUsedUp, said));
        assert_eq!(found.limit.unwrap().until, Some(until));
    }
}
