//! What is written down about an attempt: its record, and what log, metrics and events make of it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::handlers::Handler;
use gristmill_core::bill::{Cost, Day};
use gristmill_core::job::{Claim, TopicId};
use gristmill_core::outcome::{Failure, OutcomeKind, Settled, Verdict};
use gristmill_core::time::{Timestamp, millis};
use gristmill_core::trace::TraceContext;
use gristmill_core::units::{COUNT, SIZE};
use gristmill_metrics::{Attempt, AttemptEnd, Event, EventKind, Usage};
use gristmill_sandbox::Version;

/// Of a message or a backtrace in a log line.
const LOGGED_BYTES_MAX: usize = 4 << 10;

/// Called with every attempt that the store has settled by its verdict. Must not block.
pub type Observer = Arc<dyn Fn(&AttemptRecord) + Send + Sync>;

/// One attempt, settled: what was claimed, how it went, what follows for the job, and what the store answered.
#[derive(Debug, Clone)]
pub struct AttemptRecord {
    /// The job, which attempt at it this was, and the worker that made it.
    pub claim: Arc<Claim>,
    /// `None`: the worker was lost and this runner took the job back; how the attempt ran is not known.
    pub run: Option<Run>,
    /// How the attempt ended.
    pub outcome: OutcomeKind,
    /// What follows for the job.
    pub verdict: Verdict,
    /// `None`: the store refused, or did not answer.
    pub settled: Option<Settled>,
}

/// How an attempt ran, by this process's monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// `None`: the handler is native, or the attempt never got as far as a handler.
    pub version: Option<Version>,
    /// When the attempt was taken up.
    pub started: Instant,
    /// A handler ran, to its end or to a limit; what was cut off, or never began, is in no histogram.
    pub ran: bool,
    /// From when the claim was here until the attempt was taken up.
    pub queued: Duration,
    /// Within the attempt, for a thread or a processor while others had them.
    pub waited: Duration,
    /// Of the attempt, without what it waited.
    pub duration: Duration,
    /// Fuel used.
    pub fuel: u64,
    /// Bytes.
    pub memory_peak: u64,
    /// HTTP requests that the handler sent.
    pub requests: u64,
    /// Jobs that the handler enqueued.
    pub follow_ups: usize,
    /// Of their bodies.
    pub follow_up_bytes: usize,
    /// What the attempt's requests and follow-up jobs carried, if attempts are traced.
    pub trace: Option<TraceContext>,
}

impl AttemptRecord {
    /// When the attempt was taken up and when it was over, in microseconds since 1970: the store's clock until the claim, and the
    /// monotonic one from then on.
    pub(super) fn times_us(&self) -> Option<(u64, u64)> {
        let run = self.run?;
        let started = micros_of(self.claim.claimed_at).saturating_add(micros(run.queued));
        Some((started, started.saturating_add(micros(run.waited + run.duration))))
    }

    /// The day of the attempt's end; of one whose worker was lost, that on which it was taken back.
    pub(super) fn day(&self) -> Day {
        let end = self.times_us().map(|(_, ended)| Timestamp::from_millis(ended / 1000));
        Day::of(end.unwrap_or(self.claim.claimed_at))
    }

    /// What the attempt cost. What it used counts in any case. The attempt itself and its body count if the store has settled it, so once for
    /// each delivery; what it brought about, if that is in the store.
    pub(super) fn cost(&self) -> Cost {
        // The server has counted it when the worker claimed it.
        if self.run.is_none() && self.claim.lease.worker.is_pull() {
            return Cost::default();
        }
        let mut cost = Cost::default();
        if let Some(run) = self.run {
            cost.run_us = micros(run.duration);
            cost.memory_kib_ms = Cost::memory(run.memory_peak, cost.run_us);
            (cost.fuel, cost.requests) = (run.fuel, run.requests);
        }
        if matches!(self.settled, Some(Settled::Done | Settled::Cancelled)) {
            (cost.attempts, cost.bytes_in) = (1, self.claim.job.spec.body.data.len() as u64);
        }
        if self.settled == Some(Settled::Done) {
            let follow_ups = self.run.map_or(0, |run| run.follow_up_bytes);
            cost.bytes_out = (self.verdict.result().map_or(0, |result| result.data.len()) + follow_ups) as u64;
        }
        cost
    }

    /// The attempt as it is counted.
    pub(super) fn measured(&self) -> Attempt<'_> {
        let end = AttemptEnd::of(&self.verdict, self.settled);
        let ran = self.run.filter(|run| run.ran);
        let waited = |run: Run| self.claim.claimed_at.since(self.claim.job.due_at) + run.queued;
        let first = ran.filter(|_| self.claim.lease.delivery == 1);
        let last = ran.filter(|_| matches!(end, AttemptEnd::Acked | AttemptEnd::Dead));
        Attempt {
            outcome: self.outcome,
            verdict: &self.verdict,
            settled: self.settled,
            ran: ran.map(|run| (run.version.map(|Version(digest)| digest), run.started)),
            waited: first.map(waited),
            latency: last.map(|run| waited(run) + run.waited + run.duration),
            usage: ran.map(|Run { duration, fuel, memory_peak, .. }| Usage {
                duration,
                fuel,
                memory_peak_bytes: memory_peak,
            }),
        }
    }

    /// What became of the job, for subscribers; `None` if nothing did.
    pub(super) fn event(&self) -> Option<Event> {
        let kind = EventKind::of_end(AttemptEnd::of(&self.verdict, self.settled))?;
        Some(Event {
            reason: self.verdict.failure().map(|failure| failure.reason.to_string()),
            again_in_ms: self.verdict.again_in().map(millis),
            version: self.run.and_then(|run| run.version).map(|version| version.to_string()),
            duration_ms: self.run.map(|run| millis(run.duration)),
            fuel: self.run.map(|run| run.fuel),
            memory_peak_bytes: self.run.map(|run| run.memory_peak),
            ..event_of(kind, &self.claim)
        })
    }

    /// That the job was taken back, and from which worker.
    pub(super) fn taken_back_event(&self) -> Event {
        let worker = Some(self.claim.lease.worker.to_string());
        Event { worker, reason: Some(self.outcome.to_string()), ..event_of(EventKind::JobTakenBack, &self.claim) }
    }

    /// Writes the log's line. Levels by what an operator must do: look into what failed, ignore the rest.
    pub(super) fn log(&self) {
        let (job, attempt) = (&self.claim.lease.job, self.claim.attempt);
        let TopicId { tenant, topic } = &self.claim.lease.topic;
        let Some((run, settled)) = self.run.zip(self.settled) else { return };
        let Run { version, duration, fuel, memory_peak: memory, follow_ups, trace, .. } = run;
        let trace_id = trace.map(|trace| tracing::field::display(trace.trace_id()));
        let version = version.map(tracing::field::display);
        let again_in = self.verdict.again_in().unwrap_or_default();
        match (settled, &self.verdict) {
            (Settled::LeaseLost, _) => {
                tracing::warn!(target: "gristmill::runner", %tenant, %topic, %job, attempt, version, trace_id, "lease lost: what the attempt did was not counted");
            }
            (Settled::Cancelled, _) => {
                tracing::info!(target: "gristmill::runner", %tenant, %topic, %job, attempt, version, trace_id, ?duration, "cancelled");
            }
            (Settled::Done, Verdict::Ack(_)) => {
                tracing::debug!(target: "gristmill::runner", %tenant, %topic, %job, attempt, version, trace_id, ?duration, fuel = %COUNT.about(fuel), memory = %SIZE.about(memory), follow_ups, "done");
            }
            (Settled::Done, Verdict::Bury(Failure { reason, detail, backtrace, .. })) => {
                let backtrace = backtrace.as_deref().map(cut).map(tracing::field::display);
                tracing::warn!(target: "gristmill::runner", %tenant, %topic, %job, attempt, version, trace_id, ?duration, %reason, backtrace, "dead: {}", cut(&detail.message));
            }
            (Settled::Done, Verdict::Retry { failure: Failure { reason, detail, .. }, .. }) => {
                tracing::warn!(target: "gristmill::runner", %tenant, %topic, %job, attempt, version, trace_id, ?duration, %reason, ?again_in, "failed: {}", cut(&detail.message));
            }
            (Settled::Done, Verdict::Expire) => {
                tracing::info!(target: "gristmill::runner", %tenant, %topic, %job, trace_id, "expired before it could start");
            }
            (Settled::Done, verdict @ (Verdict::Snooze(_) | Verdict::Release(_))) => {
                tracing::debug!(target: "gristmill::runner", %tenant, %topic, %job, attempt, version, trace_id, ?duration, ?again_in, "{verdict}");
            }
        }
    }
}

/// A text of the guest, for the log: as long as its output limit allows it is kept with the job.
pub(super) fn cut(text: &str) -> Cow<'_, str> {
    match text.get(..text.floor_char_boundary(LOGGED_BYTES_MAX)) {
        Some(start) if start.len() < text.len() => format!("{start}... ({} bytes)", text.len()).into(),
        _ => text.into(),
    }
}

/// Microseconds since 1970.
pub(super) fn micros_of(time: Timestamp) -> u64 {
    time.as_millis().saturating_mul(1000)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn event_of(kind: EventKind, claim: &Claim) -> Event {
    let (attempt, delivery) = (Some(claim.attempt), Some(claim.lease.delivery));
    Event { attempt, delivery, ..Event::of_job(kind, &claim.lease.topic, &claim.lease.job) }
}

/// Logs that an attempt begins.
pub(super) fn log_start(claim: &Claim, handler: &Handler) {
    let version = &handler.code;
    let (job, attempt) = (&claim.lease.job, claim.attempt);
    let TopicId { tenant, topic } = &claim.lease.topic;
    let waited = claim.claimed_at.since(claim.job.due_at);
    tracing::debug!(target: "gristmill::runner", %tenant, %topic, %job, attempt, %version, ?waited, "started");
}

/// The same for subscribers.
pub(super) fn start_event(claim: &Claim, handler: &Handler) -> Event {
    Event {
        worker: Some(claim.lease.worker.to_string()),
        handler: Some(handler.name.clone()),
        version: handler.version().map(|version| version.to_string()),
        ..event_of(EventKind::JobStarted, claim)
    }
}
