//! When a ready job is expected to begin.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::idle::{Idle, IdleReason};
use gristmill_config::units;
use gristmill_core::time::Timestamp;
use gristmill_core::topic::FleetLimits;

const DAY: Duration = Duration::from_secs(86_400);

/// What the time until a job begins follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedBy {
    /// How fast the topic's jobs have ended in the last minutes.
    Pace,
    /// The topic's rate: it begins no sooner.
    Rate,
    /// The tenant's budget: it begins no sooner.
    Budget,
}

/// When a job begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) wait: Duration,
    pub(super) by: ExpectedBy,
}

impl Expected {
    /// When the job begins before which `ahead` others do. `pace`: how many of the topic's jobs end in a second. `None` if that is not known.
    pub(super) fn of(
        idle: Option<&Idle>,
        limits: &FleetLimits,
        ahead: u64,
        pace: Option<f64>,
        now: Timestamp,
    ) -> Option<Self> {
        let wait_for = |idle: &Idle| idle.until().map(|until| until.since(now));
        let Some(idle) = idle.filter(|idle| idle.stops()) else { return Self::by_pace(ahead, pace) };
        match idle.reason {
            IdleReason::RateLimited => {
                let (rate, next) = (limits.rate?, wait_for(idle)?);
                // By then the bucket has as many tokens as a claim gathers.
                let later = (ahead + 1).saturating_sub(u64::from(rate.gathered()));
                let wait = next.saturating_add(Duration::from_micros(rate.time_of(later)));
                Some(Self { wait, by: ExpectedBy::Rate })
            }
            IdleReason::JobsPerDayUsedUp => {
                let days = ahead / idle.limit.as_ref().and_then(|limit| limit.most)?.max(1);
                let days = DAY.saturating_mul(u32::try_from(days).unwrap_or(u32::MAX));
                Some(Self { wait: wait_for(idle)?.saturating_add(days), by: ExpectedBy::Budget })
            }
            IdleReason::FuelPerHourUsedUp => Some(Self { wait: wait_for(idle)?, by: ExpectedBy::Budget }),
            IdleReason::MaxRunningReached | IdleReason::TenantMaxRunningReached => Self::by_pace(ahead, pace),
            _ => None,
        }
    }

    /// `None` if nothing moves.
    fn by_pace(ahead: u64, pace: Option<f64>) -> Option<Self> {
        let pace = pace.filter(|pace| *pace > 0.0)?;
        let wait = Duration::try_from_secs_f64((ahead + 1) as f64 / pace).ok()?;
        Some(Self { wait, by: ExpectedBy::Pace })
    }

    /// As a part of a sentence.
    pub(super) fn in_words(self) -> String {
        let wait = units::about_duration(self.wait);
        match self.by {
            ExpectedBy::Pace => format!("at the pace of the last minutes in {wait}"),
            ExpectedBy::Rate => format!("by its rate in {wait} at the earliest"),
            ExpectedBy::Budget => format!("by the budget in {wait} at the earliest"),
        }
    }
}

#[cfg(test)]
mod tests {
    use gristmill_core::topic::Rate;

    use super::super::idle::LimitCounts;
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn idle(reason: IdleReason, limit: LimitCounts) -> Idle {
        Idle { reason, detail: String::new(), limit: Some(limit), other_runners: None }
    }

    fn until_in(seconds: u64) -> LimitCounts {
        LimitCounts { until: Some(NOW.plus(Duration::from_secs(seconds))), ..LimitCounts::default() }
    }

    fn expected(idle: &Idle, limits: FleetLimits, ahead: u64) -> Option<(u64, ExpectedBy)> {
        Expected::of(Some(idle), &limits, ahead, Some(2.0), NOW).map(|expected| (expected.wait.as_secs(), expected.by))
    }

    #[test]
    fn a_rate_says_to_the_job_when_each_starts() {
        let limits = FleetLimits { rate: Some(Rate::new(5, Duration::from_secs(10))), ..FleetLimits::NONE };
        let limited = idle(IdleReason::RateLimited, until_in(1));
        assert_eq!(expected(&limited, limits, 0), Some((1, ExpectedBy::Rate)));
        assert_eq!(expected(&limited, limits, 1), Some((3, ExpectedBy::Rate)));
        assert_eq!(expected(&limited, limits, 50), Some((101, ExpectedBy::Rate)));
        assert_eq!(expected(&limited, FleetLimits::NONE, 50), None, "the rate is another manifest's");
        let fast = FleetLimits { rate: Some(Rate::new(1000, Duration::from_secs(1))), ..FleetLimits::NONE };
        assert_eq!(expected(&limited, fast, 4), Some((1, ExpectedBy::Rate)), "five start at once");
        assert_eq!(expected(&limited, fast, 1004), Some((2, ExpectedBy::Rate)));
    }

    #[test]
    fn a_budget_says_on_which_day_a_job_starts() {
        let limit = LimitCounts { most: Some(100), ..until_in(60) };
        let used_up = idle(IdleReason::JobsPerDayUsedUp, limit.clone());
        assert_eq!(expected(&used_up, FleetLimits::NONE, 99), Some((60, ExpectedBy::Budget)));
        assert_eq!(expected(&used_up, FleetLimits::NONE, 100), Some((86_460, ExpectedBy::Budget)));
        let fuel = idle(IdleReason::FuelPerHourUsedUp, limit);
        assert_eq!(expected(&fuel, FleetLimits::NONE, 100), Some((60, ExpectedBy::Budget)));
    }

    #[test]
    fn where_jobs_go_on_ending_the_pace_says_it() {
        let full = idle(IdleReason::MaxRunningReached, LimitCounts::default());
        assert_eq!(expected(&full, FleetLimits::NONE, 9), Some((5, ExpectedBy::Pace)));
        assert_eq!(Expected::of(Some(&full), &FleetLimits::NONE, 9, None, NOW), None);
        assert_eq!(Expected::of(None, &FleetLimits::NONE, 0, Some(0.0), NOW), None, "a line that does not move");
        let paused = idle(IdleReason::Paused, LimitCounts::default());
        assert_eq!(expected(&paused, FleetLimits::NONE, 0), None);
    }
}
