//! The documents of pull workers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BATCH, Base64, Nothing, push};
use gristmill_core::job::{Job, Name, Payload};
use gristmill_core::json::{at_most, object};
use gristmill_core::outcome::{Reason, Settled};
use gristmill_core::time::Timestamp;

/// The most topics in one claim.
pub(crate) const TOPICS: usize = 64;

/// The most follow-ups of a settlement: no `follow-ups` of a topic is larger.
const FOLLOW_UPS: usize = 10_000;

/// How many jobs a worker wants, and for how long.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    /// Where the path names no topic: 1 to 64. All jobs of the first one come before those of the next.
    #[serde(default, deserialize_with = "at_most::maybe::<TOPICS, _, _>")]
    #[schemars(length(min = 1, max = TOPICS))]
    pub(crate) topics: Option<Vec<Name>>,
    /// How many jobs at most.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = BATCH))]
    pub(crate) max: usize,
    /// How long they are the worker's.
    #[serde(default = "a_minute")]
    #[schemars(range(min = 100, max = 86_400_000))]
    pub(crate) lease_ms: u64,
    /// How long to wait for the first job.
    #[serde(default)]
    #[schemars(range(max = 60_000))]
    pub(crate) wait_ms: u64,
    /// A name for people.
    pub(crate) worker: Option<Name>,
}

const fn one() -> usize {
    1
}

const fn a_minute() -> u64 {
    60_000
}

/// Jobs, with a lease on each. Fewer than `max`, or none, if there are no more, or if their bodies have 16 MiB. A worker that
/// is gone before the last byte is sent takes no job along.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Claims<'a> {
    pub(crate) claims: Vec<Claimed<'a>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Claimed<'a> {
    pub(crate) lease: String,
    pub(crate) lease_until_ms: Timestamp,
    pub(crate) claimed_at_ms: Timestamp,
    /// The first is 1.
    #[schemars(range(min = 1))]
    pub(crate) attempt: u32,
    pub(crate) attempts_max: u32,
    /// Why the last attempt failed, if one did.
    pub(crate) previous: Option<Reason>,
    /// What the last attempt saved.
    pub(crate) checkpoint: Option<Base64>,
    /// The trace context that the worker's spans belong below: of the attempt where the server sends spans, else of the job's creation, if its
    /// producer gave one.
    pub(crate) traceparent: Option<String>,
    pub(crate) job: &'a Job,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Extend {
    #[serde(deserialize_with = "at_most::list::<BATCH, _, _>")]
    #[schemars(length(max = BATCH))]
    pub(crate) leases: Vec<String>,
    /// From now on for so long.
    #[serde(default = "a_minute")]
    #[schemars(range(min = 100, max = 86_400_000))]
    pub(crate) lease_ms: u64,
}

/// What is true of each lease, in the order of the request.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExtendAnswer {
    pub(crate) extended: Vec<Extended>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Extended {
    #[serde(rename = "extended")]
    Longer,
    /// The lease holds, but the job has been cancelled.
    Cancelled,
    LeaseLost,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoint {
    pub(crate) lease: String,
    /// At most the topic's `checkpoint-limit`.
    pub(crate) state: Base64,
}

/// Whether the lease held.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Saved {
    pub(crate) saved: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settle {
    #[serde(deserialize_with = "at_most::objects::<BATCH, _, _>")]
    #[schemars(length(max = BATCH))]
    pub(crate) settlements: Vec<Settlement>,
}

/// A lease, and one of five ways to end it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settlement {
    pub(crate) lease: String,
    /// Done.
    #[serde(default, deserialize_with = "object::maybe")]
    pub(crate) ack: Option<Ack>,
    /// Failed, worth another try, as long as attempts are left.
    #[serde(default, deserialize_with = "object::maybe")]
    pub(crate) retry: Option<Retry>,
    /// Later, with no attempt used. Less than 100 is 100.
    pub(crate) snooze_ms: Option<u64>,
    /// Failed for good: dead at once.
    #[serde(default, deserialize_with = "object::maybe")]
    pub(crate) bury: Option<Bury>,
    /// Back at once, with no attempt used.
    #[serde(default, deserialize_with = "object::maybe")]
    pub(crate) release: Option<Nothing>,
    /// With `ack` and `snooze_ms` only: jobs of the same tenant, which are stored in the same step. At most the topic's
    /// `follow-ups`.
    #[serde(default, deserialize_with = "at_most::objects::<FOLLOW_UPS, _, _>")]
    #[schemars(length(max = FOLLOW_UPS))]
    pub(crate) follow_ups: Vec<push::Job>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ack {
    /// Kept if the job or its topic wants that.
    #[serde(default, deserialize_with = "object::maybe")]
    pub(crate) result: Option<Payload>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retry {
    /// Left out: by the topic's backoff.
    pub(crate) after_ms: Option<u64>,
    #[serde(deserialize_with = "object::one")]
    pub(crate) error: WorkerError,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bury {
    #[serde(deserialize_with = "object::one")]
    pub(crate) error: WorkerError,
}

/// What a worker says about its failure: together at most the topic's `output-limit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkerError {
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default, deserialize_with = "object::maybe")]
    pub(crate) context: Option<Payload>,
}

/// What became of each settlement, in the order of the request.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SettleAnswer {
    pub(crate) settled: Vec<Settled>,
}
