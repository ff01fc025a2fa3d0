//! Decides what follows from the outcome of an attempt, in one pure function. Its caller, `decide` of the runner, chooses the
//! policy: for the expired lease of a pull worker it sets the wait to zero.

use std::time::Duration;

use crate::outcome::{Failure, FailureDetail, Outcome, Reason, Verdict};
use crate::topic::{Backoff, BackoffKind, RetryPolicy};
use crate::units;

/// How long a job waits that the host could not run, so that a full pool or a faulty host is not asked in a tight loop.
const NOT_RUN_PAUSE: Duration = Duration::from_millis(100);

/// No snooze is shorter: it uses up no attempt, so without a floor a handler could spin for ever at full speed.
const SHORTEST_SNOOZE: Duration = Duration::from_millis(100);

/// What [`decide`] knows about the attempt besides its outcome.
#[derive(Debug, Clone, Copy)]
pub struct Tried {
    /// 1 on the first try.
    pub attempt: u32,
    /// The job's own maximum, if it has one.
    pub max_attempts: Option<u32>,
    /// Why the attempt before this one failed.
    pub previous: Option<Reason>,
}

/// Decides what becomes of a job. `chance` is in `0.0..1.0` and spreads the backoff.
pub fn decide(outcome: Outcome, tried: Tried, policy: &RetryPolicy, chance: f64) -> Verdict {
    let attempts_remain = tried.attempt < tried.max_attempts.unwrap_or(policy.attempts);
    let backoff = || policy.backoff.wait(tried.attempt, chance);
    match outcome {
        Outcome::Complete(result) => Verdict::Ack(result),
        Outcome::Snooze(after) => Verdict::Snooze(after.max(SHORTEST_SNOOZE)),
        Outcome::Expired => Verdict::Expire,
        // The store removes a killed job whatever the verdict is, but for an ack and an expiry.
        Outcome::ShuttingDown | Outcome::Killed => Verdict::Release(Duration::ZERO),
        Outcome::PoolFull | Outcome::HandlerMissing | Outcome::HostFault(_) => Verdict::Release(NOT_RUN_PAUSE),

        Outcome::Retry { detail, after } => {
            let failure = Failure::new(Reason::Failed, detail.with_short_code());
            retry_or_bury(attempts_remain, after.unwrap_or_else(backoff), failure)
        }
        Outcome::TimedOut { limit } => {
            let failure = ours(Reason::Timeout, format!("ran longer than {}", units::about_duration(limit)));
            retry_or_bury(attempts_remain, backoff(), failure)
        }
        // One more try: a trap may be the machine's or a dependency's fault once, twice in a row it is the handler's.
        Outcome::Trapped { message, backtrace } => {
            let mut failure = ours(Reason::Trap, message);
            failure.backtrace = Some(backtrace).filter(|text| !text.is_empty());
            retry_or_bury(attempts_remain && tried.previous != Some(Reason::Trap), backoff(), failure)
        }
        // The worker is to blame before the job is: back at once, but only as often as the attempts allow.
        Outcome::WorkerDied => retry_or_bury(
            attempts_remain,
            Duration::ZERO,
            ours(Reason::WorkerDied, "the worker's heartbeat stopped".into()),
        ),
        Outcome::LeaseExpired => {
            let text = "the lease ran out without a message from the worker";
            retry_or_bury(attempts_remain, backoff(), ours(Reason::LeaseExpired, text.into()))
        }

        Outcome::TenantFull { limit, allowed } => {
            let text = format!(
                "the tenant has as much in the store as `{limit}` in its `limits` allows, {allowed}: follow-up jobs and states of the \
                 attempt were not stored"
            );
            retry_or_bury(attempts_remain, backoff(), ours(Reason::TenantFull, text))
        }

        Outcome::Reject(detail) => Verdict::Bury(Failure::new(Reason::Rejected, detail.with_short_code())),
        Outcome::PredecessorFailed { job, ended } => {
            let text = format!(
                "it waited for job {job}, which is {ended}; it runs all the same with `after-failed = \"run\"`"
            );
            Verdict::Bury(ours(Reason::Predecessor, text))
        }
        // It would run out again: fuel is deterministic.
        Outcome::OutOfFuel { limit } => Verdict::Bury(ours(
            Reason::FuelExhausted,
            format!("used up its fuel of {}; raise `fuel` if the work is honest", units::COUNT.about(limit)),
        )),
        Outcome::MemoryExceeded { limit, peak } => Verdict::Bury(ours(
            Reason::MemoryExceeded,
            format!(
                "asked for more than its {} of memory (it had {}); raise `memory` if the work is honest",
                units::SIZE.about(limit),
                units::SIZE.about(peak)
            ),
        )),
        Outcome::LimitExceeded { limit, allowed } => {
            Verdict::Bury(ours(Reason::Limit, format!("went over {}", limit.in_words(allowed))))
        }
    }
}

fn retry_or_bury(retry: bool, after: Duration, failure: Failure) -> Verdict {
    if retry { Verdict::Retry { after, failure } } else { Verdict::Bury(failure) }
}

fn ours(reason: Reason, message: String) -> Failure {
    let detail = FailureDetail { code: reason.as_str().into(), message, context: None };
    Failure::new(reason, detail)
}

impl Backoff {
    /// The wait after the failure of `attempt` (1 is the first).
    pub fn wait(&self, attempt: u32, chance: f64) -> Duration {
        let doublings = match self.kind {
            BackoffKind::Fixed => 0,
            // 2^31 s is 68 years: more would only overflow.
            BackoffKind::Exponential => attempt.saturating_sub(1).min(31),
        };
        let full = self.base.saturating_mul(1 << doublings).min(self.max);
        full.mul_f64(1.0 - f64::from(self.jitter.min(100)) / 100.0 * chance.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Ended;
    use crate::outcome::LimitName;

    const POLICY: RetryPolicy = RetryPolicy {
        attempts: 3,
        backoff: Backoff {
            kind: BackoffKind::Exponential,
            base: Duration::from_secs(1),
            max: Duration::from_secs(10),
            jitter: 50,
        },
    };

    fn verdict(outcome: Outcome, attempt: u32, previous: Option<Reason>) -> Verdict {
        decide(outcome, Tried { attempt, max_attempts: None, previous }, &POLICY, 0.0)
    }

    fn buried_for(verdict: &Verdict) -> Option<Reason> {
        if let Verdict::Bury(failure) = verdict { Some(failure.reason) } else { None }
    }

    fn retried_after(verdict: &Verdict) -> Option<Duration> {
        if let Verdict::Retry { after, .. } = verdict { Some(*after) } else { None }
    }

    #[test]
    fn of_a_long_code_the_beginning_is_kept() {
        let detail = FailureDetail { code: "ü".repeat(1000), message: "m".into(), context: None };
        for outcome in [Outcome::Reject(detail.clone()), Outcome::Retry { detail, after: None }] {
            let (Verdict::Bury(failure) | Verdict::Retry { failure, .. }) = verdict(outcome, 1, None) else { panic!() };
            assert_eq!(failure.detail.code, "ü".repeat(128));
        }
    }

    #[test]
    fn a_retry_waits_and_ends_with_the_attempts() {
        let again = || Outcome::Retry { detail: FailureDetail::default(), after: None };
        assert_eq!(retried_after(&verdict(again(), 1, None)), Some(Duration::from_secs(1)));
        assert_eq!(retried_after(&verdict(again(), 2, None)), Some(Duration::from_secs(2)));
        assert_eq!(buried_for(&verdict(again(), 3, None)), Some(Reason::Failed));
    }

    #[test]
    fn the_guests_own_wait_beats_the_backoff() {
        let own = Outcome::Retry { detail: FailureDetail::default(), after: Some(Duration::from_secs(77)) };
        assert_eq!(retried_after(&verdict(own, 1, None)), Some(Duration::from_secs(77)));
    }

    #[test]
    fn a_jobs_own_attempts_beat_the_topics() {
        let tried = Tried { attempt: 3, max_attempts: Some(4), previous: None };
        let timeout = || Outcome::TimedOut { limit: Duration::from_secs(1) };
        assert!(retried_after(&decide(timeout(), tried, &POLICY, 0.0)).is_some());
        let once = Tried { attempt: 1, max_attempts: Some(1), previous: None };
        assert_eq!(buried_for(&decide(timeout(), once, &POLICY, 0.0)), Some(Reason::Timeout));
    }

    #[test]
    fn a_trap_gets_one_more_try_and_not_two() {
        let trap = || Outcome::Trapped { message: "unreachable".into(), backtrace: String::new() };
        assert!(retried_after(&verdict(trap(), 1, None)).is_some());
        assert!(retried_after(&verdict(trap(), 2, Some(Reason::Timeout))).is_some());
        assert_eq!(buried_for(&verdict(trap(), 2, Some(Reason::Trap))), Some(Reason::Trap));
    }

    #[test]
    fn what_would_happen_again_is_buried_at_once() {
        let cases = [
            (Outcome::Reject(FailureDetail::default()), Reason::Rejected),
            (Outcome::PredecessorFailed { job: "j".parse().unwrap(), ended: Ended::Dead }, Reason::Predecessor),
            (Outcome::OutOfFuel { limit: 1 }, Reason::FuelExhausted),
            (Outcome::MemoryExceeded { limit: 1, peak: 2 }, Reason::MemoryExceeded),
            (Outcome::LimitExceeded { limit: LimitName::Output, allowed: 1 }, Reason::Limit),
        ];
        for (outcome, reason) in cases {
            assert_eq!(buried_for(&verdict(outcome, 1, None)), Some(reason));
        }
    }

    #[test]
    fn what_the_job_is_not_to_blame_for_uses_no_attempt() {
        let stop = Outcome::ShuttingDown;
        assert_eq!(verdict(stop, 3, None), Verdict::Release(Duration::ZERO));
        let full = Outcome::PoolFull;
        assert_eq!(verdict(full, 3, None), Verdict::Release(NOT_RUN_PAUSE));
        let snooze = Outcome::Snooze(Duration::from_secs(5));
        assert_eq!(verdict(snooze, 3, None), Verdict::Snooze(Duration::from_secs(5)));
        assert_eq!(verdict(Outcome::Snooze(Duration::ZERO), 3, None), Verdict::Snooze(SHORTEST_SNOOZE));
    }

    #[test]
    fn a_dead_workers_job_is_back_at_once_until_its_attempts_are_used_up() {
        assert_eq!(retried_after(&verdict(Outcome::WorkerDied, 1, None)), Some(Duration::ZERO));
        assert_eq!(buried_for(&verdict(Outcome::WorkerDied, 3, None)), Some(Reason::WorkerDied));
    }

    #[test]
    fn backoff_doubles_to_its_maximum_and_jitter_only_shortens() {
        let backoff = POLICY.backoff;
        assert_eq!(backoff.wait(4, 0.0), Duration::from_secs(8));
        assert_eq!(backoff.wait(5, 0.0), Duration::from_secs(10));
        assert_eq!(backoff.wait(u32::MAX, 0.0), Duration::from_secs(10));
        assert_eq!(backoff.wait(4, 1.0), Duration::from_secs(4));
        let fixed = Backoff { kind: BackoffKind::Fixed, ..backoff };
        assert_eq!(fixed.wait(9, 0.0), Duration::from_secs(1));
    }
}
