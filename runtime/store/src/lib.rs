//! Where jobs are: the contract that every store keeps. Knows no Wasm.
//!
//! # The rules
//!
//! - **At least once.** A job acknowledged to its producer is lost only if the disk or the Redis below it loses it. Besides
//!   retries, it may run twice if a worker died, was stopped, or overran its lease.
//! - **One place.** A job is delayed, ready, running or dead; every change of place is one script or one transaction.
//! - **Fencing.** A settle names the delivery that it settles; a late one is answered [`Settled::LeaseLost`] and changes nothing.
//! - **The store's clock rules.** No host's clock decides when a job is due or a lease has run out.
//! - **Batch-first.** Calls that move jobs take a batch; one job is a batch of one.
//!
//! Cancel-safety of every call: a dropped future may or may not have had its effect, never half of it. A lost claim is
//! a lease that reap finds; a lost push may be repeated with the same ids, a lost settle with the same lease.

#![cfg_attr(
    not(all(feature = "embedded", feature = "redis", feature = "sharding")),
    allow(dead_code, reason = "what the stores share is not used by each of them")
)]

#[cfg(feature = "embedded")]
pub mod embedded;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sharding")]
pub mod sharded;

mod announcer;
mod batch;
mod clock;
mod contract;
mod error;
mod inspect;
mod list;
mod move_jobs;
mod operations;
mod placement;
mod purge;
#[cfg(test)]
mod tests;
mod timed;
mod tokens;
mod transfer;

pub use batch::{STEP_BYTES, STEP_JOBS, is_one_step};
pub use clock::Clock;
#[cfg(any(feature = "redis", feature = "embedded"))]
pub(crate) use contract::IDLE_TOPICS;
pub use contract::{
    ClaimFrom, Claimed, Claims, DeadLimits, Leases, Migrated, Overdue, OverdueJobs, PendingWork, PollTenant, Probe,
    Produce, Push, Pushed, Schedule, Settle, Settled, Settlement, Shards, Signal, Signals, Store, StoreSize, Sweep,
    Sweepable, Usage, Workers,
};
pub use error::StoreError;
pub use inspect::{
    Cancelled, Control, DeadJob, DeadJobs, Inspect, JobState, JobView, ListJobs, Query, ResultView, TopicCounts,
};
pub use list::{BadCursor, Cursor, Page, StateFilter};
pub use move_jobs::{MovedJob, TopicMove, Unmoved};
pub use placement::{Placement, PlacementRegistry, TenantPlacement, TenantPlacements};
pub use purge::{Purged, purge};
pub use timed::Timed;
pub use tokens::{FoundToken, TokenAdded, TokenLookup, Tokens};
pub use transfer::{Imported, Sealed, StoredJob, StoredPlace, Transfer};

/// Every trait of the contract, for `use gristmill_store::prelude::*`.
pub mod prelude {
    pub use super::{
        Claims, Control, DeadJobs, Inspect, Leases, ListJobs, PlacementRegistry, Probe, Produce, Push, Query, Schedule,
        Settle, Shards, Signals, Store, Sweep, TokenLookup, Tokens, Transfer, Usage, Workers,
    };
}
