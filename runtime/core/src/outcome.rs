//! The three facts about the end of an attempt: what the handler or the sandbox did ([`Outcome`]), what follows for the job
//! ([`Verdict`]), and what the store answered ([`Settled`]).

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumDiscriminants, IntoStaticStr, VariantArray};

use crate::job::{Ended, JobId, Payload};
use crate::json::json_and_stored;
use crate::units;

/// How an attempt ended. A failing job is a value, never an `Err`: `Err` only means that a store did not answer.
#[derive(Debug, Clone, PartialEq, Eq, EnumDiscriminants)]
#[strum_discriminants(
    name(OutcomeKind),
    doc = "An [`Outcome`] in a word, as the journal and the metrics have it. The names are stable.",
    derive(PartialOrd, Ord, Hash, Serialize, strum::Display, IntoStaticStr, VariantArray),
    serde(rename_all = "kebab-case"),
    strum(serialize_all = "kebab-case")
)]
#[allow(missing_docs, reason = "the docs of the variants name their fields")]
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
    /// Not run: a job that it waited for was not done.
    PredecessorFailed { job: JobId, ended: Ended },
    /// Its tenant has as much in the store as this limit allows: what the attempt would store was not stored.
    TenantFull { limit: &'static str, allowed: u64 },
    /// Found by reap: the lease ran out, and the worker had not settled.
    LeaseExpired,
    /// Found by reap: the worker's heartbeat stopped.
    WorkerDied,
    /// Not run: every sandbox slot is in use.
    PoolFull,
    /// Not run: the topic has no handler at the moment.
    HandlerMissing,
    /// Not run, or not to its end: the runner is shutting down.
    ShuttingDown,
    /// Not run, or not to its end: the job was killed.
    Killed,
    /// Not run, or not to its end: the host failed; the text says how.
    HostFault(String),
}

/// What an attempt does to the state of its job's key, if it completes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateChange {
    /// The state is these bytes from now on.
    Set(Vec<u8>),
    /// There is none any more.
    Delete,
}

impl Outcome {
    /// The handler returned normally: however the job fares, it is the handler that says so.
    pub const fn is_decided(&self) -> bool {
        matches!(self, Self::Complete(_) | Self::Snooze(_) | Self::Retry { .. } | Self::Reject(_))
    }

    /// The outcome, or that its result or failure is larger than a handler may return. Bytes.
    pub fn within(self, allowed: u64) -> Self {
        if self.output_bytes() > allowed { Self::LimitExceeded { limit: LimitName::Output, allowed } } else { self }
    }

    /// Bytes of what the handler returned.
    fn output_bytes(&self) -> u64 {
        let of_payload = |payload: &Option<Payload>| {
            payload.as_ref().map_or(0, |it| it.data.len() + it.content_type.as_ref().map_or(0, String::len))
        };
        let bytes = match self {
            Self::Complete(result) => of_payload(result),
            Self::Retry { detail, .. } | Self::Reject(detail) => {
                detail.code.len() + detail.message.len() + of_payload(&detail.context)
            }
            _ => 0,
        };
        bytes as u64
    }

    /// The outcome without its particulars.
    pub fn kind(&self) -> OutcomeKind {
        self.into()
    }
}

/// Which of the limits of [`crate::topic::Limits`] was overrun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum LimitName {
    /// Bytes of the job's body or of the result.
    Payload,
    /// Bytes that the guest printed.
    Output,
    /// Calls of the host.
    HostCalls,
    /// Bytes passed in one host call or returned by the handler.
    HostCallBytes,
}

impl LimitName {
    /// "the output limit of 1MiB".
    pub fn in_words(self, allowed: u64) -> String {
        let scale = if self == Self::HostCalls { &units::COUNT } else { &units::SIZE };
        format!("the {self} limit of {}", scale.about(allowed))
    }
}

/// What a handler says about its own failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureDetail {
    /// Stable and machine-readable, such as `upstream-timeout`. Of a longer one the first 256 bytes are stored.
    pub code: String,
    /// For people.
    pub message: String,
    /// More bytes that explain it, if the handler gave any.
    pub context: Option<Payload>,
}

/// The most bytes of a [code](FailureDetail::code): it names a kind of failure, by which jobs are grouped and counted.
pub const CODE_BYTES: usize = 256;

impl FailureDetail {
    /// With no more of the code than [`CODE_BYTES`].
    #[must_use]
    pub fn with_short_code(mut self) -> Self {
        self.code.truncate(self.code.floor_char_boundary(CODE_BYTES));
        self
    }
}

/// Why an attempt failed, as stored, counted and shown. The names are stable.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::Display,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Reason {
    /// The handler said retry until no attempts were left.
    Failed,
    /// The handler said that it never succeeds.
    Rejected,
    /// The attempt used up its fuel.
    FuelExhausted,
    /// The guest asked for more memory than it may have.
    MemoryExceeded,
    /// The attempt took longer than its timeout.
    Timeout,
    /// The guest trapped.
    Trap,
    /// Another limit of the topic was exceeded.
    Limit,
    /// The lease ended before the attempt was settled.
    LeaseExpired,
    /// The worker ended before the attempt did.
    WorkerDied,
    /// A job that it waited for was not done.
    Predecessor,
    /// The tenant may not store what the attempt would have stored.
    TenantFull,
}

impl Reason {
    /// All reasons.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The name, in kebab case.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A failed attempt as it is stored with the job. Only the last one is kept.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
pub struct Failure {
    /// The reason, for programs.
    pub reason: Reason,
    /// The handler's own words, or ours where the handler could not speak.
    #[schemars(flatten)]
    pub detail: FailureDetail,
    /// The guest's call stack, innermost first, if it trapped.
    pub backtrace: Option<String>,
    /// The version of the handler that parks the dead job: it is run again by itself once another version serves.
    #[schemars(default, skip_serializing_if = "Option::is_none")]
    pub parked_by: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Failure")]
struct JsonFailure {
    reason: Reason,
    #[serde(flatten)]
    detail: FailureDetail,
    backtrace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parked_by: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Failure")]
struct StoredFailure {
    reason: Reason,
    detail: FailureDetail,
    backtrace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parked_by: Option<String>,
}

json_and_stored!(Failure, JsonFailure, StoredFailure);

impl Failure {
    /// One without a backtrace.
    pub const fn new(reason: Reason, detail: FailureDetail) -> Self {
        Self { reason, detail, backtrace: None, parked_by: None }
    }

    /// Whether another try with the same code would end in the same way: it ran out of what it may use, or trapped.
    pub const fn is_of_the_code(&self) -> bool {
        matches!(self.reason, Reason::FuelExhausted | Reason::MemoryExceeded | Reason::Trap | Reason::Limit)
    }

    /// Of a job whose stored form makes no sense: it is buried, so that it holds up no other and an operator can see it.
    pub fn unreadable(problem: String) -> Self {
        let detail = FailureDetail { code: "unreadable".into(), message: problem, context: None };
        Self::new(Reason::Rejected, detail)
    }
}

/// What follows for the job. The store carries it out in one step.
#[derive(Debug, Clone, PartialEq, Eq, strum::Display, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[allow(missing_docs, reason = "the docs of the variants name their fields")]
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
    /// In a word. The names are stable: scripts and the journal have them.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// What is known against the attempt.
    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Retry { failure, .. } | Self::Bury(failure) => Some(failure),
            Self::Ack(_) | Self::Snooze(_) | Self::Release(_) | Self::Expire => None,
        }
    }

    /// What the attempt came to.
    pub const fn result(&self) -> Option<&Payload> {
        if let Self::Ack(result) = self { result.as_ref() } else { None }
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

/// What the store answered to a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, strum::Display, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Settled {
    /// The verdict was carried out.
    Done,
    /// The job had been cancelled meanwhile: it is gone, whatever the verdict said.
    Cancelled,
    /// The delivery is not running any more: it was settled or reaped. Nothing was changed.
    LeaseLost,
}

impl Settled {
    /// The name, in kebab case.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_as_journals_and_stores_have_them() {
        let outcomes: Vec<_> = OutcomeKind::VARIANTS.iter().map(ToString::to_string).collect();
        let words = "complete snooze retry reject out-of-fuel memory-exceeded timed-out trapped limit-exceeded expired predecessor-failed tenant-full \
                     lease-expired worker-died pool-full handler-missing shutting-down killed host-fault";
        assert_eq!(outcomes.join(" "), words);
        let reasons: Vec<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        let words = "failed rejected fuel-exhausted memory-exceeded timeout trap limit lease-expired worker-died predecessor tenant-full";
        assert_eq!(reasons.join(" "), words);
        assert_eq!(LimitName::HostCallBytes.to_string(), "host-call-bytes");
        assert_eq!(Verdict::Snooze(Duration::ZERO).name(), "snooze");
    }
}
