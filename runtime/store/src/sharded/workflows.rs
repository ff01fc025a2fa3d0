//! Jobs that wait for other jobs: in whichever shard of their tenant they are.

use async_trait::async_trait;

use super::store::ShardedStore;
use crate::{BatchSealed, StoreError, WaitsFor, Workflows};
use gristmill_core::job::{JobId, Name};

#[async_trait]
impl Workflows for ShardedStore {
    async fn seal(&self, tenant: &Name, id: &JobId) -> Result<BatchSealed, StoreError> {
        let answers = self.ask_each(tenant, |shard| async move { shard.seal(tenant, id).await }).await?;
        let known = answers.into_iter().map(|(_, answer)| answer).find(|answer| *answer != BatchSealed::NotWaiting);
        Ok(known.unwrap_or(BatchSealed::NotWaiting))
    }

    async fn waits_for(&self, tenant: &Name, id: &JobId, limit: usize) -> Result<Option<WaitsFor>, StoreError> {
        let found = self.ask_each(tenant, |shard| async move { shard.waits_for(tenant, id, limit).await }).await?;
        Ok(found.into_iter().find_map(|(_, found)| found))
    }

    async fn waiters(&self, tenant: &Name, id: &JobId) -> Result<Vec<JobId>, StoreError> {
        let found = self.ask_each(tenant, |shard| async move { shard.waiters(tenant, id).await }).await?;
        Ok(found.into_iter().flat_map(|(_, found)| found).collect())
    }
}
