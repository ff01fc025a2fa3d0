//! Jobs that wait for other jobs, by way of the server.

use async_trait::async_trait;

use super::exchange::Question;
use super::store::RemoteStore;
use crate::problem::Code;
use crate::wire;
use gristmill_core::job::{JobId, Name};
use gristmill_store::{BatchSealed, JobGraph, StoreError, TreeCancelled, WaitsFor, Workflows};

impl RemoteStore {
    /// What [`job_graph`](gristmill_store::job_graph) does, by the server: at most 1000 jobs.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn job_graph(
        &self,
        tenant: &Name,
        id: &JobId,
        depth: usize,
        limit: usize,
    ) -> Result<Option<JobGraph>, StoreError> {
        const DOING: &str = "ask for the jobs around a job";
        let path = format!("/v1/tenants/{tenant}/jobs/{id}/graph?depth={depth}&limit={limit}");
        self.known_job(Question::get(path, DOING), DOING).await
    }

    /// What [`cancel_tree`](gristmill_store::cancel_tree) does, by the server.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn cancel_tree(&self, tenant: &Name, id: &JobId, kill: bool) -> Result<TreeCancelled, StoreError> {
        const DOING: &str = "cancel a job and its tree";
        let path = format!("/v1/tenants/{tenant}/jobs/{id}?tree=true&kill={kill}");
        match self.server.ask_if_known(Question::delete(path, DOING)).await? {
            Ok(wire::CancelledTree { gone, stopping, complete, .. }) => Ok(TreeCancelled { gone, stopping, complete }),
            Err(problem) if matches!(problem.code, Code::JobUnknown | Code::TooLate) => {
                Ok(TreeCancelled { gone: 0, stopping: 0, complete: true })
            }
            Err(problem) => Err(self.server.refused(DOING, &problem)),
        }
    }

    async fn links(&self, tenant: &Name, id: &JobId, limit: usize) -> Result<wire::JobLinks, StoreError> {
        let path = format!("/v1/tenants/{tenant}/jobs/{id}/links?limit={limit}");
        self.server.ask(Question::get(path, "ask what a job waits for")).await
    }
}

#[async_trait]
impl Workflows for RemoteStore {
    async fn seal(&self, tenant: &Name, id: &JobId) -> Result<BatchSealed, StoreError> {
        const DOING: &str = "seal a batch";
        let question = Question::post(format!("/v1/tenants/{tenant}/jobs/{id}/seal"), &wire::Nothing {}, DOING);
        match self.server.ask_if_known::<wire::SealedOne>(question).await? {
            Ok(sealed) => Ok(sealed.status),
            Err(problem) if matches!(problem.code, Code::JobUnknown | Code::TooLate) => Ok(BatchSealed::NotWaiting),
            Err(problem) => Err(self.server.refused(DOING, &problem)),
        }
    }

    async fn waits_for(&self, tenant: &Name, id: &JobId, limit: usize) -> Result<Option<WaitsFor>, StoreError> {
        Ok(self.links(tenant, id, limit).await?.waits_for)
    }

    async fn waiters(&self, tenant: &Name, id: &JobId) -> Result<Vec<JobId>, StoreError> {
        Ok(self.links(tenant, id, 0).await?.waiters)
    }
}
