//! Whether a version of a handler that does a share of a topic's jobs does them no worse than the one that does the rest: by what the attempts
//! of both cost and how they ended, at the same time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::outcome::Outcome;
use crate::units::{COUNT, SIZE, about_duration};

/// The share of a version that a gated topic tries, of ten thousand jobs.
pub const GATE_SHARE: u16 = 500;

/// Attempts of both before any rate or mean says something.
const FEW: u64 = 10;
/// Attempts of both before the rate of failures and the time do, which vary more.
const SOME: u64 = 20;
/// Attempts after which a version that is no worse does all jobs.
const ENOUGH: u64 = 100;
/// After this time [`SOME`] are enough.
const LONG: Duration = Duration::from_secs(3600);

/// Media types of results that are counted separately.
const TYPES: usize = 8;

/// Attempts that one version has made, added up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempts {
    /// All that ran.
    made: u64,
    /// That the handler failed, or that ended in its timeout.
    failed: u64,
    /// Of which another try of the same code would end the same: traps, fuel, memory, limits.
    of_the_code: u64,
    /// That were completed, and what these cost together.
    completed: u64,
    fuel: u64,
    memory: u64,
    /// How long the last ones took, at most [`TIMES`].
    times: VecDeque<Duration>,
    /// The media types of results, and how often each.
    types: BTreeMap<String, u64>,
}

/// Attempts whose times are kept.
const TIMES: usize = 100;

/// What one attempt cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct AttemptCost {
    /// Fuel that it used.
    pub fuel: u64,
    /// The most memory that the guest had, in bytes.
    pub memory: u64,
    /// How long it ran, without waits for a thread.
    pub time: Duration,
}

/// What follows from a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The version does all jobs: it was no worse. With the numbers.
    Promote(String),
    /// The version does none: the name of the rule that it broke, and the numbers.
    RollBack(&'static str, String),
}

impl Attempts {
    /// Adds an attempt. One that did not run says nothing.
    pub fn add(&mut self, outcome: &Outcome, cost: AttemptCost) {
        match outcome {
            Outcome::Complete(result) => {
                self.completed += 1;
                self.fuel = self.fuel.saturating_add(cost.fuel);
                self.memory = self.memory.saturating_add(cost.memory);
                self.times.truncate(TIMES - 1);
                self.times.push_front(cost.time);
                let of =
                    result.as_ref().map_or("no result", |result| result.content_type.as_deref().unwrap_or("no type"));
                if self.types.len() < TYPES || self.types.contains_key(of) {
                    *self.types.entry(of.to_owned()).or_default() += 1;
                }
            }
            Outcome::Snooze(_) => {}
            Outcome::Retry { .. } | Outcome::Reject(_) | Outcome::TimedOut { .. } => self.failed += 1,
            Outcome::OutOfFuel { .. }
            | Outcome::MemoryExceeded { .. }
            | Outcome::Trapped { .. }
            | Outcome::LimitExceeded { .. } => {
                self.failed += 1;
                self.of_the_code += 1;
            }
            Outcome::Expired
            | Outcome::PredecessorFailed { .. }
            | Outcome::TenantFull { .. }
            | Outcome::LeaseExpired
            | Outcome::WorkerDied
            | Outcome::PoolFull
            | Outcome::HandlerMissing
            | Outcome::ShuttingDown
            | Outcome::Killed
            | Outcome::HostFault(_) => return,
        }
        self.made += 1;
    }

    fn rate(&self, of: u64) -> f64 {
        of as f64 / self.made.max(1) as f64
    }

    /// The median: a machine that stands still for a moment does not show in it.
    fn median_time(&self) -> f64 {
        let mut times: Vec<_> = self.times.iter().collect();
        times.sort_unstable();
        times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64())
    }

    fn mean(&self, of: f64) -> f64 {
        of / self.completed.max(1) as f64
    }

    /// Compares the attempts of a version that is tried with those of the `stable` one of the same time, `lasted` long. `None`: too few to say.
    pub fn judge(&self, stable: &Self, lasted: Duration) -> Option<Judgement> {
        let rules = [Self::traps, Self::content_type, Self::failures, Self::fuel, Self::memory, Self::time];
        if let Some((rule, numbers)) = rules.iter().find_map(|rule| rule(self, stable)) {
            return Some(Judgement::RollBack(rule, numbers));
        }
        let enough = if lasted < LONG { ENOUGH } else { SOME };
        let numbers = || {
            format!(
                "{} attempts, {} failed; {} and {} of the version before",
                self.made, self.failed, stable.made, stable.failed
            )
        };
        (self.made >= enough).then(|| Judgement::Promote(numbers()))
    }

    /// Three of them, and more than twice as often as before.
    fn traps(&self, stable: &Self) -> Option<(&'static str, String)> {
        let (ours, theirs) = (self.rate(self.of_the_code), stable.rate(stable.of_the_code));
        let numbers = || {
            format!(
                "{} of {} attempts trapped or ran out of what they may use, {} of {} before",
                self.of_the_code, self.made, stable.of_the_code, stable.made
            )
        };
        (self.of_the_code >= 3 && ours > 2.0 * theirs + 0.02).then(|| ("traps", numbers()))
    }

    /// Half as often again as before, and in 10 % of attempts more.
    fn failures(&self, stable: &Self) -> Option<(&'static str, String)> {
        let (ours, theirs) = (self.rate(self.failed), stable.rate(stable.failed));
        let numbers =
            || format!("{} of {} attempts failed, {} of {} before", self.failed, self.made, stable.failed, stable.made);
        (self.made.min(stable.made) >= SOME && ours > 1.5 * theirs + 0.1).then(|| ("failures", numbers()))
    }

    /// Three results of a media type that the version before never gave.
    fn content_type(&self, stable: &Self) -> Option<(&'static str, String)> {
        let is_new = |(of, count): &(&String, &u64)| **count >= 3 && !stable.types.contains_key(*of);
        let (of, count) = self.types.iter().find(is_new)?;
        let before = || stable.types.keys().cloned().collect::<Vec<_>>().join(", ");
        let numbers = || format!("{count} results are of {of}, all {} before of {}", stable.completed, before());
        (stable.completed >= FEW && stable.types.len() < TYPES).then(|| ("content-type", numbers()))
    }

    fn fuel(&self, stable: &Self) -> Option<(&'static str, String)> {
        let means = (self.mean(self.fuel as f64), stable.mean(stable.fuel as f64));
        self.costs_more(stable, "fuel", FEW, means, 0.0, |fuel| COUNT.about(fuel as u64))
    }

    fn memory(&self, stable: &Self) -> Option<(&'static str, String)> {
        let means = (self.mean(self.memory as f64), stable.mean(stable.memory as f64));
        self.costs_more(stable, "memory", FEW, means, f64::from(1 << 20), |bytes| SIZE.about(bytes as u64))
    }

    /// Twice, since it varies most; and not by a few milliseconds of a busy machine.
    fn time(&self, stable: &Self) -> Option<(&'static str, String)> {
        let medians = (self.median_time(), stable.median_time());
        let slack = 0.02 + 0.5 * medians.1;
        self.costs_more(stable, "time", SOME, medians, slack, |seconds| {
            about_duration(Duration::from_secs_f64(seconds))
        })
    }

    /// Half as much again, and `slack` more.
    fn costs_more(
        &self,
        stable: &Self,
        rule: &'static str,
        least: u64,
        (ours, theirs): (f64, f64),
        slack: f64,
        show: impl Fn(f64) -> String,
    ) -> Option<(&'static str, String)> {
        let numbers = || {
            format!(
                "{} each in {} attempts, {} each in {} before",
                show(ours),
                self.completed,
                show(theirs),
                stable.completed
            )
        };
        (self.completed.min(stable.completed) >= least && ours > 1.5 * theirs + slack).then(|| (rule, numbers()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Payload;

    const COST: AttemptCost = AttemptCost { fuel: 1000, memory: 4 << 20, time: Duration::from_millis(100) };

    fn completed(content_type: &str) -> Outcome {
        Outcome::Complete(Some(Payload { data: Vec::new(), content_type: Some(content_type.into()) }))
    }

    fn good() -> Outcome {
        completed("text/plain")
    }

    fn trap() -> Outcome {
        Outcome::Trapped { message: String::new(), backtrace: String::new() }
    }

    fn made(groups: &[(u64, Outcome, AttemptCost)]) -> Attempts {
        let mut attempts = Attempts::default();
        for (count, outcome, cost) in groups {
            (0..*count).for_each(|_| attempts.add(outcome, *cost));
        }
        attempts
    }

    /// The rule that is broken after this, and not one attempt earlier; `None`: the version is promoted.
    fn judged(before: (u64, Outcome, AttemptCost), tried: (u64, Outcome, AttemptCost)) -> Option<&'static str> {
        let stable = made(&[(1000, good(), COST), before]);
        let mut attempts = Attempts::default();
        for _ in 0..tried.0 {
            assert_eq!(attempts.judge(&stable, Duration::ZERO), None, "{attempts:?}");
            attempts.add(&tried.1, tried.2);
        }
        match attempts.judge(&stable, Duration::ZERO).unwrap() {
            Judgement::Promote(_) => None,
            Judgement::RollBack(rule, _) => Some(rule),
        }
    }

    #[test]
    fn each_rule_acts_at_its_edge() {
        let none = (0, good(), COST);
        let with = |cost| (FEW, good(), cost);
        assert_eq!(judged(none.clone(), (3, trap(), COST)), Some("traps"));
        assert_eq!(judged(none.clone(), (3, Outcome::OutOfFuel { limit: 1 }, COST)), Some("traps"));
        assert_eq!(judged(none.clone(), (3, completed("text/html"), COST)), Some("content-type"));
        assert_eq!(judged(none.clone(), (SOME, Outcome::TimedOut { limit: Duration::ZERO }, COST)), Some("failures"));
        assert_eq!(judged(none.clone(), with(AttemptCost { fuel: 1501, ..COST })), Some("fuel"));
        assert_eq!(judged(none.clone(), with(AttemptCost { memory: (7 << 20) + 1, ..COST })), Some("memory"));
        let slow = AttemptCost { time: Duration::from_millis(221), ..COST };
        assert_eq!(judged(none.clone(), (SOME, good(), slow)), Some("time"));
        let just = AttemptCost { fuel: 1500, memory: 7 << 20, time: Duration::from_millis(219) };
        assert_eq!(judged(none, (ENOUGH, good(), just)), None);
    }

    #[test]
    fn what_fails_as_often_as_before_is_no_worse() {
        let stable =
            made(&[(900, good(), COST), (100, trap(), COST), (100, Outcome::Reject(Default::default()), COST)]);
        let same = made(&[(90, good(), COST), (10, trap(), COST), (10, Outcome::Reject(Default::default()), COST)]);
        assert!(matches!(same.judge(&stable, Duration::ZERO), Some(Judgement::Promote(_))));
    }

    #[test]
    fn a_slow_topic_needs_fewer_attempts_after_an_hour() {
        let (stable, few) = (made(&[(100, good(), COST)]), made(&[(SOME, good(), COST)]));
        assert_eq!(few.judge(&stable, LONG - Duration::from_secs(1)), None);
        assert!(matches!(few.judge(&stable, LONG), Some(Judgement::Promote(_))));
    }

    #[test]
    fn what_did_not_run_says_nothing() {
        let attempts = made(&[(100, Outcome::HandlerMissing, COST), (100, Outcome::Killed, COST)]);
        assert_eq!(attempts, Attempts::default());
    }
}
