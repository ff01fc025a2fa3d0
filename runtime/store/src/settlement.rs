//! [`Settlement`]: the end of one attempt, as a store is asked to carry it out.

use std::time::Duration;

use gristmill_core::job::{Claim, Lease, NewJob, Unique};
use gristmill_core::outcome::{StateChange, Verdict};
use gristmill_core::topic::ENDED_RETENTION;

/// What the end of an attempt does to the state of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateWrite {
    /// The job's key. Not empty.
    pub key: String,
    /// The state from then on.
    pub change: StateChange,
    /// How long it is kept, from then on.
    pub ttl: Duration,
}

/// The end of one attempt.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// The claim that ends.
    pub lease: Lease,
    /// What follows for the job.
    pub verdict: Verdict,
    /// Attempts made at the job, this one included; kept with the result.
    pub attempts: u32,
    /// Stored in the same step. Same tenant as the lease. Only with Ack and Snooze.
    pub follow_ups: Vec<NewJob>,
    /// Written in the same step. Only with Ack.
    pub state: Option<StateWrite>,
    /// Keep what became of the job for this long once it is done or dead; zero: not at all.
    pub keep_result: Duration,
    /// Remember for this long how the job ended, if it is done, expired or cancelled by it; zero: not at all. See [`Query::ended`](crate::Query::ended).
    pub remember: Duration,
    /// The job's unique value, if the end of the job sets it free.
    pub unique: Option<String>,
    /// The job has a key, or it is not known whether it has one: the end of the job lets the next one of its key start.
    pub is_keyed: bool,
    /// What the attempt used of its tenant's [budget](gristmill_core::topic::TenantFleetLimits::fuel_per_hour); 0 if the tenant has none. It counts
    /// if the lease is not lost.
    pub fuel: u64,
    /// A client waits for the end of this job: notify it.
    pub notify: bool,
    /// Settle only if the lease has run out, or the worker is dead by `dead_after`. For reap.
    pub only_if_overdue: Option<Duration>,
}

impl Settlement {
    /// A settlement with a verdict and nothing else, for a lease whose job is not known. It says one attempt, keeps no result
    /// and holds on to no unique value; where the claim is known, use [`Settlement::of`].
    pub fn new(lease: Lease, verdict: Verdict) -> Self {
        Self {
            lease,
            verdict,
            attempts: 1,
            follow_ups: Vec::new(),
            state: None,
            keep_result: Duration::ZERO,
            remember: ENDED_RETENTION,
            unique: None,
            is_keyed: true,
            fuel: 0,
            notify: false,
            only_if_overdue: None,
        }
    }

    /// The follow-ups that count: they become visible with the step that ends or interrupts an attempt that succeeded, or
    /// not at all.
    pub(crate) fn visible_follow_ups(&self) -> &[NewJob] {
        match self.verdict {
            Verdict::Ack(_) | Verdict::Snooze(_) => &self.follow_ups,
            _ => &[],
        }
    }

    /// Whether a follow-up job gets the id of the job itself, so that all links of this have to be done with in the same step.
    pub(crate) fn reuses_id(&self) -> bool {
        self.visible_follow_ups().iter().any(|job| job.spec.id == self.lease.job)
    }

    /// Bytes of what the attempt brought about: its result, and the bodies of the follow-ups that count.
    pub(crate) fn bytes_out(&self) -> usize {
        let result = self.verdict.result().map_or(0, |payload| payload.data.len());
        result + self.visible_follow_ups().iter().map(|job| job.spec.body.data.len()).sum::<usize>()
    }

    /// The state that counts: it is stored with the step that ends an attempt that completed, or not at all.
    pub(crate) fn visible_state(&self) -> Option<&StateWrite> {
        self.state.as_ref().filter(|_| matches!(self.verdict, Verdict::Ack(_)))
    }

    /// How many bytes it carries, roughly: for stores that bound what they do at once.
    pub(crate) fn bytes(&self) -> usize {
        let failure = self.verdict.failure().map_or(0, |failure| {
            let context = failure.detail.context.as_ref().map_or(0, |payload| payload.data.len());
            context + failure.detail.message.len() + failure.backtrace.as_ref().map_or(0, String::len)
        });
        let state = match self.visible_state() {
            Some(StateWrite { change: StateChange::Set(value), .. }) => value.len(),
            _ => 0,
        };
        failure + state + self.bytes_out()
    }

    /// The end of a claimed attempt, with what the producer asked for. The result is kept for as long as the producer or the
    /// topic (`retention`) asks, whichever is longer. Where the retry policy decides the verdict, use `decide` of the runner,
    /// which calls this.
    pub fn of(claim: &Claim, verdict: Verdict, retention: Duration) -> Self {
        let spec = &claim.job.spec;
        Self {
            attempts: claim.attempt,
            keep_result: retention.max(spec.options.keep_result.unwrap_or_default()),
            notify: spec.options.keep_result.is_some(),
            is_keyed: spec.shared_key().is_some(),
            unique: spec.options.unique.as_ref().and_then(Unique::held_until_done).map(str::to_owned),
            ..Self::new(claim.lease.clone(), verdict)
        }
    }
}
