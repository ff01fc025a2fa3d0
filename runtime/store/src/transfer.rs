//! What a store does at both ends of a move of jobs. [`TopicMove`](crate::TopicMove) carries the move out.
//!
//! For each batch: [`Transfer::export`] from the old store, [`Transfer::import`] into the new one,
//! [`Transfer::remove_exported`] from the old one, [`Transfer::clear_move_marks`] in the new one. So no job is lost or doubled
//! however often the move is interrupted and begun again: the new store has a mark of each job that it imported, and answers
//! [`Imported::Before`] to it, even if the job is over by then.
//!
//! A job that cannot be read (a later version wrote it, or another program did) is moved as it is stored, so that a version
//! that knows its form can read it in the new store. Only a store of the same kind can keep it in that form: one of
//! another kind answers [`Imported::Unreadable`], and the job stays in the old store. The unique value of a job that cannot
//! be read is free in the new store, unless the stored form says it.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::bill::BillEntry;
use super::contract::Store;
use super::error::StoreError;
use super::inspect::ResultView;
use super::operations::operations;
use gristmill_core::bill::{BillLine, Day};
use gristmill_core::job::{Job, JobId, Name, TopicId, WorkerId};
use gristmill_core::outcome::Failure;
use gristmill_core::time::Timestamp;

operations! {
    parts:
    /// Both ends of a move.
    pub trait Transfer: Store {
        /// Waiting and dead jobs of a topic, at most `limit`: first the ready ones in the order in which they would be claimed
        /// (high, normal, low), then delayed ones as they come due, then dead ones, oldest first, then those that wait for their key, in order.
        /// Running jobs are left out.
        ///
        /// The topic should be paused: a job that is claimed meanwhile is not removed, and then exists twice.
        async fn export(&self, topic: &TopicId, limit: usize) -> Result<Vec<StoredJob>, StoreError>;

        /// Stores jobs as they are, each marked as moved until [`Transfer::clear_move_marks`]. Answers in the order given.
        ///
        /// They are not counted as `pushed`. A unique value that another job holds is left to that job.
        async fn import(&self, jobs: &[StoredJob]) -> Result<Vec<Imported>, StoreError>;

        /// Removes waiting and dead jobs of a topic, without counting or announcing it, and with them the unique values that
        /// they hold, also windows, and their marks: a job may come back one day. Returns for each whether it was there.
        async fn remove_exported(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError>
            [partitions by hand; all topic: any_of_each];

        /// Takes the marks off jobs that the old store has removed.
        async fn clear_move_marks(&self, tenant: &Name, ids: &[JobId]) -> Result<(), StoreError> [all tenant: done];

        /// Unique values of a topic that are held for a time by jobs that are over, at most `limit`: with them the promise that the same is not
        /// done twice. Those of an `Idempotency-Key` are among them.
        async fn export_windows(&self, topic: &TopicId, limit: usize) -> Result<Vec<StoredWindow>, StoreError>
            [partitions by hand; current topic];

        /// Has these values held as they were in the other store, but for those that a job holds here.
        async fn import_windows(&self, topic: &TopicId, windows: &[StoredWindow]) -> Result<(), StoreError>
            [shards current; ask topic: done];

        /// Frees these values, if nothing else holds them by now.
        async fn remove_windows(&self, topic: &TopicId, windows: &[StoredWindow]) -> Result<(), StoreError>
            [shards current; ask topic: done];

        /// Whether some jobs of the tenant wait for others, have waited, or are waited for: those stay where they are until they have ended.
        async fn has_links(&self, tenant: &Name) -> Result<bool, StoreError> [all tenant: any];

        /// The jobs of a tenant of which a result is kept, in no order. Looks at the names of all keys of a Redis.
        async fn jobs_with_result(&self, tenant: &Name) -> Result<Vec<JobId>, StoreError>
            [partitions by hand; all tenant: concat];

        /// The results of these jobs that are still kept.
        async fn export_results(&self, tenant: &Name, jobs: &[JobId]) -> Result<Vec<StoredResult>, StoreError>
            [all tenant: concat];

        /// Keeps results of another store. A result that is kept here already stays. Returns how many are new.
        async fn import_results(&self, tenant: &Name, results: &[StoredResult]) -> Result<u64, StoreError>
            [current tenant];

        /// Every key of a tenant's jobs that has a state, with its topic, in no order. Looks at the names of all keys of a Redis.
        async fn keys_with_state(&self, tenant: &Name) -> Result<Vec<(TopicId, String)>, StoreError>
            [partitions by hand; current tenant];

        /// The state of a key, and for how much longer it is kept. `None` if there is none.
        async fn export_state(&self, topic: &TopicId, key: &str) -> Result<Option<StoredState>, StoreError>
            [partitions by hand; current topic];

        /// Stores the state of a key that has none. Returns whether it had none; else nothing was changed.
        async fn import_state(&self, topic: &TopicId, key: &str, state: &StoredState) -> Result<bool, StoreError>
            [partitions by hand; current topic];

        /// Takes the bills of a tenant's days out of the store, to be added to those of another one: days with costs, in order. What was taken is
        /// set aside, with the mark, until it is dropped; till then it is in no [bill](crate::Bills::bill), and each call answers with it again, as it
        /// was and with the mark that it had. What is added meanwhile is taken when that has been dropped.
        async fn take_bills(
            &self,
            tenant: &Name,
            days: &RangeInclusive<Day>,
            mark: u64,
        ) -> Result<Vec<TakenBill>, StoreError> [current tenant];

        /// Drops what [`Transfer::take_bills`] has set aside, if it has this mark.
        async fn drop_taken_bill(&self, tenant: &Name, day: Day, mark: u64) -> Result<(), StoreError>
            [current tenant];
    }
}

/// A day of a tenant's bill that was taken out of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenBill {
    /// The day.
    pub day: Day,
    /// Says which it is: the same costs may be taken again, and be others.
    pub mark: u64,
    /// In order of topic.
    pub lines: Vec<BillLine>,
}

impl TakenBill {
    /// What adds it to the bill of another store, once however often it is added within an hour. `keep`: see [`BillEntry::keep`].
    pub fn into_entry(self, tenant: &Name, keep: Duration) -> BillEntry {
        let writer = WorkerId::new(&format!("bill-of-{}-{:016x}", self.day, self.mark));
        BillEntry { tenant: tenant.clone(), writer, number: 1, lines: self.lines, keep, used_us: 0 }
    }
}

/// A unique value that a job that is over holds for some more time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredWindow {
    /// The value.
    pub value: String,
    /// The job.
    pub holder: JobId,
    /// For how much longer it holds the value.
    pub ttl: Duration,
}

/// What became of a job, as it is moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResult {
    /// The job.
    pub job: JobId,
    /// Attempts made.
    pub attempts: u32,
    /// The topic of the job, if it was written down with the result.
    pub topic: Option<Name>,
    /// What became of it.
    pub end: ResultView,
    /// For how much longer this is kept.
    pub ttl: Duration,
}

/// The state of a key, as it is moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredState {
    /// What a job has set.
    pub value: Vec<u8>,
    /// See [`VersionedState`](crate::VersionedState).
    pub version: u64,
    /// For how much longer it is kept.
    pub ttl: Duration,
}

/// What [`Transfer::import`] did with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Imported {
    /// Stored. The old store may remove it.
    Stored,
    /// Marked already: an earlier try stored this very job (its id and when it was enqueued say so). Nothing was changed;
    /// the old store may remove it.
    Before,
    /// Another job has its id, or both stores are one. Nothing was changed, and the old store must keep it.
    IdTaken,
    /// It cannot be read, and this store cannot keep its form; see [`StoredJob::sealed`]. Nothing was changed, and the old
    /// store must keep it.
    Unreadable,
}

/// A job with everything that a store knows about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredJob {
    /// Of a job that cannot be read: what is known of it.
    pub job: Job,
    /// Only of a job that cannot be read: its stored form, which is what is moved.
    pub sealed: Option<Sealed>,
    /// Where it is.
    pub place: StoredPlace,
    /// Attempts made.
    pub attempts: u32,
    /// Times that it was claimed.
    pub deliveries: u64,
    /// Why the last attempt failed, if one did.
    pub last_failure: Option<Failure>,
    /// What an attempt saved last, if one did.
    pub checkpoint: Option<Vec<u8>>,
    /// It is delayed or dead, and holds a slot of its key all the same: it is to be tried again, or dead ones halt their key.
    pub holds_slot: bool,
    /// How much longer it holds its unique value, where that is held for a time.
    pub unique_for: Option<Duration>,
}

/// The stored form of a job that this version cannot read, for stores of the kind that it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    pub(super) kind: &'static str,
    pub(super) bytes: Vec<u8>,
    /// Why it cannot be read.
    pub problem: String,
}

impl Sealed {
    /// The stored form, if it is from a store of this kind.
    pub(super) fn open(&self, kind: &str) -> Option<&[u8]> {
        (self.kind == kind).then_some(&self.bytes)
    }
}

/// Where a job is that no worker holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the docs of the variants name their fields")]
pub enum StoredPlace {
    /// A claim may take it.
    Ready,
    /// It is not due yet.
    Delayed { until: Timestamp },
    /// It was given up.
    Dead { since: Timestamp },
}
