//! How an attempt ended ([`Outcome`]), and what follows from it for the job ([`Verdict`]).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::job::Payload;

/// How an attempt ended. A failing job is a value, never an `Err`: `Err` only means that a store did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The handler finished; the payload, if any, is the job's result.
    Complete(Option<Payload>),
    /// The handler asks to be run again later; neither finished nor failed.
    Snooze(Duration),
    /// The handler failed and says that another try is worth it; `after` overrides the backoff.
    Retry { detail: FailureDetail, after: Option<Duration> },
    /// The handler failed for good.
    Reject(FailureDetail),
    /// The attempt used up its fuel.
    OutOfFuel { limit: u64 },
    /// The guest was denied memory and then trapped. Bytes.
    MemoryExceeded { limit: u64, peak: u64 },
    /// The attempt ran past its wall-clock deadline.
    TimedOut { limit: Duration },
    /// Panic, unreachable, out of bounds, stack overflow, exit.
    Trapped { message: String, backtrace: String },
    /// An output or a host call went over a limit.
    LimitExceeded { limit: LimitName, allowed: u64 },
    /// The job's time to live had run out before the attempt began.
    Expired,
    /// Found by reap: the lease ran out with nothing heard.
    LeaseExpired,
    /// Found by reap: the worker's heartbeat stopped.
    WorkerDied,
    /// Nothing is known against the job: the host could not run it.
    NotRun(NotRun),
}

impl Outcome {
    /// The handler returned normally: however the job fares, it is the handler that says so.
    pub const fn is_decided(&self) -> bool {
        matches!(self, Self::Complete(_) | Self::Snooze(_) | Self::Retry { .. } | Self::Reject(_))
    }

    /// Every name that [`Self::name`] gives, the usual one first.
    pub const NAMES: [&str; 16] = [
        "complete",
        "retry",
        "snooze",
        "reject",
        "trapped",
        "timed-out",
        "out-of-fuel",
        "memory-exceeded",
        "limit-exceeded",
        "expired",
        "lease-expired",
        "worker-died",
        "pool-full",
        "handler-missing",
        "shutting-down",
        "host-fault",
    ];

    /// In a word, as the journal has it. The names are stable.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Complete(_) => "complete",
            Self::Snooze(_) => "snooze",
            Self::Retry { .. } => "retry",
            Self::Reject(_) => "reject",
            Self::OutOfFuel { .. } => "out-of-fuel",
            Self::MemoryExceeded { .. } => "memory-exceeded",
            Self::TimedOut { .. } => "timed-out",
            Self::Trapped { .. } => "trapped",
            Self::LimitExceeded { .. } => "limit-exceeded",
            Self::Expired => "expired",
            Self::LeaseExpired => "lease-expired",
            Self::WorkerDied => "worker-died",
            Self::NotRun(NotRun::PoolFull) => "pool-full",
            Self::NotRun(NotRun::HandlerMissing) => "handler-missing",
            Self::NotRun(NotRun::ShuttingDown) => "shutting-down",
            Self::NotRun(NotRun::HostFault(_)) => "host-fault",
        }
    }
}

/// Which of the limits of [`crate::topic::Limits`] was overrun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitName {
    Payload,
    Output,
    HostCalls,
    /// Bytes passed in one host call or returned by the handler.
    HostCallBytes,
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Payload => "payload",
            Self::Output => "output",
            Self::HostCalls => "host-calls",
            Self::HostCallBytes => "host-call-bytes",
        })
    }
}

/// Why the host could not run an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRun {
    /// Every sandbox slot is in use.
    PoolFull,
    /// The topic has no handler at the moment.
    HandlerMissing,
    /// The runner is shutting down.
    ShuttingDown,
    /// The host failed; the text says how.
    HostFault(String),
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PoolFull => f.write_str("every sandbox slot is in use"),
            Self::HandlerMissing => f.write_str("the topic has no handler at the moment"),
            Self::ShuttingDown => f.write_str("the runner is shutting down"),
            Self::HostFault(fault) => write!(f, "host fault: {fault}"),
        }
    }
}

/// What a handler says about its own failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureDetail {
    /// Stable and machine-readable, such as `upstream-timeout`.
    pub code: String,
    pub message: String,
    pub context: Option<Payload>,
}

/// Why an attempt failed, as stored, counted and shown. The names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The handler said retry until no attempts were left.
    Failed,
    Rejected,
    FuelExhausted,
    MemoryExceeded,
    Timeout,
    Trap,
    Limit,
    LeaseExpired,
    WorkerDied,
}

impl Reason {
    pub const ALL: [Self; 9] = [
        Self::Failed,
        Self::Rejected,
        Self::FuelExhausted,
        Self::MemoryExceeded,
        Self::Timeout,
        Self::Trap,
        Self::Limit,
        Self::LeaseExpired,
        Self::WorkerDied,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::FuelExhausted => "fuel-exhausted",
            Self::MemoryExceeded => "memory-exceeded",
            Self::Timeout => "timeout",
            Self::Trap => "trap",
            Self::Limit => "limit",
            Self::LeaseExpired => "lease-expired",
            Self::WorkerDied => "worker-died",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A failed attempt as it is stored with the job. Only the last one is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub reason: Reason,
    /// The handler's own words, or ours where the handler could not speak.
    pub detail: FailureDetail,
    /// The guest's call stack, innermost first, if it trapped.
    pub backtrace: Option<String>,
}

/// What follows for the job. The store carries it out in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Done. The payload is kept for the retention that the settlement names.
    Ack(Option<Payload>),
    /// Try again after this long; the attempt counts. Zero: at once.
    Retry { after: Duration, failure: Failure },
    /// Run again after this long; the attempt does not count.
    Snooze(Duration),
    /// As if it had never been claimed, after this long; zero: at once. The attempt does not count.
    Release(Duration),
    /// To the dead letters.
    Bury(Failure),
    /// Counted and gone.
    Expire,
}

impl Verdict {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ack(_) => "ack",
            Self::Retry { .. } => "retry",
            Self::Snooze(_) => "snooze",
            Self::Release(_) => "release",
            Self::Bury(_) => "bury",
            Self::Expire => "expire",
        }
    }

    /// What is known against the attempt.
    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Retry { failure, .. } | Self::Bury(failure) => Some(failure),
            Self::Ack(_) | Self::Snooze(_) | Self::Release(_) | Self::Expire => None,
        }
    }

    /// When the job is run again, if it is.
    pub const fn again_in(&self) -> Option<Duration> {
        match self {
            Self::Retry { after, .. } | Self::Snooze(after) | Self::Release(after) => Some(*after),
            Self::Ack(_) | Self::Bury(_) | Self::Expire => None,
        }
    }

    /// No further attempt will be made.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Ack(_) | Self::Bury(_) | Self::Expire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_in_the_list_of_names() {
        let detail = FailureDetail::default;
        let outcomes = [
            Outcome::Complete(None),
            Outcome::Snooze(Duration::ZERO),
            Outcome::Retry { detail: detail(), after: None },
            Outcome::Reject(detail()),
            Outcome::OutOfFuel { limit: 0 },
            Outcome::MemoryExceeded { limit: 0, peak: 0 },
            Outcome::TimedOut { limit: Duration::ZERO },
            Outcome::Trapped { message: String::new(), backtrace: String::new() },
            Outcome::LimitExceeded { limit: LimitName::Output, allowed: 0 },
            Outcome::Expired,
            Outcome::LeaseExpired,
            Outcome::WorkerDied,
            Outcome::NotRun(NotRun::PoolFull),
            Outcome::NotRun(NotRun::HandlerMissing),
            Outcome::NotRun(NotRun::ShuttingDown),
            Outcome::NotRun(NotRun::HostFault(String::new())),
        ];
        let mut named = outcomes.map(|outcome| outcome.name());
        let mut names = Outcome::NAMES;
        named.sort_unstable();
        names.sort_unstable();
        assert_eq!(named, names);
    }
}
