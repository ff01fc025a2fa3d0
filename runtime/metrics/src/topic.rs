//! What is counted of one topic, in this process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::histogram::{Histogram, Scale};
use gristmill_core::outcome::{OutcomeKind, Reason, Settled, Verdict};
use strum::VariantArray;

/// One attempt that has ended, as far as it is counted.
#[derive(Debug)]
pub struct Attempt {
    pub outcome: OutcomeKind,
    pub end: End,
    /// From due to start; none if it was not the job's first delivery, for which alone this is a wait.
    pub waited: Option<Duration>,
    /// None: no guest ran, or how it ran is not known.
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

    /// In a word, the store's where it has one, and the reason if there is one.
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

/// A topic's numbers. Whoever works for the topic holds it, so that counting looks nothing up.
#[derive(Debug)]
pub struct TopicMeter {
    tenant: Box<str>,
    topic: Box<str>,
    outcomes: [AtomicU64; OutcomeKind::VARIANTS.len()],
    ends: [AtomicU64; End::ALL.len()],
    pushed: AtomicU64,
    wait: Histogram,
    duration: Histogram,
    latency: Histogram,
    fuel: Histogram,
    memory: Histogram,
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

    /// Whose series: the labels `tenant` and `topic`.
    pub fn labels(&self) -> (&str, &str) {
        (&self.tenant, &self.topic)
    }

    /// Waits for nothing, allocates nothing: a dozen relaxed additions.
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

    /// Of an attempt about which nothing else is known: another process made it.
    pub fn ended(&self, end: End) {
        add(End::ALL.iter().position(|known| *known == end).and_then(|end| self.ends.get(end)));
    }

    /// So many jobs were stored through this process's door.
    pub fn pushed(&self, jobs: u64) {
        self.pushed.fetch_add(jobs, Ordering::Relaxed);
    }

    pub(super) fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        OutcomeKind::VARIANTS.iter().map(Into::into).zip(self.outcomes.iter().map(read))
    }

    /// In words, with their numbers.
    pub(super) fn ends(&self) -> impl Iterator<Item = ((&'static str, &'static str), u64)> {
        End::ALL.into_iter().map(End::words).zip(self.ends.iter().map(read))
    }

    pub(super) fn pushed_in_all(&self) -> u64 {
        read(&self.pushed)
    }

    pub(super) fn wait(&self) -> &Histogram {
        &self.wait
    }

    pub(super) fn duration(&self) -> &Histogram {
        &self.duration
    }

    pub(super) fn latency(&self) -> &Histogram {
        &self.latency
    }

    pub(super) fn fuel(&self) -> &Histogram {
        &self.fuel
    }

    pub(super) fn memory(&self) -> &Histogram {
        &self.memory
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
    fn every_end_has_its_own_words_and_counter() {
        let meter = TopicMeter::new("t", "a");
        End::ALL.into_iter().for_each(|end| meter.ended(end));
        let mut words: Vec<_> = meter.ends().collect();
        assert!(words.iter().all(|(_, count)| *count == 1), "{words:?}");
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 8 + Reason::ALL.len());
        assert!(words.contains(&(("dead", "trap"), 1)));
    }

    #[test]
    fn what_did_not_run_is_in_no_histogram() {
        let meter = TopicMeter::new("t", "a");
        let attempt =
            Attempt { outcome: OutcomeKind::Expired, end: End::Expired, waited: None, usage: None, latency: None };
        meter.attempt(&attempt);
        assert!(meter.outcomes().any(|outcome| outcome == ("expired", 1)));
        for histogram in [meter.wait(), meter.duration(), meter.latency(), meter.fuel(), meter.memory()] {
            assert_eq!(histogram.count(), 0);
        }
    }
}
