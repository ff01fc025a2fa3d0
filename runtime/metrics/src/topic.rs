//! What this process counts for one topic.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::exposition::Measured;
use super::histogram::{Histogram, Scale};
use super::versions::{RecentByVersion, Versions, slot};
use gristmill_core::outcome::{OutcomeKind, Reason, Settled, Verdict};
use strum::{IntoStaticStr, VariantArray};

/// One attempt that has ended, as far as it is counted.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// How it ended.
    pub outcome: OutcomeKind,
    /// What follows for the job.
    pub verdict: &'a Verdict,
    /// `None` if the store refused, or did not answer.
    pub settled: Option<Settled>,
    /// Which version of the component ran, and since when. `None` if no handler ran.
    pub ran: Option<(Option<[u8; 32]>, Instant)>,
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
    /// From its begin to its end.
    pub duration: Duration,
    /// Fuel used.
    pub fuel: u64,
    /// The most memory that the guest had.
    pub memory_peak_bytes: u64,
}

/// What followed for the job. In kebab case it is the label `event`, which is the store's word where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum AttemptEnd {
    /// The job is done.
    Acked,
    /// Another attempt follows.
    Retried,
    /// The handler asked to run again later.
    Snoozed,
    /// Given back as if it had never been claimed.
    Released,
    /// The time to live ended before an attempt began.
    Expired,
    /// The job was cancelled.
    Cancelled,
    /// The job is given up.
    Dead,
    /// The attempt came too late and changed nothing.
    LeaseLost,
    /// The store refused, or did not answer.
    Unsettled,
}

impl AttemptEnd {
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
            (Some(Settled::Done), Verdict::Bury(_)) => Self::Dead,
            (Some(Settled::Done), Verdict::Expire) => Self::Expired,
        }
    }
}

/// A topic's numbers. The code that works for the topic keeps it, so that counting looks nothing up.
#[derive(Debug)]
pub struct TopicMeter {
    tenant: Box<str>,
    topic: Box<str>,
    outcomes: [AtomicU64; OutcomeKind::VARIANTS.len()],
    ends: [AtomicU64; AttemptEnd::VARIANTS.len()],
    /// Of [`AttemptEnd::Dead`], by reason.
    dead: [AtomicU64; Reason::VARIANTS.len()],
    pushed: AtomicU64,
    pub(super) wait: Histogram,
    pub(super) duration: Histogram,
    pub(super) latency: Histogram,
    pub(super) fuel: Histogram,
    pub(super) memory: Histogram,
    since: Instant,
    versions: Versions,
}

impl TopicMeter {
    pub(super) fn new(tenant: &str, topic: &str) -> Self {
        Self {
            tenant: tenant.into(),
            topic: topic.into(),
            outcomes: Default::default(),
            ends: Default::default(),
            dead: Default::default(),
            pushed: AtomicU64::new(0),
            wait: Histogram::new(&Scale::JOB_TIMES),
            duration: Histogram::new(&Scale::JOB_TIMES),
            latency: Histogram::new(&Scale::JOB_TIMES),
            fuel: Histogram::new(&Scale::FUEL),
            memory: Histogram::new(&Scale::BYTES),
            since: Instant::now(),
            versions: Versions::default(),
        }
    }

    /// The labels `tenant` and `topic` of its series.
    pub fn names(&self) -> (&str, &str) {
        (&self.tenant, &self.topic)
    }

    /// Counts an attempt by a dozen relaxed additions, and one below a lock: it allocates nothing.
    pub fn attempt(&self, attempt: &Attempt<'_>) {
        add(self.outcomes.get(attempt.outcome as usize));
        let end = self.count_end(attempt.verdict, attempt.settled);
        if let Some((version, began)) = attempt.ran {
            self.count_recent(end, version, began);
        }
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
    pub fn ended(&self, verdict: &Verdict, settled: Option<Settled>) {
        let end = self.count_end(verdict, settled);
        self.count_recent(end, None, Instant::now());
    }

    fn count_end(&self, verdict: &Verdict, settled: Option<Settled>) -> AttemptEnd {
        let end = AttemptEnd::of(verdict, settled);
        add(match verdict {
            Verdict::Bury(failure) if end == AttemptEnd::Dead => self.dead.get(failure.reason as usize),
            _ => self.ends.get(end as usize),
        });
        end
    }

    fn count_recent(&self, end: AttemptEnd, version: Option<[u8; 32]>, began: Instant) {
        let failed = matches!(end, AttemptEnd::Retried | AttemptEnd::Dead);
        if failed || matches!(end, AttemptEnd::Acked | AttemptEnd::Snoozed) {
            self.versions.add(version, began, slot(self.since, Instant::now()), failed);
        }
    }

    /// What the attempts of the last minute came to, by the version of the handler. `None`: none has ended yet.
    pub fn recent(&self) -> Option<RecentByVersion> {
        self.versions.read(slot(self.since, Instant::now()))
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
        let ends = AttemptEnd::VARIANTS.iter().zip(&self.ends).filter(|(end, _)| **end != AttemptEnd::Dead);
        let ends = ends.map(|(end, count)| ((end.into(), ""), read(count)));
        let dead = Reason::ALL.iter().zip(&self.dead).map(|(reason, count)| (("dead", reason.as_str()), read(count)));
        ends.chain(dead).chain([(("pushed", ""), read(&self.pushed))])
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
    use gristmill_core::outcome::{Failure, FailureDetail};

    #[test]
    fn every_end_has_its_own_labels_and_counter() {
        let meter = TopicMeter::new("t", "a");
        let failure = |reason| Failure::new(reason, FailureDetail::default());
        let (zero, done) = (Duration::ZERO, Some(Settled::Done));
        for verdict in [Verdict::Ack(None), Verdict::Snooze(zero), Verdict::Release(zero), Verdict::Expire] {
            meter.ended(&verdict, done);
        }
        meter.ended(&Verdict::Retry { after: zero, failure: failure(Reason::Trap) }, done);
        Reason::ALL.iter().for_each(|reason| meter.ended(&Verdict::Bury(failure(*reason)), done));
        // What the store did not carry out has no reason.
        let buried = Verdict::Bury(failure(Reason::Trap));
        [Some(Settled::Cancelled), Some(Settled::LeaseLost), None].into_iter().for_each(|no| meter.ended(&buried, no));
        let mut words: Vec<_> = meter.events().filter(|((event, _), _)| *event != "pushed").collect();
        assert!(words.iter().all(|(_, count)| *count == 1), "{words:?}");
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 8 + Reason::ALL.len());
        assert!(words.contains(&(("dead", "trap"), 1)) && words.contains(&(("lease-lost", ""), 1)));
    }

    #[test]
    fn an_attempt_that_did_not_run_is_in_no_histogram() {
        let meter = TopicMeter::new("t", "a");
        meter.attempt(&Attempt {
            outcome: OutcomeKind::Expired,
            verdict: &Verdict::Expire,
            settled: Some(Settled::Done),
            ran: None,
            waited: None,
            usage: None,
            latency: None,
        });
        assert!(meter.outcomes().any(|outcome| outcome == ("expired", 1)));
        for histogram in [&meter.wait, &meter.duration, &meter.latency, &meter.fuel, &meter.memory] {
            assert_eq!(histogram.count(), 0);
        }
    }
}
