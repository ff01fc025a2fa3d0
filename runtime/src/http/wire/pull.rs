//! What pull workers and the server say to each other.

use serde::{Deserialize, Serialize};

use super::job::{NewJob, Payload};
use super::view::Job;
use super::{Base64, Nothing, object};
use crate::job::Name;
use crate::outcome::Reason;
use crate::time::Timestamp;

/// How many jobs are wanted, and for how long.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Claim {
    #[serde(default = "one")]
    pub(in crate::http) max: usize,
    #[serde(default = "a_minute")]
    pub(in crate::http) lease_ms: u64,
    #[serde(default)]
    pub(in crate::http) wait_ms: u64,
    pub(in crate::http) worker: Option<Name>,
}

/// The same of several topics, those that come first before the others.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ClaimOf {
    pub(in crate::http) topics: Vec<Name>,
    #[serde(default = "one")]
    pub(in crate::http) max: usize,
    #[serde(default = "a_minute")]
    pub(in crate::http) lease_ms: u64,
    #[serde(default)]
    pub(in crate::http) wait_ms: u64,
    pub(in crate::http) worker: Option<Name>,
}

const fn one() -> usize {
    1
}

const fn a_minute() -> u64 {
    60_000
}

#[derive(Debug, Serialize)]
pub(in crate::http) struct Claims {
    pub(in crate::http) claims: Vec<Claimed>,
}

#[derive(Debug, Serialize)]
pub(in crate::http) struct Claimed {
    pub(in crate::http) lease: String,
    pub(in crate::http) lease_until_ms: Timestamp,
    pub(in crate::http) claimed_at_ms: Timestamp,
    pub(in crate::http) attempt: u32,
    pub(in crate::http) attempts_max: u32,
    /// Why the last attempt failed, if one did.
    pub(in crate::http) previous: Option<Reason>,
    pub(in crate::http) checkpoint: Option<Base64>,
    pub(in crate::http) job: Job,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Extend {
    pub(in crate::http) leases: Vec<String>,
    #[serde(default = "a_minute")]
    pub(in crate::http) lease_ms: u64,
}

/// In the order of the leases.
#[derive(Debug, Serialize)]
pub(in crate::http) struct ExtendAnswer {
    pub(in crate::http) extended: Vec<Extended>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::http) enum Extended {
    #[serde(rename = "extended")]
    Longer,
    /// It holds, but nobody wants the job any more.
    Cancelled,
    LeaseLost,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Checkpoint {
    pub(in crate::http) lease: String,
    pub(in crate::http) state: Base64,
}

/// Whether the lease held.
#[derive(Debug, Serialize)]
pub(in crate::http) struct Saved {
    pub(in crate::http) saved: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Settle {
    #[serde(deserialize_with = "object::each")]
    pub(in crate::http) settlements: Vec<Settlement>,
}

/// A lease, and one of five ways to end it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Settlement {
    pub(in crate::http) lease: String,
    #[serde(default, deserialize_with = "object::maybe")]
    pub(in crate::http) ack: Option<Ack>,
    #[serde(default, deserialize_with = "object::maybe")]
    pub(in crate::http) retry: Option<Retry>,
    pub(in crate::http) snooze_ms: Option<u64>,
    #[serde(default, deserialize_with = "object::maybe")]
    pub(in crate::http) bury: Option<Bury>,
    #[serde(default, deserialize_with = "object::maybe")]
    pub(in crate::http) release: Option<Nothing>,
    #[serde(default, deserialize_with = "object::each")]
    pub(in crate::http) follow_ups: Vec<NewJob>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Ack {
    #[serde(default, deserialize_with = "object::maybe")]
    pub(in crate::http) result: Option<Payload>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Retry {
    pub(in crate::http) after_ms: Option<u64>,
    #[serde(deserialize_with = "object::one")]
    pub(in crate::http) error: WorkerError,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Bury {
    #[serde(deserialize_with = "object::one")]
    pub(in crate::http) error: WorkerError,
}

/// What a worker says about its failure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct WorkerError {
    pub(in crate::http) code: String,
    #[serde(default)]
    pub(in crate::http) message: String,
    #[serde(default, deserialize_with = "object::maybe")]
    pub(in crate::http) context: Option<Payload>,
}

/// In the order of the settlements: `done`, `cancelled` or `lease-lost`.
#[derive(Debug, Serialize)]
pub(in crate::http) struct SettleAnswer {
    pub(in crate::http) settled: Vec<&'static str>,
}
