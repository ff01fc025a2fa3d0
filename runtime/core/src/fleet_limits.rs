//! How many of a topic's jobs may start, and run, in all runners together.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A claim tries again once it may have the jobs of this much time, or half the burst: one wake-up for each job costs more than its claim.
const GATHER: Duration = Duration::from_millis(5);

/// Without a burst of its own, as many jobs may start at once as in this much time.
const USUAL_BURST: Duration = Duration::from_millis(100);

/// What the runners of a topic may do together. Every claim brings the limits that its own manifest says; the store keeps
/// how far they are used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FleetLimits {
    /// At most this many attempts at once; at least 1. `None`: any number.
    pub max_running: Option<u32>,
    /// How fast attempts may start; `None`: at any rate.
    pub rate: Option<Rate>,
    /// What holds for the jobs that share a key.
    pub per_key: KeyLimits,
    /// What holds for all topics of the tenant together.
    pub tenant: TenantFleetLimits,
}

/// What all topics of a tenant may do together, in all runners. The claims of a tenant's topics that are made at once bring the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantFleetLimits {
    /// At most this many attempts at once; at least 1. `None`: any number.
    pub max_running: Option<u32>,
    /// Attempts that may start in a day, UTC, by the store's clock; at least 1. `None`: any number.
    pub jobs_per_day: Option<u64>,
    /// Fuel of the attempts that end in an hour, UTC, by the store's clock: once so much is used, none starts until the hour ends. At least 1.
    /// `None`: any amount.
    pub fuel_per_hour: Option<u64>,
}

impl TenantFleetLimits {
    /// No limits.
    pub const NONE: Self = Self { max_running: None, jobs_per_day: None, fuel_per_hour: None };

    /// Whether there is any limit.
    pub fn is_some(&self) -> bool {
        *self != Self::NONE
    }

    /// An equal share for each of this many parts of the tenant's jobs: at least 1 of each.
    #[must_use]
    pub fn share(self, parts: u32) -> Self {
        let parts = parts.max(1);
        let share = |most: u64| (most / u64::from(parts)).max(1);
        Self {
            max_running: self.max_running.map(|most| (most / parts).max(1)),
            jobs_per_day: self.jobs_per_day.map(share),
            fuel_per_hour: self.fuel_per_hour.map(share),
        }
    }
}

/// What holds for the jobs of a topic that share a key: one that is due waits until it gets one of its key's slots, and holds the slot
/// until it has ended, also while it waits for its next attempt. The jobs get the slots in the order in which they became ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLimits {
    /// How many slots a key has: 1 to [`KeyLimits::MAX_RUNNING`].
    pub max_running: u32,
    /// What becomes of a job's slot when the job is dead.
    pub on_dead: OnDead,
    /// How fast attempts of the jobs of one key may start; `None`: at any rate. A job whose key has no token left at its turn is delayed until
    /// there is one, and keeps its slot. It is looked at again after at most [`KeyLimits::HELD_MAX`].
    pub rate: Option<Rate>,
}

/// What becomes of the slot of a job that is dead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnDead {
    /// The next job of its key gets it.
    #[default]
    Continue,
    /// The dead job keeps it, until the job is respawned and has ended, or is deleted.
    Halt,
}

impl KeyLimits {
    /// One job of a key at a time, and a dead one stops no other.
    pub const DEFAULT: Self = Self { max_running: 1, on_dead: OnDead::Continue, rate: None };
    /// The most slots of a key. A store keeps the ids of all jobs that hold one.
    pub const MAX_RUNNING: u32 = 100;
    /// For how long a rate holds a job back at most before a claim looks at it again: until then the rate may have been raised.
    pub const HELD_MAX: Duration = Duration::from_secs(300);
}

impl Default for KeyLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl FleetLimits {
    /// No limits.
    pub const NONE: Self =
        Self { max_running: None, rate: None, per_key: KeyLimits::DEFAULT, tenant: TenantFleetLimits::NONE };

    /// Whether there is any limit.
    pub fn is_some(&self) -> bool {
        *self != Self::NONE
    }

    /// An equal share for each of this many parts of a topic: at least one running job, and a burst of one. All jobs of a key are in one
    /// part. Leaves the tenant's limits as they are.
    #[must_use]
    pub fn share(self, parts: u32) -> Self {
        let parts = parts.max(1);
        let share =
            |rate: Rate| Rate { per: rate.per.saturating_mul(parts), burst: (rate.burst / parts).max(1), ..rate };
        Self { max_running: self.max_running.map(|most| (most / parts).max(1)), rate: self.rate.map(share), ..self }
    }
}

/// How fast attempts may start: a bucket of `burst` tokens, into which `jobs` of them drop in each `per`, evenly spread. Each start takes one.
///
/// What is remembered of a bucket is the time at which it will be full again, in microseconds (`full_at`); one that was never used is
/// full since 1970. So in any span of time there start at most `burst` jobs and those of the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Starts in each `per`: 1 to [`Rate::MAX`].
    pub jobs: u32,
    /// Up to a day.
    pub per: Duration,
    /// Starts at once: 1 to [`Rate::MAX_BURST`].
    pub burst: u32,
}

impl Rate {
    /// The most jobs in a span.
    pub const MAX: u32 = 1_000_000;
    /// The largest burst. With it and a day, all that is computed here fits into the whole numbers that a double has.
    pub const MAX_BURST: u32 = 100_000;

    /// The units of time of a rate's text form, as in `100/s`.
    pub const UNITS: [(&'static str, Duration); 4] = [
        ("s", Duration::from_secs(1)),
        ("m", Duration::from_secs(60)),
        ("h", Duration::from_secs(3600)),
        ("d", Duration::from_secs(86_400)),
    ];

    /// A rate that lets the jobs of a tenth of a second start at once, and at least one.
    pub fn new(jobs: u32, per: Duration) -> Self {
        let rate = Self { jobs, per, burst: 1 };
        Self { burst: rate.jobs_of(USUAL_BURST).clamp(1, Self::MAX_BURST), ..rate }
    }

    /// How many jobs a claim waits for at least.
    pub fn gathered(&self) -> u32 {
        self.jobs_of(GATHER).clamp(1, (self.burst / 2).max(1))
    }

    fn jobs_of(&self, span: Duration) -> u32 {
        let jobs = u128::from(self.jobs) * span.as_micros() / u128::from(self.micros());
        u32::try_from(jobs).unwrap_or(u32::MAX)
    }

    /// The span in microseconds.
    pub fn micros(&self) -> u64 {
        u64::try_from(self.per.as_micros()).unwrap_or(u64::MAX).max(1)
    }

    /// How many jobs may start at `now`.
    pub fn allowed(&self, full_at: u64, now: u64) -> u64 {
        let (per, jobs) = (u128::from(self.micros()), u128::from(self.jobs));
        let missing = u128::from(self.cut(full_at, now) - now) * jobs;
        let tokens = (u128::from(self.burst) * per).saturating_sub(missing) / per;
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }

    /// When the bucket will be full again after `started` jobs have started at `now`.
    #[must_use]
    pub fn full_again(&self, full_at: u64, now: u64, started: u64) -> u64 {
        self.cut(full_at, now).saturating_add(self.time_of(started))
    }

    /// The first moment from `now` on at which `wanted` jobs may start. A claim that waits asks for [`Self::gathered`].
    pub fn next_at(&self, full_at: u64, now: u64, wanted: u32) -> u64 {
        let (per, jobs) = (u128::from(self.micros()), u128::from(self.jobs).max(1));
        let rest = u128::from(self.burst.saturating_sub(wanted)) * per / jobs;
        self.cut(full_at, now).saturating_sub(u64::try_from(rest).unwrap_or(u64::MAX)).max(now)
    }

    /// When the bucket is full, seen at `now`. One that is emptier than empty is taken as empty: the rate was raised since, or the clock
    /// set back.
    fn cut(&self, full_at: u64, now: u64) -> u64 {
        full_at.clamp(now, now.saturating_add(self.time_of(u64::from(self.burst))))
    }

    /// In how many microseconds, rounded up, that many jobs may start.
    pub fn time_of(&self, jobs: u64) -> u64 {
        let micros = (u128::from(jobs) * u128::from(self.micros())).div_ceil(u128::from(self.jobs).max(1));
        u64::try_from(micros).unwrap_or(u64::MAX)
    }
}

/// As a manifest says it: `100/s`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::UNITS.iter().find(|(_, per)| *per == self.per) {
            Some((unit, _)) => write!(f, "{}/{unit}", self.jobs),
            None => write!(f, "{} in {:?}", self.jobs, self.per),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000_000;

    fn rate(jobs: u32, per_s: u64, burst: u32) -> Rate {
        Rate { jobs, per: Duration::from_secs(per_s), burst }
    }

    #[test]
    fn the_shares_of_limits_are_no_more_than_the_whole() {
        let limits = FleetLimits { max_running: Some(10), rate: Some(rate(100, 1, 50)), ..FleetLimits::NONE };
        let share = limits.share(4);
        assert_eq!(share, FleetLimits { max_running: Some(2), rate: Some(rate(100, 4, 12)), ..FleetLimits::NONE });
        assert_eq!((limits.share(1), FleetLimits::NONE.share(4)), (limits, FleetLimits::NONE));
        let least = limits.share(100);
        assert_eq!((least.max_running, least.rate.map(|rate| rate.burst)), (Some(1), Some(1)));
        let tenant = TenantFleetLimits { max_running: Some(10), jobs_per_day: Some(9), fuel_per_hour: Some(3) };
        let share = TenantFleetLimits { max_running: Some(2), jobs_per_day: Some(2), fuel_per_hour: Some(1) };
        assert_eq!((tenant.share(4), tenant.share(0)), (share, tenant));
    }

    #[test]
    fn a_full_bucket_gives_its_burst_and_then_one_for_each_interval() {
        let rate = rate(10, 1, 5);
        assert_eq!(rate.allowed(0, NOW), 5);
        let full_at = rate.full_again(0, NOW, 5);
        assert_eq!(rate.allowed(full_at, NOW), 0);
        assert_eq!(rate.allowed(full_at, NOW + 99_999), 0);
        assert_eq!(rate.allowed(full_at, NOW + 100_000), 1);
        assert_eq!(rate.allowed(full_at, NOW + 499_999), 4);
        assert_eq!(rate.allowed(full_at, NOW + 3_600_000_000), 5, "an idle topic saves up no more than its burst");
    }

    #[test]
    fn intervals_that_are_no_whole_microseconds_never_give_more() {
        let rate = rate(3, 1, 1);
        let (mut full_at, mut now, mut started) = (0, NOW, 0);
        while now < NOW + 10_000_000 {
            let some = rate.allowed(full_at, now);
            full_at = rate.full_again(full_at, now, some);
            started += some;
            assert!(started <= 1 + (now - NOW) * 3 / 1_000_000, "{started} after {} µs", now - NOW);
            now = rate.next_at(full_at, now, rate.gathered());
            assert!(rate.allowed(full_at, now) >= 1, "what was waited for is there");
        }
        assert_eq!(started, 30);
    }

    #[test]
    fn a_bucket_that_a_lower_rate_emptied_is_empty_for_a_higher_one() {
        let (slow, fast) = (rate(1, 3600, 10), rate(100, 1, 10));
        let full_at = slow.full_again(0, NOW, 10);
        assert_eq!(fast.allowed(full_at, NOW), 0);
        let full_at = fast.full_again(full_at, NOW, 0);
        assert_eq!(full_at, NOW + 100_000);
        assert_eq!(fast.next_at(full_at, NOW, fast.gathered()), NOW + 10_000);
    }

    #[test]
    fn a_bucket_is_never_further_from_full_than_its_burst_whatever_the_clock_did() {
        let rate = rate(4, 1, 2);
        let full_at = rate.full_again(0, NOW, 2);
        for back_s in [600, 3600, 86_400] {
            let now = NOW - back_s * 1_000_000;
            assert_eq!(rate.allowed(full_at, now), 0);
            assert_eq!(rate.next_at(full_at, now, 1), now + 250_000, "{back_s} s back");
        }
    }

    #[test]
    fn the_largest_values_fit_into_a_double() {
        let rate = Rate { jobs: Rate::MAX, per: Duration::from_secs(86_400), burst: Rate::MAX_BURST };
        assert!(u64::from(rate.burst) * rate.micros() + u64::from(rate.jobs) < 1 << 53);
        let full_at = rate.full_again(0, NOW, u64::from(rate.burst));
        assert_eq!(rate.allowed(full_at, NOW), 0);
    }

    #[test]
    fn a_fast_rate_gathers_some_jobs_before_it_wakes_a_claim() {
        assert_eq!(
            (Rate::new(1000, Duration::from_secs(1)).burst, Rate::new(5000, Duration::from_secs(3600)).burst),
            (100, 1)
        );
        assert_eq!(Rate::new(1000, Duration::from_secs(1)).gathered(), 5);
        assert_eq!(rate(1000, 1, 1).gathered(), 1);
        assert_eq!((rate(5, 1, 9).gathered(), rate(5, 1, 9).to_string()), (1, "5/s".to_owned()));
    }
}
