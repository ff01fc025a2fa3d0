//! What is kept for a time beside jobs: results of those that are over, recordings of attempts, and the unique values that jobs hold.

use std::time::Duration;

use super::error::StoreError;
use super::inspect::JobView;
use super::operations::operations;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;

operations! {
    parts:
    /// Results, to look through and to forget.
    pub trait Results {
        /// A page of jobs that are over and whose results are kept, in no order: at most `limit`, and about 4 MiB. `after` is the
        /// [`next`](ResultsPage::next) of the page before. A result that is kept from the first page to the last is on one of them at least.
        async fn results(&self, tenant: &Name, after: Option<&str>, limit: usize) -> Result<ResultsPage, StoreError>;

        /// Forgets the results that are kept of jobs. Returns for each whether there was one.
        async fn forget_results(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<bool>, StoreError>
            [ask tenant: any_of_each];
    }
}

/// Recordings of one topic, in bytes: the oldest go when there are more.
pub const RECORDINGS_BYTES: u64 = 16 << 20;

operations! {
    parts:
    /// Recordings of attempts: what the host answered them. They are opaque bytes here.
    pub trait Recordings {
        /// Keeps recordings of attempts at jobs for this time, each in place of one of an earlier attempt at its job. Where the topic then has
        /// more than [`RECORDINGS_BYTES`], those go first whose time is over first. The store does not look whether it has the jobs. No recording is empty.
        async fn keep_recordings(
            &self,
            topic: &TopicId,
            recordings: &[(JobId, Vec<u8>)],
            keep: Duration,
        ) -> Result<(), StoreError> [current topic];

        /// The recording of the latest attempt at a job of the topic that was recorded; `None` if none is kept.
        async fn recording(&self, topic: &TopicId, job: &JobId) -> Result<Option<Vec<u8>>, StoreError>
            [partitions current; ask topic: first];

        /// The topic's jobs of which a recording is kept, the latest first: those whose recording is kept until later, and of those of one millisecond the
        /// greater id. At most `limit`, and never more than a thousand, of those that come `after` the last one of the page before. A recording that is
        /// kept from the first page to the last is on one of them at least.
        async fn recorded_jobs(
            &self,
            topic: &TopicId,
            after: Option<&RecordedJob>,
            limit: usize,
        ) -> Result<Vec<RecordedJob>, StoreError> [partitions current; ask topic: latest_recorded(limit)];

        /// Forgets the recordings of jobs. So does what ends jobs in another way than their attempts: that they are cancelled, swept, or
        /// deleted when they are dead.
        async fn forget_recordings(&self, topic: &TopicId, jobs: &[JobId]) -> Result<(), StoreError>
            [partitions current; ask topic: done];
    }
}

operations! {
    parts:
    /// Unique values.
    pub trait Uniques {
        /// Who holds a unique value of a topic; `None` if it is free.
        async fn unique_hold(&self, topic: &TopicId, value: &str) -> Result<Option<UniqueHold>, StoreError>
            [ask topic: first];

        /// Frees a unique value that is held for a time, before that is over. Returns whether it was held so: one that a job holds until it is
        /// done stays held.
        async fn free_unique(&self, topic: &TopicId, value: &str) -> Result<bool, StoreError> [ask topic: any];

        /// Frees the unique values of a topic that are held for a time, before that is over, at most 1,000 of them. Returns how many: if there
        /// were some, call it again.
        async fn free_windows(&self, topic: &TopicId) -> Result<u64, StoreError> [ask topic: sum];
    }
}

/// A job of which a recording is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordedJob {
    /// Until when.
    pub until: Timestamp,
    /// The job's id.
    pub id: JobId,
}

/// Some jobs that are over.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResultsPage {
    /// With what became of them ([`JobView::result`]).
    pub jobs: Vec<JobView>,
    /// Where to go on. `None`: there are no more. A page may be empty, and others follow.
    pub next: Option<String>,
}

/// That a unique value is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueHold {
    /// The job that holds it. It may be gone.
    pub holder: JobId,
    /// Until when; `None`: until the job is done.
    pub until: Option<Timestamp>,
}
