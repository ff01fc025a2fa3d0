//! Turns the outcome of an attempt into a settlement. Callers: the runner, the reaper, and in the server the claim service
//! and the routes of pull workers and of lmstfy.

use std::time::Duration;

use gristmill_core::job::{Claim, NewJob};
use gristmill_core::outcome::Outcome;
use gristmill_core::retry::{self, Tried};
use gristmill_core::topic::{ENDED_RETENTION, Topic};
use gristmill_store::Settlement;

/// Decides what becomes of the job, by the policy of its topic. Without the topic (its section or its component is gone)
/// the default policy holds, and no result is kept beyond what the job itself asks for.
///
/// `follow_ups` are pushed with the settlement if the verdict is an ack or a snooze; the store drops them otherwise.
///
/// Only the rule for traps reads [`Claim::previous`]. A pull worker reports no trap, so its lease need not carry it.
pub fn decide(claim: &Claim, topic: Option<&Topic>, outcome: Outcome, follow_ups: Vec<NewJob>) -> Settlement {
    let mut policy = topic.map(|topic| topic.retry).unwrap_or_default();
    if claim.lease.worker.is_pull() && matches!(outcome, Outcome::LeaseExpired) {
        // The worker chose the lease itself, as the time after which another one gets the job.
        policy.backoff.base = Duration::ZERO;
    }
    let retention = topic.map_or(Duration::ZERO, |topic| topic.result_retention);
    let tried =
        Tried { attempt: claim.attempt, max_attempts: claim.job.spec.options.max_attempts, previous: claim.previous };
    let verdict = retry::decide(outcome, tried, &policy, fastrand::f64());
    let remember = topic.map_or(ENDED_RETENTION, |topic| topic.ended_retention);
    Settlement { follow_ups, remember, ..Settlement::of(claim, verdict, retention) }
}
