//! Where jobs are: the contract that every store keeps. Knows no Wasm.
//!
//! # The rules
//!
//! - **At least once.** A job acknowledged to its producer is never lost; it may run twice only if a worker died or
//!   overran its lease.
//! - **One place.** A job is delayed, ready, running or dead; every change of place is one script or one transaction.
//! - **Fencing.** A settle names the delivery that it settles; a late one is answered [`Settled::LeaseLost`] and changes nothing.
//! - **The store's clock rules.** No host's clock decides when a job is due or a lease has run out.
//! - **Batch-first.** Every call takes or returns many; one is a batch of one.
//!
//! Cancel-safety of every call: a dropped future may or may not have had its effect, never half of it. A lost claim is
//! a lease that reap finds; a lost push may be repeated with the same ids, a lost settle with the same lease.

pub mod embedded;
pub mod redis;
pub mod sharded;

mod batch;
mod clock;
mod contract;
mod error;
mod inspect;
mod list;
mod placement;
#[cfg(test)]
mod tests;
mod tokens;
mod transfer;
mod watched;

pub use clock::Clock;
pub use contract::{
    ClaimFrom, Claimed, DeadLimits, Migrated, Overdue, PendingWork, Produce, Pushed, Settled, Settlement, Signal, Store,
};
pub use error::StoreError;
pub use inspect::{Cancelled, DeadJob, Inspect, JobState, JobView, ResultView, TopicCounts};
pub use list::{BadCursor, Cursor, Page, StateFilter};
pub use placement::{Placement, PlacementRegistry};
pub use tokens::{FoundToken, TokenAdded, TokenLookup, Tokens};
pub use transfer::{Imported, Sealed, StoredJob, StoredPlace, Transfer};
pub use watched::Watched;
