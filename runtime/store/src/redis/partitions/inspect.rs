//! Questions about jobs and topics of which partitions answer otherwise than other parts of a store.

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::{Partition, RedisStore};
use crate::composite::{Asking, CompositeStore};
use crate::joined::{any_of_each, ended_of_each};
use crate::pulled::end_pulled;
use crate::{Cancelled, Cursor, Heartbeat, ListJobs, Page, StateFilter, StoreError};
use gristmill_core::job::{JobId, Name, TopicId};

impl RedisStore {
    pub(crate) async fn tenants(&self) -> Result<Vec<Name>, StoreError> {
        let map = self.map().await?;
        self.server.listed_tenants("list tenants", |tenant| map.of_tenant(tenant)).await
    }

    pub(crate) async fn heartbeats(&self) -> Result<Vec<Heartbeat>, StoreError> {
        self.server.heartbeats().await
    }
}

#[async_trait]
impl ListJobs for RedisStore {
    /// Lists one partition after the other.
    async fn jobs(
        &self,
        topic: &TopicId,
        place: StateFilter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let count = self.map().await?.of_topic(topic);
        let mut number = after.map_or(0, |after| after.partition);
        let mut within = after.cloned();
        loop {
            let Page { jobs, next } = self.partition(number).jobs(topic, place, within.as_ref(), limit).await?;
            let in_next = Cursor { partition: number + 1, ..Cursor::at_front(place) };
            let next = match next {
                Some(next) => Some(Cursor { partition: number, ..next }),
                None => (number + 1 < count).then_some(in_next),
            };
            match next {
                Some(next) if jobs.is_empty() && next.partition > number => {
                    number = next.partition;
                    within = Some(next);
                }
                next => return Ok(Page { jobs, next }),
            }
        }
    }
}

impl RedisStore {
    pub(crate) async fn respawn(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        let map = self.map().await?;
        let held = self.held_elsewhere(&map, topic, ids).await?;
        let free: Vec<JobId> = ids.iter().filter(|id| !held.contains(*id)).cloned().collect();
        let free = &free[..];
        let ask = |partition: Partition| async move { partition.respawn(topic, free).await };
        let mut respawned = any_of_each(self.ask(Asking::Answer, topic, ask).await?).into_iter();
        Ok(ids.iter().map(|id| !held.contains(id) && respawned.next().unwrap_or_default()).collect())
    }

    pub(crate) async fn kill(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError> {
        let killed =
            self.ask(Asking::Answer, tenant, |partition| async move { partition.end(tenant, ids, true).await });
        let mut killed = ended_of_each(killed.await?);
        end_pulled(self, tenant, ids, &mut killed).await?;
        Ok(killed)
    }

    pub(crate) async fn set_paused(&self, topic: &TopicId, paused: bool) -> Result<bool, StoreError> {
        let count = self.read_map().await?.of_topic(topic);
        let by = &gristmill_metrics::actor();
        let ask = |partition: Partition| async move { partition.set_paused(topic, paused, by.as_deref()).await };
        Ok(self.ask_all(count, ask).await?.contains(&true))
    }

    pub(crate) async fn forget_topic(&self, topic: &TopicId) -> Result<bool, StoreError> {
        let count = self.map().await?.of_topic(topic);
        if count == 1 {
            return self.first().forget_topic(topic).await;
        }
        let has_jobs = |partition: Partition| async move {
            let counts = partition.counts(&topic.tenant).await?;
            Ok(counts.iter().any(|counts| counts.topic == *topic && counts.jobs() > 0))
        };
        let in_use = self.ask_all(count, has_jobs).await?;
        // If some have jobs, only these are asked: they refuse, and note that the topic is in use.
        let is_asked = |number: &u32| !in_use.contains(&true) || in_use.get(*number as usize) == Some(&true);
        let asked = (0..count).filter(is_asked).map(|number| self.partition(number));
        let forgotten = asked.map(|partition| async move { partition.forget_topic(topic).await });
        Ok(!try_join_all(forgotten).await?.contains(&false) && !in_use.contains(&true))
    }
}
