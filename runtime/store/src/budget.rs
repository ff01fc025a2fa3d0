//! The budgets of tenants: how far they are used, as both stores remember it.

use crate::LimitReached;
use gristmill_core::time::Timestamp;
use gristmill_core::topic::TenantFleetLimits;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// What a tenant has used of its budgets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BudgetUse {
    /// A day since 1970, UTC, and how many attempts began in it.
    pub(crate) day: u64,
    pub(crate) jobs: u64,
    /// An hour since 1970, UTC, and the fuel of the attempts that ended in it.
    pub(crate) hour: u64,
    pub(crate) fuel: u64,
}

impl BudgetUse {
    /// The same at a later time: what was used in another day or hour is over.
    #[must_use]
    pub(crate) fn at(self, now: Timestamp) -> Self {
        let (day, hour) = (now.as_millis() / DAY_MS, hour_of(now));
        let [jobs, fuel] = [(self.jobs, self.day == day), (self.fuel, self.hour == hour)]
            .map(|(used, is_same)| if is_same { used } else { 0 });
        Self { day, jobs, hour, fuel }
    }

    /// The budget that is used up; of two the one that is new later.
    pub(crate) fn used_up(self, limits: TenantFleetLimits) -> Option<LimitReached> {
        let end = |span: u64, length: u64| Timestamp::from_millis((span + 1) * length);
        let jobs = limits.jobs_per_day.filter(|most| self.jobs >= *most).map(|budget| LimitReached::JobsPerDay {
            used: self.jobs,
            budget,
            until: end(self.day, DAY_MS),
        });
        let fuel = || {
            limits.fuel_per_hour.filter(|most| self.fuel >= *most).map(|budget| LimitReached::FuelPerHour {
                used: self.fuel,
                budget,
                until: end(self.hour, HOUR_MS),
            })
        };
        jobs.or_else(fuel)
    }

    /// What keeps a topic's jobs in line until a time: the tenant's budget, if that is used up until then.
    pub(crate) fn named(self, limits: TenantFleetLimits, found: LimitReached) -> LimitReached {
        let budget = self.used_up(limits).filter(|budget| budget.until() == found.until());
        budget.unwrap_or(found)
    }
}

/// The hour since 1970, UTC.
pub(crate) fn hour_of(now: Timestamp) -> u64 {
    now.as_millis() / HOUR_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_in_another_hour_or_day_is_over() {
        let at = Timestamp::from_millis;
        let used = BudgetUse { day: 1, jobs: 5, hour: 30, fuel: 7 };
        assert_eq!(used.at(at(31 * HOUR_MS - 1)), used);
        assert_eq!(used.at(at(31 * HOUR_MS)), BudgetUse { hour: 31, fuel: 0, ..used });
        assert_eq!(used.at(at(2 * DAY_MS)), BudgetUse { day: 2, jobs: 0, hour: 48, fuel: 0 });
    }

    #[test]
    fn a_budget_is_used_up_until_its_span_ends() {
        let used = BudgetUse { day: 1, jobs: 5, hour: 30, fuel: 7 };
        let limits = |jobs_per_day, fuel_per_hour| TenantFleetLimits { max_running: None, jobs_per_day, fuel_per_hour };
        assert_eq!(used.used_up(limits(Some(6), Some(8))), None);
        let until = Timestamp::from_millis(31 * HOUR_MS);
        let fuel = LimitReached::FuelPerHour { used: 7, budget: 7, until };
        assert_eq!(used.used_up(limits(Some(6), Some(7))), Some(fuel));
        assert_eq!(used.named(limits(None, Some(7)), LimitReached::Rate { until }), fuel);
        let rate = LimitReached::Rate { until: Timestamp::from_millis(1) };
        assert_eq!(used.named(limits(None, Some(7)), rate), rate);
        let until = Timestamp::from_millis(2 * DAY_MS);
        assert_eq!(
            used.used_up(limits(Some(4), Some(7))),
            Some(LimitReached::JobsPerDay { used: 5, budget: 4, until })
        );
    }
}
