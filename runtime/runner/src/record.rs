//! What is written down about an attempt: the line in the log, and the record for whoever measures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::handlers::Handler;
use gristmill_core::job::{Claim, JobId, TopicId, WorkerId};
use gristmill_core::outcome::{Failure, Outcome, Reason, Verdict};
use gristmill_core::time::{Timestamp, millis};
use gristmill_metrics::{Attempt, End, Event, EventKind, Usage};
use gristmill_sandbox::Version;
use gristmill_store::Settled;

/// The line of an attempt that begins.
pub(super) fn log_start(claim: &Claim, version: Version) {
    let (job, attempt) = (&claim.lease.job, claim.attempt);
    let (tenant, topic) = (&claim.lease.topic.tenant, &claim.lease.topic.topic);
    let waited = claim.claimed_at.since(claim.job.due_at);
    tracing::debug!(target: "gristmill::runner", %tenant, %topic, %job, attempt, %version, ?waited, "started");
}

/// The same for who listens.
pub(super) fn start_event(claim: &Claim, handler: &Handler) -> Event {
    Event {
        attempt: Some(claim.attempt),
        delivery: Some(claim.lease.delivery),
        worker: Some(claim.lease.worker.as_str().to_owned()),
        handler: Some(handler.name.clone()),
        version: Some(handler.version().to_string()),
        ..Event::of_job(EventKind::JobStarted, &claim.lease.topic, &claim.lease.job)
    }
}

/// Told of every attempt that the store has settled as its verdict said. Must not block.
pub type Observer = Arc<dyn Fn(&AttemptRecord) + Send + Sync>;

/// One attempt, settled.
#[derive(Debug, Clone)]
pub struct AttemptRecord {
    pub job: JobId,
    pub topic: TopicId,
    pub attempt: u32,
    /// How often the job had been claimed, this time included.
    pub delivery: u64,
    /// None: this runner made the attempt. Else it took it back from that worker, which was lost: how it ran is not known.
    pub taken_from: Option<WorkerId>,
    /// None: it never got as far as a handler.
    pub version: Option<Version>,
    pub enqueued_at: Timestamp,
    /// When the job first became due.
    pub due_at: Timestamp,
    pub claimed_at: Timestamp,
    /// When the attempt was taken up, by this process's monotonic clock.
    pub started: Instant,
    /// From when the claim was here until the attempt was taken up.
    pub in_hand: Duration,
    /// Of the attempt, by the same clock.
    pub duration: Duration,
    /// From when the job was due until it was claimed, by the store's clock.
    pub waited: Duration,
    pub fuel: u64,
    pub memory_peak: u64,
    pub body_bytes: usize,
    pub result_bytes: usize,
    pub follow_ups: usize,
    /// Of their bodies.
    pub follow_up_bytes: usize,
    /// How it ended, in a word: `complete`, `trapped`, … See [`Outcome::name`](gristmill_core::outcome::Outcome::name).
    pub outcome: &'static str,
    /// What follows for the job, in a word: `ack`, `retry`, …
    pub verdict: &'static str,
    /// What is known against it.
    pub failure: Option<Failure>,
    /// The failure in a word.
    pub reason: Option<Reason>,
    /// When it is tried again, if it is.
    pub again_in: Option<Duration>,
    /// What the store said to it; none: it refused, or did not answer.
    pub settled: Option<Settled>,
}

impl AttemptRecord {
    /// Of an attempt at which nothing was seen to be done.
    pub(super) fn of(claim: &Claim, outcome: &Outcome, started: Instant) -> Self {
        Self {
            job: claim.job.spec.id.clone(),
            topic: claim.job.spec.topic.clone(),
            attempt: claim.attempt,
            delivery: claim.lease.delivery,
            taken_from: None,
            version: None,
            enqueued_at: claim.job.enqueued_at,
            due_at: claim.job.due_at,
            claimed_at: claim.claimed_at,
            started,
            in_hand: Duration::ZERO,
            duration: Duration::ZERO,
            waited: claim.claimed_at.since(claim.job.due_at),
            fuel: 0,
            memory_peak: 0,
            body_bytes: claim.job.spec.body.data.len(),
            result_bytes: 0,
            follow_ups: 0,
            follow_up_bytes: 0,
            outcome: outcome.name(),
            verdict: "",
            failure: None,
            reason: None,
            again_in: None,
            settled: None,
        }
    }

    /// Copies what the log needs out of a verdict that the store is about to swallow.
    pub(super) fn take_verdict(&mut self, verdict: &Verdict) {
        self.verdict = verdict.name();
        match verdict {
            Verdict::Retry { after, failure } => {
                self.again_in = Some(*after);
                self.failure = Some(failure.clone());
            }
            Verdict::Snooze(after) | Verdict::Release(after) => self.again_in = Some(*after),
            Verdict::Bury(failure) => self.failure = Some(failure.clone()),
            Verdict::Ack(_) | Verdict::Expire => {}
        }
        self.reason = self.failure.as_ref().map(|failure| failure.reason);
    }

    /// What became of the job.
    pub(super) fn end(&self) -> End {
        match (self.settled, self.verdict) {
            (None, _) => End::Unsettled,
            (Some(Settled::LeaseLost), _) => End::LeaseLost,
            (Some(Settled::Cancelled), _) => End::Cancelled,
            (_, "ack") => End::Acked,
            (_, "retry") => End::Retried,
            (_, "snooze") => End::Snoozed,
            (_, "release") => End::Released,
            (_, "expire") => End::Expired,
            (..) => End::Dead(self.reason.unwrap_or(Reason::Failed)),
        }
    }

    /// As it is counted. Once the store has answered.
    pub(super) fn measured(&self) -> Attempt {
        let end = self.end();
        let ours = self.taken_from.is_none();
        // A guest that was cut off, or never began, has used no fuel that we know of.
        let usage = (ours && self.fuel > 0).then_some(Usage {
            duration: self.duration,
            fuel: self.fuel,
            memory_peak_bytes: self.memory_peak,
        });
        let first = usage.is_some() && self.delivery == 1;
        let waited = self.waited + self.in_hand;
        let is_over = usage.is_some() && matches!(end, End::Acked | End::Dead(_));
        Attempt {
            outcome: self.outcome,
            end,
            waited: first.then_some(waited),
            latency: is_over.then(|| waited + self.duration),
            usage,
        }
    }

    /// What became of the job, for who listens; none if nothing did.
    pub(super) fn event(&self) -> Option<Event> {
        let ours = self.taken_from.is_none();
        let kind = EventKind::of_end(self.end())?;
        Some(Event {
            reason: self.reason.map(|reason| reason.to_string()),
            again_in_ms: self.again_in.map(millis),
            version: self.version.map(|version| version.to_string()),
            duration_ms: ours.then(|| millis(self.duration)),
            fuel: ours.then_some(self.fuel),
            memory_peak_bytes: ours.then_some(self.memory_peak),
            ..self.event_of(kind)
        })
    }

    /// That the job was taken back, and from whom.
    pub(super) fn taken_back_event(&self) -> Event {
        let worker = self.taken_from.as_ref().map(|worker| worker.as_str().to_owned());
        Event { worker, reason: Some(self.outcome.to_owned()), ..self.event_of(EventKind::JobTakenBack) }
    }

    fn event_of(&self, kind: EventKind) -> Event {
        let (attempt, delivery) = (Some(self.attempt), Some(self.delivery));
        Event { attempt, delivery, ..Event::of_job(kind, &self.topic, &self.job) }
    }

    /// Levels by what an operator must do: a dead job wants somebody, a retry is news, the rest is for who looks closely.
    pub(super) fn log(&self, settled: Settled) {
        let Self { job, attempt, duration, fuel, memory_peak: memory, follow_ups, .. } = self;
        let (tenant, topic) = (&self.topic.tenant, &self.topic.topic);
        let version = self.version.map(tracing::field::display);
        let reason = self.failure.as_ref().map(|failure| tracing::field::display(failure.reason));
        let message = self.failure.as_ref().map(|failure| failure.detail.message.as_str()).unwrap_or_default();
        let again_in = self.again_in.unwrap_or_default();
        if settled == Settled::LeaseLost {
            tracing::warn!(target: "gristmill::runner", %tenant, %topic, %job, attempt, version, "lease lost: what the attempt did was not counted");
            return;
        }
        if settled == Settled::Cancelled {
            tracing::info!(target: "gristmill::runner", %tenant, %topic, %job, attempt, version, ?duration, "cancelled");
            return;
        }
        match self.verdict {
            "ack" => {
                tracing::debug!(target: "gristmill::runner", %tenant, %topic, %job, attempt, version, ?duration, fuel, memory, follow_ups, "done");
            }
            "bury" => {
                let backtrace = self.failure.as_ref().and_then(|failure| failure.backtrace.as_deref());
                let backtrace = backtrace.map(tracing::field::display);
                tracing::warn!(target: "gristmill::runner", %tenant, %topic, %job, attempt, version, ?duration, reason, backtrace, "dead: {message}");
            }
            "retry" => {
                tracing::info!(target: "gristmill::runner", %tenant, %topic, %job, attempt, version, ?duration, reason, ?again_in, "failed: {message}");
            }
            "expire" => {
                tracing::info!(target: "gristmill::runner", %tenant, %topic, %job, "expired before it could start")
            }
            verdict => {
                tracing::debug!(target: "gristmill::runner", %tenant, %topic, %job, attempt, version, ?duration, ?again_in, "{verdict}")
            }
        }
    }
}
