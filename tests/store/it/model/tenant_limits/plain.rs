//! The limits of a tenant, said as plainly as can be.

use std::collections::BTreeSet;

use gristmill_core::job::JobId;
use gristmill_core::time::Timestamp;
use gristmill_core::topic::{Rate, TenantFleetLimits};
use gristmill_store::LimitReached;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

#[derive(Debug, Default, Clone)]
pub(super) struct Topic {
    /// Ready jobs in the order in which they became ready.
    pub(super) line: Vec<JobId>,
    pub(super) running: BTreeSet<JobId>,
    pub(super) paused: bool,
    pub(super) held_a_job: bool,
    limited: Option<Limited>,
    /// When the bucket of its rate is full again, in microseconds.
    rate_full_at: u64,
    /// Since it need not wait any more it was announced, and no claim has tried it.
    untried: bool,
}

/// What keeps the jobs of a topic in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limited {
    MaxRunning,
    /// `woken`: since then a job of the tenant has ended, or a claim has left some unused, so that the topic may go on. The one of them
    /// that has waited for the longest does: see the conformance suite.
    TenantMaxRunning {
        woken: bool,
    },
    Until(Timestamp),
}

/// A tenant, as it has used its budgets.
#[derive(Debug, Default)]
pub(super) struct Tenant {
    pub(super) topics: Vec<Topic>,
    /// What the claims say.
    pub(super) limits: TenantFleetLimits,
    /// What the last claim has said that brought limits.
    said: Option<TenantFleetLimits>,
    day: u64,
    jobs: u64,
    hour: u64,
    fuel: u64,
}

impl Topic {
    /// Nothing keeps its jobs in line any more. If it has some, it is announced.
    fn go_on(&mut self) {
        self.limited = None;
        self.untried = !self.paused && !self.line.is_empty();
    }
}

impl Tenant {
    pub(super) fn of(topics: usize) -> Self {
        Self { topics: vec![Topic::default(); topics], ..Self::default() }
    }

    fn running(&self) -> u64 {
        self.topics.iter().map(|topic| topic.running.len() as u64).sum()
    }

    /// What was used in another day or hour is over.
    fn renew(&mut self, now: Timestamp) {
        let (day, hour) = (now.as_millis() / DAY_MS, now.as_millis() / HOUR_MS);
        if self.day != day {
            (self.day, self.jobs) = (day, 0);
        }
        if self.hour != hour {
            (self.hour, self.fuel) = (hour, 0);
        }
    }

    /// The budget that is used up.
    fn used_up(&self, limits: TenantFleetLimits) -> Option<LimitReached> {
        let jobs = limits.jobs_per_day.filter(|budget| self.jobs >= *budget).map(|budget| {
            let until = Timestamp::from_millis((self.day + 1) * DAY_MS);
            LimitReached::JobsPerDay { used: self.jobs, budget, until }
        });
        let fuel = limits.fuel_per_hour.filter(|budget| self.fuel >= *budget).map(|budget| {
            let until = Timestamp::from_millis((self.hour + 1) * HOUR_MS);
            LimitReached::FuelPerHour { used: self.fuel, budget, until }
        });
        jobs.or(fuel)
    }

    /// How many jobs of the tenant may start.
    fn free(&self) -> u64 {
        if self.used_up(self.limits).is_some() {
            return 0;
        }
        let running = self.limits.max_running.map(|most| u64::from(most).saturating_sub(self.running()));
        let today = self.limits.jobs_per_day.map(|most| most - self.jobs);
        running.into_iter().chain(today).min().unwrap_or(u64::MAX)
    }

    /// The jobs that a claim takes of a topic. `most`: how many of the topic may run; `rate`: how fast they may start.
    pub(super) fn claim(
        &mut self,
        now: Timestamp,
        of: usize,
        max: usize,
        (most, rate): (Option<u32>, Option<Rate>),
    ) -> Vec<JobId> {
        self.renew(now);
        let (limits, free, now_us) = (self.limits, self.free(), now.as_millis() * 1000);
        let topic = &mut self.topics[of];
        topic.untried = false;
        let of_topic = most.map_or(u64::MAX, |most| u64::from(most).saturating_sub(topic.running.len() as u64));
        let of_rate = rate.map_or(u64::MAX, |rate| rate.allowed(topic.rate_full_at, now_us));
        let allowed = (max as u64).min(free).min(of_topic).min(of_rate);
        let count = if topic.paused { 0 } else { allowed.min(topic.line.len() as u64) };
        let taken: Vec<JobId> = topic.line.drain(..count as usize).collect();
        topic.running.extend(taken.iter().cloned());
        let is_held_back = !topic.paused && taken.len() < max && !topic.line.is_empty();
        let too_many = most.is_some_and(|most| topic.running.len() as u64 >= u64::from(most));
        if let Some(rate) = rate {
            let full_at = rate.full_again(topic.rate_full_at, now_us, count);
            // What is missing of a bucket with a larger burst or a slower rate is cut by any claim.
            if count > 0 || full_at < topic.rate_full_at {
                topic.rate_full_at = full_at;
            }
        }
        let next_at = rate.map(|rate| rate.next_at(topic.rate_full_at, now_us, rate.gathered()).div_ceil(1000));
        let has_limits = limits.is_some() || most.is_some() || rate.is_some();
        if limits.is_some() {
            self.said = Some(limits);
            self.jobs += taken.len() as u64;
        }
        if has_limits {
            let used_up = self.used_up(limits).and_then(|budget| budget.until());
            let too_many_of_tenant = limits.max_running.is_some_and(|most| self.running() >= u64::from(most));
            self.topics[of].limited = match used_up {
                _ if !is_held_back => None,
                Some(until) => Some(Limited::Until(until)),
                None if too_many => Some(Limited::MaxRunning),
                None if too_many_of_tenant => Some(Limited::TenantMaxRunning { woken: false }),
                None => next_at.map(|next_at| Limited::Until(Timestamp::from_millis(next_at))),
            };
        }
        if limits.max_running.is_some() && self.free() > 0 {
            self.wake();
        }
        taken
    }

    pub(super) fn settle(&mut self, now: Timestamp, of: usize, job: &JobId, retries: bool, fuel: u64) {
        self.renew(now);
        let topic = &mut self.topics[of];
        topic.running.remove(job);
        topic.line.extend(retries.then(|| job.clone()));
        if topic.limited == Some(Limited::MaxRunning) {
            topic.go_on();
        }
        // Fuel counts once claims have brought limits.
        if self.said.is_some() {
            self.fuel += fuel;
        }
        self.wake();
    }

    /// Some of the topics may go on that wait until a job of the tenant ends.
    fn wake(&mut self) {
        for topic in &mut self.topics {
            if let Some(Limited::TenantMaxRunning { woken }) = &mut topic.limited {
                *woken = true;
            }
        }
    }

    /// Topics whose budget is a new one need not wait.
    pub(super) fn migrate(&mut self, now: Timestamp) {
        self.renew(now);
        for topic in &mut self.topics {
            if matches!(topic.limited, Some(Limited::Until(until)) if until <= now) {
                topic.go_on();
            }
        }
    }

    /// Which limit keeps the jobs of a topic in line. `found`: what the store says, which shows which topic continues.
    pub(super) fn limited(&mut self, of: usize, found: Option<LimitReached>) -> Option<LimitReached> {
        let topic = &mut self.topics[of];
        if topic.limited == Some(Limited::TenantMaxRunning { woken: true }) && found.is_none() {
            topic.go_on();
        }
        let limited = match topic.limited? {
            Limited::MaxRunning => return Some(LimitReached::MaxRunning),
            Limited::TenantMaxRunning { .. } => return Some(LimitReached::TenantMaxRunning),
            Limited::Until(until) => until,
        };
        let budget = self.said.and_then(|said| self.used_up(said)).filter(|budget| budget.until() == Some(limited));
        Some(budget.unwrap_or(LimitReached::Rate { until: limited }))
    }

    /// The next step: which topics go on is known now.
    pub(super) fn forget_wakes(&mut self) {
        for topic in &mut self.topics {
            if let Some(Limited::TenantMaxRunning { woken }) = &mut topic.limited {
                *woken = false;
            }
        }
    }

    /// Topics whose jobs a claim may take, as far as it is known; and those that it need not try.
    pub(super) fn ready(&self) -> (Vec<usize>, Vec<usize>) {
        let places = 0..self.topics.len();
        let (limited, going): (Vec<_>, Vec<_>) = places.partition(|of| self.topics[*of].limited.is_some());
        let ready = |of: &usize| !self.topics[*of].paused && !self.topics[*of].line.is_empty();
        (going.into_iter().filter(ready).collect(), limited)
    }

    /// Whether topics wait until a job ends though more may run, and no other topic is about to be claimed from.
    pub(super) fn waits_in_vain(&self) -> bool {
        let waits = |topic: &Topic| {
            matches!(topic.limited, Some(Limited::TenantMaxRunning { .. })) && !topic.line.is_empty() && !topic.paused
        };
        self.said == Some(self.limits)
            && self.limits.max_running.is_some()
            && self.free() > 0
            && self.topics.iter().any(waits)
            && self.ready().0.is_empty()
            && !self.topics.iter().any(|topic| topic.untried)
    }
}
