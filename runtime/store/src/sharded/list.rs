//! Pages of jobs: of a tenant's shards one after the other.

use std::sync::Arc;

use async_trait::async_trait;

use super::shard::Shard;
use super::shard_map::TenantShards;
use super::store::ShardedStore;
use crate::composite::if_available;
use crate::list::Stage;
use crate::{Cursor, ListJobs, Page, StateFilter, StoreError};
use gristmill_core::job::TopicId;

#[async_trait]
impl ListJobs for ShardedStore {
    /// In the order in which jobs move, so that none is missed on its way; one that moves between two pages may be listed
    /// twice. A page is of one shard, and the next page begins in the next shard when that one has no more. A shard that the
    /// tenant left earlier is left out while it is unavailable.
    async fn jobs(
        &self,
        topic: &TopicId,
        place: StateFilter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let map = self.map();
        let (shards, _) = map.placed(&topic.tenant)?;
        if limit == 0 {
            return Ok(Page { jobs: Vec::new(), next: after.cloned() });
        }
        let (rest, mut within) = unlisted(shards, place, after);
        let mut rest = rest.into_iter().peekable();
        while let Some(shard) = rest.next() {
            let listed = shard.jobs(topic, place, within.take().as_ref(), limit).await;
            let Page { jobs, next } =
                if shards.requires(&shard) { listed? } else { if_available(listed)?.unwrap_or_default() };
            if let Some(next) = next {
                return Ok(Page { jobs, next: Some(next.within(shard.name.clone())) });
            }
            if !jobs.is_empty() {
                let next = rest.peek().map(|shard| Cursor::at_beginning(place, shard.name.clone()));
                return Ok(Page { jobs, next });
            }
        }
        Ok(Page::default())
    }
}

/// The shards that are not listed to their end yet, and the cursor within the first of them. All of them if the cursor names
/// none of them: a job may be listed twice, and none is left out.
fn unlisted(shards: &TenantShards, place: StateFilter, after: Option<&Cursor>) -> (Vec<Arc<Shard>>, Option<Cursor>) {
    let all: Vec<Arc<Shard>> = shards.old_first().cloned().collect();
    let Some((after, Stage { store, is_new })) = after.and_then(|after| Some((after, after.stage.as_ref()?))) else {
        return (all, None);
    };
    let rest: Vec<Arc<Shard>> = all.iter().skip_while(|shard| shard.name != *store).cloned().collect();
    if rest.is_empty() {
        return (all, None);
    }
    // A cursor of another place is for the store to refuse.
    let is_within = !is_new || after.place != place;
    (rest, is_within.then(|| Cursor { stage: None, ..after.clone() }))
}
