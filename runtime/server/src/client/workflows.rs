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
        let path = format!("/v1/tenants/{tenant}/jobs/{id}/graph?depth={depth}&limit={limit}");
        self.server.ask_about(Question::get(path, "ask for the jobs around a job"), &[Code::JobUnknown]).await
    }

    /// What [`cancel_tree`](gristmill_store::cancel_tree) does, by the server.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn cancel_tree(&self, tenant: &Name, id: &JobId, kill: bool) -> Result<TreeCancelled, StoreError> {
        let path = format!("/v1/tenants/{tenant}/jobs/{id}?tree=true&kill={kill}");
        let question = Question::delete(path, "cancel a job and its tree");
        Ok(match self.server.ask_about(question, &[Code::JobUnknown, Code::TooLate]).await? {
            Some(wire::CancelledTree { gone, stopping, complete, .. }) => TreeCancelled { gone, stopping, complete },
            None => TreeCancelled { gone: 0, stopping: 0, complete: true },
        })
    }

    async fn links(&self, tenant: &Name, id: &JobId, limit: usize) -> Result<wire::JobLinks, StoreError> {
        let path = format!("/v1/tenants/{tenant}/jobs/{id}/links?limit={limit}");
        self.server.ask(Question::get(path, "ask what a job waits for")).await
    }
}

#[async_trait]
impl Workflows for RemoteStore {
    async fn seal(&self, tenant: &Name, id: &JobId) -> Result<BatchSealed, StoreError> {
        let path = format!("/v1/tenants/{tenant}/jobs/{id}/seal");
        let question = Question::post(path, &wire::Nothing {}, "seal a batch");
        let sealed = self.server.ask_about(question, &[Code::JobUnknown, Code::TooLate]).await?;
        Ok(sealed.map_or(BatchSealed::NotWaiting, |wire::SealedOne { status, .. }| status))
    }

    async fn waits_for(&self, tenant: &Name, id: &JobId, limit: usize) -> Result<Option<WaitsFor>, StoreError> {
        Ok(self.links(tenant, id, limit).await?.waits_for)
    }

    async fn waiters(&self, tenant: &Name, id: &JobId) -> Result<Vec<JobId>, StoreError> {
        Ok(self.links(tenant, id, 0).await?.waiters)
    }
}
