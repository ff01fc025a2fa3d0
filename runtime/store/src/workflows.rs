//! Jobs that wait for other jobs.
//!
//! A job whose [`JobOptions`](gristmill_core::job::JobOptions) say so stands by among the delayed jobs of its topic. The step that ends the last of the
//! jobs that it waits for lets it start, whichever step that is: nothing polls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::operations::operations;
use gristmill_core::job::{Ended, JobId, Name};

/// How many of the jobs that a job waits for are shown with it.
pub(crate) const SHOWN: usize = 10;

operations! {
    parts:
    /// What jobs wait for which.
    pub trait Workflows {
        /// Seals a batch: it gets no more members, but for follow-up jobs of its members, and starts once all that it has have ended.
        async fn seal(&self, tenant: &Name, id: &JobId) -> Result<BatchSealed, StoreError> [ask tenant: sealed];

        /// What a job waits for or has waited for; `None` of a job that waits for none, and of one that is gone. Lists at most `limit` of
        /// them: first those that have not ended, then those that were not done, then the others, each by id.
        async fn waits_for(&self, tenant: &Name, id: &JobId, limit: usize) -> Result<Option<WaitsFor>, StoreError>
            [ask tenant: first];

        /// The jobs that wait for a job that has not ended or is dead, by id: at most [`WAITERS`](gristmill_core::job::WAITERS).
        async fn waiters(&self, tenant: &Name, id: &JobId) -> Result<Vec<JobId>, StoreError> [ask tenant: concat];
    }
}

/// What [`Workflows::seal`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BatchSealed {
    /// The batch is sealed.
    Sealed,
    /// It was sealed before, or was never open; it waits. Nothing was changed.
    Before,
    /// There is no such job that waits for others. Nothing was changed.
    NotWaiting,
}

/// What a job waits for, or has waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitsFor {
    /// It is a batch that is not sealed.
    pub open: bool,
    /// How many jobs.
    pub total: u64,
    /// Of these, those that have ended, and do not run again.
    pub ended: u64,
    /// Of those that have ended, those that were not done.
    pub failed: u64,
    /// Some of the jobs: first those that have not ended, then those that were not done.
    pub jobs: Vec<Predecessor>,
}

impl WaitsFor {
    /// The first job of the list that was not done.
    pub fn first_failed(&self) -> Option<(&JobId, Ended)> {
        let mut failed = self.jobs.iter().filter_map(|job| Some((&job.id, job.ended?)));
        failed.find(|(_, ended)| *ended != Ended::Complete)
    }
}

/// A job that another one waits for, or has waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Predecessor {
    /// Its id.
    pub id: JobId,
    /// What became of it; `None` as long as it has not ended.
    pub ended: Option<Ended>,
}
