//! Questions about jobs and topics, and changes of waiting and dead jobs: in all partitions, as if they were one.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::{Partition, RedisStore};
use crate::joined::{dead_between, dead_until, first_known, latest_end, latest_ends, prefer};
use crate::pulled::end_pulled;
use crate::{
    Cancelled, Control, Cursor, DeadJob, DeadJobs, Heartbeat, JobChanged, JobView, ListJobs, Page, Query, StateFilter,
    StoreError, StoreSize, TopicCounts, Usage,
};
use gristmill_core::job::{JobChange, JobId, Name, Progress, TopicId};

#[async_trait]
impl Query for RedisStore {
    async fn counts(&self, tenant: &Name) -> Result<Vec<TopicCounts>, StoreError> {
        let count = self.map().await?.of_tenant(tenant);
        let counted = self.ask_all(count, |partition| async move { partition.counts(tenant).await }).await?;
        let mut topics: BTreeMap<TopicId, TopicCounts> = BTreeMap::new();
        for counts in counted.into_iter().flatten() {
            match topics.get_mut(&counts.topic) {
                Some(known) => known.add(counts),
                None => drop(topics.insert(counts.topic.clone(), counts)),
            }
        }
        Ok(topics.into_values().collect())
    }

    async fn job(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        let count = self.map().await?.of_tenant(tenant);
        let found = self.ask_all(count, |partition| async move { partition.job(tenant, id).await }).await?;
        Ok(found.into_iter().flatten().reduce(prefer))
    }

    async fn ended(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        let count = self.map().await?.of_tenant(tenant);
        let found = self.ask_all(count, |partition| async move { partition.ended(tenant, id).await }).await?;
        Ok(found.into_iter().flatten().reduce(latest_end))
    }

    async fn ended_jobs(&self, topic: &TopicId, limit: usize) -> Result<Vec<JobView>, StoreError> {
        let count = self.map().await?.of_topic(topic);
        let found = self.ask_all(count, |partition| async move { partition.ended_jobs(topic, limit).await }).await?;
        Ok(latest_ends(found.into_iter().flatten(), limit))
    }

    async fn progress(&self, tenant: &Name, deliveries: &[(JobId, u64)]) -> Result<Vec<Option<Progress>>, StoreError> {
        let count = self.map().await?.of_tenant(tenant);
        let ask = |partition: Partition| async move { partition.progress(tenant, deliveries).await };
        Ok(first_known(deliveries.len(), self.ask_all(count, ask).await?))
    }

    async fn jobs_of_key(&self, topic: &TopicId, key: &str, limit: usize) -> Result<Option<Vec<JobId>>, StoreError> {
        let count = self.map().await?.of_topic(topic);
        let ask = |partition: Partition| async move { partition.jobs_of_key(topic, key, limit).await };
        let found: BTreeSet<JobId> = self.ask_all(count, ask).await?.into_iter().flatten().collect();
        Ok((found.len() <= limit).then(|| found.into_iter().collect()))
    }

    async fn unique_holder(&self, topic: &TopicId, value: &str) -> Result<Option<JobId>, StoreError> {
        let count = self.map().await?.of_topic(topic);
        let ask = |partition: Partition| async move { partition.unique_holder(topic, value).await };
        Ok(self.ask_all(count, ask).await?.into_iter().flatten().next())
    }

    /// Of a topic that is spread: in the job's partition.
    async fn jobs_ahead(&self, topic: &TopicId, id: &JobId) -> Result<Option<u64>, StoreError> {
        let count = self.map().await?.of_topic(topic);
        let found = self.ask_all(count, |partition| async move { partition.jobs_ahead(topic, id).await }).await?;
        Ok(found.into_iter().flatten().next())
    }

    async fn tenants(&self) -> Result<Vec<Name>, StoreError> {
        let map = self.map().await?;
        self.server.listed_tenants("list tenants", |tenant| map.of_tenant(tenant)).await
    }

    async fn heartbeats(&self) -> Result<Vec<Heartbeat>, StoreError> {
        self.server.heartbeats().await
    }
}

#[async_trait]
impl ListJobs for RedisStore {
    /// Of one partition after the other.
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

#[async_trait]
impl DeadJobs for RedisStore {
    /// Of a topic that is spread, each partition is asked from its first dead job on.
    async fn dead(&self, topic: &TopicId, skip: usize, limit: usize) -> Result<Vec<DeadJob>, StoreError> {
        let count = self.map().await?.of_topic(topic);
        if count == 1 {
            return self.first().dead(topic, skip, limit).await;
        }
        let end = skip.saturating_add(limit);
        let ask = |partition: Partition| async move {
            let partition = &partition;
            dead_until(end, |skip, limit| partition.dead(topic, skip, limit)).await
        };
        let dead = self.ask_all(count, ask).await?;
        Ok(dead_between(dead.into_iter().flatten(), skip, limit))
    }

    async fn respawn(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        let map = self.map().await?;
        let held = self.held_elsewhere(&map, topic, ids).await?;
        let free: Vec<JobId> = ids.iter().filter(|id| !held.contains(*id)).cloned().collect();
        let free = &free[..];
        let ask = |partition: Partition| async move { partition.respawn(topic, free).await };
        let mut respawned = any(free.len(), self.ask_all(map.of_topic(topic), ask).await?).into_iter();
        Ok(ids.iter().map(|id| !held.contains(id) && respawned.next().unwrap_or_default()).collect())
    }

    async fn delete_dead(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        let count = self.map().await?.of_topic(topic);
        let deleted = self.ask_all(count, |partition| async move { partition.delete_dead(topic, ids).await }).await?;
        Ok(any(ids.len(), deleted))
    }
}

#[async_trait]
impl Control for RedisStore {
    async fn cancel(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError> {
        self.end(tenant, ids, false).await
    }

    async fn kill(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError> {
        let mut killed = self.end(tenant, ids, true).await?;
        end_pulled(self, tenant, ids, &mut killed).await?;
        Ok(killed)
    }

    async fn change(&self, tenant: &Name, ids: &[JobId], change: &JobChange) -> Result<Vec<JobChanged>, StoreError> {
        let count = self.map().await?.of_tenant(tenant);
        let mut answers = vec![JobChanged::TooLate; ids.len()];
        let ask = |partition: Partition| async move { partition.change(tenant, ids, change).await };
        for part in self.ask_all(count, ask).await? {
            answers.iter_mut().zip(part).for_each(|(answer, here)| *answer = here.max(*answer));
        }
        Ok(answers)
    }

    async fn set_paused(&self, topic: &TopicId, paused: bool) -> Result<bool, StoreError> {
        let count = self.read_map().await?.of_topic(topic);
        let by = &gristmill_metrics::actor();
        let ask = |partition: Partition| async move { partition.set_paused(topic, paused, by.as_deref()).await };
        Ok(self.ask_all(count, ask).await?.contains(&true))
    }

    async fn forget_topic(&self, topic: &TopicId) -> Result<bool, StoreError> {
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

impl RedisStore {
    async fn end(&self, tenant: &Name, ids: &[JobId], kill: bool) -> Result<Vec<Cancelled>, StoreError> {
        let count = self.map().await?.of_tenant(tenant);
        let mut cancelled = vec![Cancelled::TooLate; ids.len()];
        for part in self.ask_all(count, |partition| async move { partition.cancel(tenant, ids, kill).await }).await? {
            let found = cancelled.iter_mut().zip(part).filter(|(_, here)| *here != Cancelled::TooLate);
            found.for_each(|(answer, here)| *answer = here);
        }
        Ok(cancelled)
    }
}

#[async_trait]
impl Usage for RedisStore {
    async fn stored_bytes(&self, tenant: &Name) -> Result<u64, StoreError> {
        let count = self.map().await?.of_tenant(tenant);
        let bytes = self.ask_all(count, |partition| async move { partition.stored_bytes(tenant).await }).await?;
        Ok(bytes.into_iter().sum())
    }

    /// Of the server that has the tenant's first partition.
    async fn store_size(&self, tenant: &Name) -> Result<StoreSize, StoreError> {
        self.first().store_size(tenant).await
    }
}

/// For each of so many items, whether one of the answers says so.
pub(super) fn any(items: usize, answers: Vec<Vec<bool>>) -> Vec<bool> {
    let mut any = vec![false; items];
    for answer in answers {
        any.iter_mut().zip(answer).for_each(|(any, here)| *any |= here);
    }
    any
}
