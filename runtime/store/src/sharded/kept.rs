//! What is kept for a time of jobs that are over, in all shards of a tenant.

use std::sync::Arc;

use async_trait::async_trait;

use super::shard::Shard;
use super::store::ShardedStore;
use crate::{Results, ResultsPage, StoreError, UniqueHold, Uniques};
use gristmill_core::job::{JobId, Name, TopicId};

#[async_trait]
impl Results for ShardedStore {
    /// Of one shard after the other. An unavailable one is an error: its results would be left out.
    async fn results(&self, tenant: &Name, after: Option<&str>, limit: usize) -> Result<ResultsPage, StoreError> {
        let (begin, within) = match after.and_then(|after| after.split_once('~')) {
            Some((shard, within)) => (Some(shard), Some(within).filter(|within| !within.is_empty())),
            None => (None, None),
        };
        let map = self.map();
        let (shards, _) = map.placed(tenant)?;
        let is_before = |shard: &&Arc<Shard>| begin.is_some_and(|begin| shard.name.as_str() != begin);
        let mut rest = shards.old_first().skip_while(is_before).peekable();
        let Some(shard) = rest.next() else { return Ok(ResultsPage::default()) };
        let ResultsPage { jobs, next } = shard.results(tenant, within, limit).await?;
        let next = match next {
            Some(next) => Some(format!("{}~{next}", shard.name)),
            None => rest.peek().map(|shard| format!("{}~", shard.name)),
        };
        Ok(ResultsPage { jobs, next })
    }

    async fn forget_results(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        let mut was_kept = vec![false; ids.len()];
        let ask = |shard: Arc<Shard>| async move { shard.forget_results(tenant, ids).await };
        for (_, here) in self.ask_each(tenant, ask).await? {
            was_kept.iter_mut().zip(here).for_each(|(was_kept, here)| *was_kept |= here);
        }
        Ok(was_kept)
    }
}

#[async_trait]
impl Uniques for ShardedStore {
    async fn unique_hold(&self, topic: &TopicId, value: &str) -> Result<Option<UniqueHold>, StoreError> {
        let ask = |shard: Arc<Shard>| async move { shard.unique_hold(topic, value).await };
        Ok(self.ask_each(&topic.tenant, ask).await?.into_iter().find_map(|(_, held)| held))
    }

    async fn free_unique(&self, topic: &TopicId, value: &str) -> Result<bool, StoreError> {
        let ask = |shard: Arc<Shard>| async move { shard.free_unique(topic, value).await };
        Ok(self.ask_each(&topic.tenant, ask).await?.into_iter().any(|(_, freed)| freed))
    }
}
