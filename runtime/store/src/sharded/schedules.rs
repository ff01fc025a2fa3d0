//! Schedules of tenants: in their current shards. One that remains in another moves before it is changed.

use std::sync::Arc;

use super::shard::Shard;
use super::store::ShardedStore;
use crate::composite::if_available;
use crate::{
    ManifestSchedules, ManifestStanding, ScheduleChange, ScheduleChanged, Schedules, StoreError, move_schedules,
};
use gristmill_core::job::Name;
use gristmill_core::schedule::{Offer, ScheduleId};

impl ShardedStore {
    pub(crate) async fn change_schedule(
        &self,
        id: &ScheduleId,
        change: &ScheduleChange,
    ) -> Result<ScheduleChanged, StoreError> {
        self.with_schedules_of(&id.topic.tenant, Some(id)).await?.change_schedule(id, change).await
    }

    pub(crate) async fn offer_schedules(
        &self,
        tenant: &Name,
        offers: &[Offer],
    ) -> Result<Vec<ManifestStanding>, StoreError> {
        self.with_schedules_of(tenant, None).await?.offer_schedules(tenant, offers).await
    }

    /// The tenant's current shard, with all its schedules in it, or with one of them.
    async fn with_schedules_of(&self, tenant: &Name, only: Option<&ScheduleId>) -> Result<Arc<Shard>, StoreError> {
        let lock = self.change_lock(tenant);
        let _exclusive = lock.write().await;
        let map = self.map();
        let (shards, current) = map.placed(tenant)?;
        for departed in shards.departed() {
            let moved = move_schedules(&**departed, &**current, tenant, only).await;
            if shards.is_moving { moved.map(Some) } else { if_available(moved) }?;
        }
        Ok(Arc::clone(current))
    }
}
