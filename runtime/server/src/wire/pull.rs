//! The documents of pull workers.

use serde::{Deserialize, Serialize};

use super::{Base64, Nothing};
use gristmill_core::job::{Job, Name, NewJob, Payload};
use gristmill_core::json::object;
use gristmill_core::outcome::Reason;
use gristmill_core::time::Timestamp;

/// How many jobs a worker wants, and for how long.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    /// Where the path names no topic. All jobs of the first one come before those of the next.
    pub(crate) topics: Option<Vec<Name>>,
    #[serde(default = "one")]
    pub(crate) max: usize,
    #[serde(default = "a_minute")]
    pub(crate) lease_ms: u64,
    #[serde(default)]
    pub(crate) wait_ms: u64,
    /// Shown to people.
    pub(crate) worker: Option<Name>,
}

const fn one() -> usize {
    1
}

const fn a_minute() -> u64 {
    60_000
}

#[derive(Debug, Serialize)]
pub(crate) struct Claims<'a> {
    pub(crate) claims: Vec<Claimed<'a>>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Claimed<'a> {
    pub(crate) lease: String,
    pub(crate) lease_until_ms: Timestamp,
    pub(crate) claimed_at_ms: Timestamp,
    pub(crate) attempt: u32,
    pub(crate) attempts_max: u32,
    /// Why the last attempt failed, if one did.
    pub(crate) previous: Option<Reason>,
    pub(crate) checkpoint: Option<Base64>,
    pub(crate) job: &'a Job,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Extend {
    pub(crate) leases: Vec<String>,
    #[serde(default = "a_minute")]
    pub(crate) lease_ms: u64,
}

/// In the order of the leases.
#[derive(Debug, Serialize)]
pub(crate) struct ExtendAnswer {
    pub(crate) extended: Vec<Extended>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Extended {
    #[serde(rename = "extended")]
    Longer,
    /// It holds, but the job has been cancelled.
    Cancelled,
    LeaseLost,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoint {
    pub(crate) lease: String,
    pub(crate) state: Base64,
}

/// Whether the lease held.
#[derive(Debug, Serialize)]
pub(crate) struct Saved {
    pub(crate) saved: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settle {
    #[serde(deserialize_with = "object::each")]
    pub(crate) settlements: Vec<Settlement>,
}

/// A lease, and one of five ways to end it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settlement {
    pub(crate) lease: String,
    #[serde(default, deserialize_with = "object::maybe")]
    pub(crate) ack: Option<Ack>,
    #[serde(default, deserialize_with = "object::maybe")]
    pub(crate) retry: Option<Retry>,
    pub(crate) snooze_ms: Option<u64>,
    #[serde(default, deserialize_with = "object::maybe")]
    pub(crate) bury: Option<Bury>,
    #[serde(default, deserialize_with = "object::maybe")]
    pub(crate) release: Option<Nothing>,
    #[serde(default, deserialize_with = "object::each")]
    pub(crate) follow_ups: Vec<NewJob>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ack {
    #[serde(default, deserialize_with = "object::maybe")]
    pub(crate) result: Option<Payload>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retry {
    pub(crate) after_ms: Option<u64>,
    #[serde(deserialize_with = "object::one")]
    pub(crate) error: WorkerError,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bury {
    #[serde(deserialize_with = "object::one")]
    pub(crate) error: WorkerError,
}

/// What a worker says about its failure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkerError {
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default, deserialize_with = "object::maybe")]
    pub(crate) context: Option<Payload>,
}

/// In the order of the settlements: `done`, `cancelled` or `lease-lost`.
#[derive(Debug, Serialize)]
pub(crate) struct SettleAnswer {
    pub(crate) settled: Vec<&'static str>,
}
