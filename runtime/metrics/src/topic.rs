//! What this process counts for one topic.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::exposition::Measured;
use super::histogram::{Histogram, Scale};
use gristmill_core::outcome::{OutcomeKind, Reason, Settled, Verdict};
use strum::VariantArray;

/// One attempt that has ended, as far as it is counted.
#[derive(Debug)]
pub struct Attempt {
    pub outcome: OutcomeKind,
    pub end: End,
    /// From due to start; `None` unless this was the job's first delivery.
    pub waited: Option<Duration>,
    /// `None` if no guest ran, or if its usage is not known.
    pub usage: Option<Usage>,
    /// From due to the end of the job, if this was its end.
    pub latency: Option<Duration>,
}

/// What a guest used.
#[derive(Debug)]
pub struct Usage {
    pub duration: Duration,
    pub fuel: u64,
    pub memory_peak_bytes: u64,
}

/// What followed for the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Acked,
    Retried,
    Snoozed,
    Released,
    Expired,
    Cancelled,
    Dead(Reason),
    /// The attempt came too late and changed nothing.
    LeaseLost,
    /// The store refused, or did not answer.
    Unsettled,
}

impl End {
    /// What the verdict came to. `settled`: `None` if the store refused, or did not answer.
    pub const fn of(verdict: &Verdict, settled: Option<Settled>) -> Self {
        match (settled, verdict) {
            (None, _) => Self::Unsettled,
            (Some(Settled::LeaseLost), _) => Self::LeaseLost,
            (Some(Settled::Cancelled), _) => Self::Cancelled,
            (Some(Settled::Done), Verdict::Ack(_)) => Self::Acked,
            (Some(Settled::Done), Verdict::Retry { .. }) => Self::Retried,
            (Some(Settled::Done), Verdict::Snooze(_)) => Self::Snoozed,
            (Some(Settled::Done), Verdict::Release(_)) => Self::Released,
            (Some(Settled::Done), Verdict::Bury(failure)) => Self::Dead(failure.reason),
            (Some(Settled::Done), Verdict::Expire) => Self::Expired,
        }
    }

    const ALL: [Self; 17] = [
        Self::Acked,
        Self::Retried,
        Self::Snoozed,
        Self::Released,
        Self::Expired,
        Self::Cancelled,
        Self::LeaseLost,
        Self::Unsettled,
        Self::Dead(Reason::Failed),
        Self::Dead(Reason::Rejected),
        Self::Dead(Reason::FuelExhausted),
        Self::Dead(Reason::MemoryExceeded),
        Self::Dead(Reason::Timeout),
        Self::Dead(Reason::Trap),
        Self::Dead(Reason::Limit),
        Self::Dead(Reason::LeaseExpired),
        Self::Dead(Reason::WorkerDied),
    ];

    /// The labels `event`, which is the store's word where it has one, and `reason`.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Acked => ("acked", ""),
            Self::Retried => ("retried", ""),
            Self::Snoozed => ("snoozed", ""),
            Self::Released => ("released", ""),
            Self::Expired => ("expired", ""),
            Self::Cancelled => ("cancelled", ""),
            Self::Dead(reason) => ("dead", reason.as_str()),
            Self::LeaseLost => ("lease-lost", ""),
            Self::Unsettled => ("unsettled", ""),
        }
    }
}

/// A topic's numbers. The code that works for the topic keeps it, so that counting looks nothing up.
#[derive(Debug)]
pub struct TopicMeter {
    tenant: Box<str>,
    topic: Box<str>,
    outcomes: [AtomicU64; OutcomeKind::VARIANTS.len()],
    ends: [AtomicU64; End::ALL.len()],
    pushed: AtomicU64,
    pub(super) wait: Histogram,
    pub(super) duration: Histogram,
    pub(super) latency: Histogram,
    pub(super) fuel: Histogram,
    pub(super) memory: Histogram,
}

impl TopicMeter {
    pub(super) fn new(tenant: &str, topic: &str) -> Self {
        Self {
            tenant: tenant.into(),
            topic: topic.into(),
            outcomes: Default::default(),
            ends: Default::default(),
            pushed: AtomicU64::new(0),
            wait: Histogram::new(&Scale::JOB_TIMES),
            duration: Histogram::new(&Scale::JOB_TIMES),
            latency: Histogram::new(&Scale::JOB_TIMES),
            fuel: Histogram::new(&Scale::FUEL),
            memory: Histogram::new(&Scale::BYTES),
        }
    }

    /// The labels `tenant` and `topic` of its series.
    pub fn names(&self) -> (&str, &str) {
        (&self.tenant, &self.topic)
    }

    /// Counts an attempt by a dozen relaxed additions: it never waits or allocates.
    pub fn attempt(&self, attempt: &Attempt) {
        add(self.outcomes.get(attempt.outcome as usize));
        self.ended(attempt.end);
        if let Some(waited) = attempt.waited {
            self.wait.observe_time(waited);
        }
        if let Some(latency) = attempt.latency {
            self.latency.observe_time(latency);
        }
        if let Some(Usage { duration, fuel, memory_peak_bytes }) = attempt.usage {
            self.duration.observe_time(duration);
            self.fuel.observe(fuel);
            self.memory.observe(memory_peak_bytes);
        }
    }

    /// Counts the end of an attempt that another process made, about which nothing else is known.
    pub fn ended(&self, end: End) {
        add(End::ALL.iter().position(|known| *known == end).and_then(|end| self.ends.get(end)));
    }

    /// Counts jobs that were stored through this process's HTTP server.
    pub fn pushed(&self, jobs: u64) {
        self.pushed.fetch_add(jobs, Ordering::Relaxed);
    }

    pub(super) fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        OutcomeKind::VARIANTS.iter().map(Into::into).zip(self.outcomes.iter().map(read))
    }

    /// The labels `event` and `reason`, with their numbers.
    pub(super) fn events(&self) -> impl Iterator<Item = ((&'static str, &'static str), u64)> {
        let ends = End::ALL.into_iter().map(End::words).zip(self.ends.iter().map(read));
        ends.chain([(("pushed", ""), read(&self.pushed))])
    }
}

impl Measured for TopicMeter {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        vec![("tenant", &self.tenant), ("topic", &self.topic)]
    }
}

fn add(counter: Option<&AtomicU64>) {
    if let Some(counter) = counter {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_its_own_labels_and_counter() {
        let meter = TopicMeter::new("t", "a");
        End::ALL.into_iter().for_each(|end| meter.ended(end));
        let mut words: Vec<_> = meter.events().filter(|((event, _), _)| *event != "pushed").collect();
        assert!(words.iter().all(|(_, count)| *count == 1), "{words:?}");
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 8 + Reason::ALL.len());
        assert!(words.contains(&(("dead", "trap"), 1)));
    }

    #[test]
    fn an_attempt_that_did_not_run_is_in_no_histogram() {
        let meter = TopicMeter::new("t", "a");
        let attempt =
            Attempt { outcome: OutcomeKind::Expired, end: End::Expired, waited: None, usage: None, latency: None };
        meter.attempt(&attempt);
        assert!(meter.outcomes().any(|outcome| outcome == ("expired", 1)));
        for histogram in [&meter.wait, &meter.duration, &meter.latency, &meter.fuel, &meter.memory] {
            assert_eq!(histogram.count(), 0);
        }
    }
}
