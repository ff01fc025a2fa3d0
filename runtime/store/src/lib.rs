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

mod action;
mod announcer;
mod answers;
mod batch;
mod bill;
#[cfg(any(feature = "redis", feature = "embedded"))]
mod budget;
mod clock;
#[cfg(any(feature = "redis", feature = "embedded"))]
mod clock_step;
#[cfg(any(feature = "redis", feature = "sharding"))]
mod composite;
mod contract;
mod counts;
mod deployments;
mod ended;
mod error;
mod fsck;
mod graph;
mod identity;
mod inspect;
mod job_query;
#[cfg(any(feature = "redis", feature = "sharding"))]
mod joined;
mod kept;
mod list;
mod look_up;
mod move_bills;
mod move_jobs;
mod off_runtime;
mod operations;
mod placement;
mod predecessors;
mod progress;
#[cfg(any(feature = "redis", feature = "embedded"))]
mod pulled;
mod purge;
mod schedules;
mod settlement;
#[cfg(test)]
mod tests;
mod timed;
mod tokens;
mod transfer;
mod tree;
#[cfg(any(feature = "redis", feature = "embedded"))]
mod turns;
mod waiting_claim;
mod weight;
mod workflows;

pub use action::{JobAction, ListChanged};
#[cfg(any(feature = "redis", feature = "embedded"))]
pub(crate) use answers::IDLE_TOPICS;
pub use answers::{
    ClaimFrom, Claimed, DeadLimits, Migrated, Overdue, OverdueJobs, PendingWork, PollTenant, Pushed, Signal, Sweepable,
};
pub use batch::{STEP_BYTES, STEP_JOBS, is_one_step};
pub use bill::{BillEntries, BillEntry, BillSums, Bills};
pub use clock::{Clock, ClockOffset, ManualClock};
pub use contract::{
    Claims, FindWork, Leases, Probe, Produce, Push, Settle, Settled, Shards, Signals, StateDeleted, States, Store,
    StoreSize, Sweep, Usage, VersionedState, Workers,
};
pub use counts::{LimitReached, Pause, TopicCounts};
pub use deployments::Deployments;
pub use ended::{EndedAs, JobEnd, REMEMBERED};
pub use error::{StoreError, store_in_words};
pub use fsck::{Check, Finding, Fsck, FsckReport};
pub use graph::{GraphEdge, GraphNode, GraphProgress, JobGraph, job_graph};
pub use identity::{Identity, ServerName, StoreId};
pub use inspect::{
    AHEAD, BehindKey, Cancelled, Control, DeadJobs, Heartbeat, Inspect, JobChanged, JobState, JobView, ListJobs, Query,
    ResultView,
};
pub use job_query::{
    BadQueryCursor, ChooseJobs, DeadGroup, DeadGroups, FoundJobs, JobField, JobQuery, QueryCursor, QueryError, Scanned,
    dead_groups, find, find_without_payloads, scan,
};
pub use kept::{RECORDINGS_BYTES, RecordedJob, Recordings, Results, ResultsPage, UniqueHold, Uniques};
pub use list::{BadCursor, Cursor, Page, StateFilter};
pub use look_up::look_up;
pub use move_bills::move_bills;
pub use move_jobs::{MovedJob, TopicMove, Unmoved, copy_results, move_states, move_windows, pause_alike};
pub use off_runtime::off_runtime;
pub use placement::{Placement, PlacementRegistry, TenantPlacement, TenantPlacements};
pub use predecessors::before_start;
pub use progress::show_progress;
pub use purge::{Purged, purge};
pub use schedules::{
    ManifestSchedules, ManifestStanding, ScheduleChange, ScheduleChanged, Schedules, StoredSchedule, move_schedules,
};
pub use settlement::{Settlement, StateWrite};
pub use timed::Timed;
pub use tokens::{FoundToken, TokenAdded, TokenLookup, Tokens};
pub use transfer::{
    Imported, Sealed, StoredJob, StoredPlace, StoredResult, StoredState, StoredWindow, TakenBill, Transfer,
};
pub use tree::{TreeCancelled, cancel_tree};
#[cfg(any(feature = "redis", feature = "embedded"))]
pub(crate) use waiting_claim::WaitingClaims;
pub use waiting_claim::{WaitToClaim, WaitingClaim};
pub use weight::Weigh;
pub use workflows::{BatchSealed, Predecessor, WaitsFor, Workflows};

/// Every trait of the contract, for `use gristmill_store::prelude::*`.
pub mod prelude {
    pub use super::{
        BillEntries, Bills, Claims, Control, DeadJobs, Deployments, FindWork, Fsck, Identity, Inspect, Leases,
        ListJobs, ManifestSchedules, PlacementRegistry, Probe, Produce, Push, Query, Results, Schedules, Settle,
        Shards, Signals, States, Store, Sweep, TokenLookup, Tokens, Transfer, Uniques, Usage, WaitToClaim, Workers,
        Workflows,
    };
}
