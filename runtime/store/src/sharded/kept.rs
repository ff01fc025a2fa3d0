//! Pages of results: of a tenant's shards one after the other.

use std::sync::Arc;

use super::shard::Shard;
use super::store::ShardedStore;
use crate::{Results, ResultsPage, StoreError};
use gristmill_core::job::Name;

impl ShardedStore {
    /// Of one shard after the other. An unavailable one is an error: its results would be left out.
    pub(crate) async fn results(
        &self,
        tenant: &Name,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ResultsPage, StoreError> {
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
}
