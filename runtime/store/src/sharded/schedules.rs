//! Schedules of tenants: in their current shards. One that is left in another moves before it is changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::shard::Shard;
use super::store::ShardedStore;
use crate::parts::if_available;
use crate::{
    ManifestSchedules, ManifestStanding, ScheduleChange, ScheduleChanged, Schedules, StoreError, StoredSchedule,
    move_schedules,
};
use gristmill_core::job::Name;
use gristmill_core::schedule::{Offer, ScheduleId};

#[async_trait]
impl Schedules for ShardedStore {
    /// One that is in two shards for a moment is listed as the current one has it.
    async fn schedules(&self, tenant: &Name, only: Option<&ScheduleId>) -> Result<Vec<StoredSchedule>, StoreError> {
        let found = self.ask_each(tenant, |shard| async move { shard.schedules(tenant, only).await }).await?;
        let by_id = found.into_iter().flat_map(|(_, found)| found).map(|found| (found.id.clone(), found));
        Ok(by_id.collect::<BTreeMap<_, _>>().into_values().collect())
    }

    async fn change_schedule(&self, id: &ScheduleId, change: &ScheduleChange) -> Result<ScheduleChanged, StoreError> {
        self.with_schedules_of(&id.topic.tenant, Some(id)).await?.change_schedule(id, change).await
    }
}

#[async_trait]
impl ManifestSchedules for ShardedStore {
    async fn offer_schedules(&self, tenant: &Name, offers: &[Offer]) -> Result<Vec<ManifestStanding>, StoreError> {
        self.with_schedules_of(tenant, None).await?.offer_schedules(tenant, offers).await
    }
}

impl ShardedStore {
    /// The tenant's current shard, with all its schedules in it, or with one of them.
    async fn with_schedules_of(&self, tenant: &Name, only: Option<&ScheduleId>) -> Result<Arc<Shard>, StoreError> {
        let lock = self.change_lock(tenant);
        let _exclusive = lock.write().await;
        let map = self.map();
        let (shards, current) = map.placed(tenant)?;
        for left in shards.left() {
            let moved = move_schedules(&**left, &**current, tenant, only).await;
            if shards.is_moving { moved.map(Some) } else { if_available(moved) }?;
        }
        Ok(Arc::clone(current))
    }
}
