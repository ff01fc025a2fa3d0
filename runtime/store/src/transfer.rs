//! Moving jobs from one store to another, so that none is lost or doubled however often the move is interrupted.
//!
//! For each batch: [`Transfer::export`] from the old store, [`Transfer::import`] into the new one, [`Transfer::remove_exported`]
//! of the old one, [`Transfer::clear_move_marks`] in the new one. Who is interrupted begins again: the new store knows which
//! jobs it has taken in and not been told to forget, and answers those as taken in already, even if the job is over by then.

use std::time::Duration;

use async_trait::async_trait;

use super::contract::Store;
use super::error::StoreError;
use gristmill_core::job::{Job, JobId, Name, TopicId};
use gristmill_core::outcome::Failure;
use gristmill_core::time::Timestamp;

/// Both ends of a move.
#[async_trait]
pub trait Transfer: Store {
    /// Waiting and dead jobs of a topic, at most `limit`: first the ready ones in the order in which they would be claimed
    /// (high, normal, low), then delayed ones as they come due, then dead ones, oldest first. Running jobs are left out.
    ///
    /// The topic should be paused: what is claimed meanwhile is not let go of, and then exists twice.
    async fn export(&self, topic: &TopicId, limit: usize) -> Result<Vec<StoredJob>, StoreError>;

    /// Stores jobs as they are, each marked as moved until [`Transfer::clear_move_marks`]. Answers in the order given.
    ///
    /// They are not counted as `pushed`. A unique value that another job holds is left to that job.
    async fn import(&self, jobs: &[StoredJob]) -> Result<Vec<Imported>, StoreError>;

    /// Removes waiting and dead jobs of a topic, without counting or telling anybody, and with them the unique values that
    /// they hold, windows too, and their marks: a job may come back one day. Tells for each whether it was there.
    async fn remove_exported(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError>;

    /// Takes the marks off jobs that the old store has let go of.
    async fn clear_move_marks(&self, tenant: &Name, ids: &[JobId]) -> Result<(), StoreError>;
}

/// What [`Transfer::import`] did with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Imported {
    /// Stored. The old store may let go of it.
    Stored,
    /// Marked already: an earlier try stored this very job (its id and when it was enqueued say so). Nothing was changed;
    /// the old store may let go of it.
    Before,
    /// Another job has its id, or both stores are one. Nothing was changed, and the old store must keep it.
    IdTaken,
}

/// A job with everything that a store knows about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredJob {
    pub job: Job,
    pub place: StoredPlace,
    pub attempts: u32,
    pub deliveries: u64,
    pub last_failure: Option<Failure>,
    pub checkpoint: Option<Vec<u8>>,
    /// How much longer it holds its unique value, where that is held for a time.
    pub unique_for: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredPlace {
    Ready,
    Delayed { until: Timestamp },
    Dead { since: Timestamp },
}
