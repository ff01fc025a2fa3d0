//! Questions about jobs and topics, and changes of waiting and dead jobs: in all shards of a tenant, as if they were one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::shard::Shard;
use super::store::ShardedStore;
use super::work::in_time;
use crate::joined::{dead_between, dead_until, first_known, latest_end, latest_ends, prefer};
use crate::{
    Cancelled, Control, DeadJob, DeadJobs, Heartbeat, JobChanged, JobView, Query, StoreError, StoreSize, TopicCounts,
    Usage,
};
use gristmill_core::job::{JobChange, JobId, Name, Progress, TopicId, WorkerId};

#[async_trait]
impl Query for ShardedStore {
    /// A job that is in two shards for a moment counts twice.
    async fn counts(&self, tenant: &Name) -> Result<Vec<TopicCounts>, StoreError> {
        let map = self.map();
        let (_, current) = map.placed(tenant)?;
        let mut topics: BTreeMap<TopicId, TopicCounts> = BTreeMap::new();
        for (shard, counted) in self.ask_each(tenant, |shard| async move { shard.counts(tenant).await }).await? {
            for mut counts in counted {
                // In a shard that the tenant has left, a pause only stops claims of jobs that are to move.
                counts.paused &= shard == *current;
                counts.pause.take_if(|_| !counts.paused);
                match topics.get_mut(&counts.topic) {
                    Some(known) => known.add(counts),
                    None if shard != *current && counts.jobs() == 0 && counts.totals.is_empty() => {}
                    None => drop(topics.insert(counts.topic.clone(), counts)),
                }
            }
        }
        Ok(topics.into_values().collect())
    }

    /// Prefers a job that is not finished, and among these the one in the current shard.
    ///
    /// # Errors
    /// No shard knows the job, and one of them does not answer.
    async fn job(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        let (mut found, mut problem): (Option<JobView>, _) = (None, None);
        let map = self.map();
        for shard in map.placed(tenant)?.0.old_first() {
            match shard.job(tenant, id).await {
                Ok(Some(view)) => found = found.into_iter().chain([view]).reduce(prefer),
                Ok(None) => {}
                Err(error) => problem = Some(error),
            }
        }
        match (found, problem) {
            (None, Some(error)) => Err(error),
            (found, _) => Ok(found),
        }
    }

    async fn ended(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        let asked = self.ask_each(tenant, |shard| async move { shard.ended(tenant, id).await }).await?;
        Ok(asked.into_iter().filter_map(|(_, found)| found).reduce(latest_end))
    }

    async fn ended_jobs(&self, topic: &TopicId, limit: usize) -> Result<Vec<JobView>, StoreError> {
        let asked = self.ask_each(&topic.tenant, |shard| async move { shard.ended_jobs(topic, limit).await }).await?;
        Ok(latest_ends(asked.into_iter().flat_map(|(_, found)| found), limit))
    }

    async fn progress(&self, tenant: &Name, deliveries: &[(JobId, u64)]) -> Result<Vec<Option<Progress>>, StoreError> {
        let asked = self.ask_each(tenant, |shard| async move { shard.progress(tenant, deliveries).await }).await?;
        Ok(first_known(deliveries.len(), asked.into_iter().map(|(_, known)| known).collect()))
    }

    async fn jobs_of_key(&self, topic: &TopicId, key: &str, limit: usize) -> Result<Option<Vec<JobId>>, StoreError> {
        let ask = |shard: Arc<Shard>| async move { shard.jobs_of_key(topic, key, limit).await };
        let mut found = BTreeSet::new();
        for (_, ids) in self.ask_each(&topic.tenant, ask).await? {
            let Some(ids) = ids else { return Ok(None) };
            found.extend(ids);
        }
        Ok((found.len() <= limit).then(|| found.into_iter().collect()))
    }

    async fn unique_holder(&self, topic: &TopicId, value: &str) -> Result<Option<JobId>, StoreError> {
        let ask = |shard: Arc<Shard>| async move { shard.unique_holder(topic, value).await };
        Ok(self.ask_each(&topic.tenant, ask).await?.into_iter().find_map(|(_, held)| held))
    }

    /// The place in the shard where the job is.
    async fn jobs_ahead(&self, topic: &TopicId, id: &JobId) -> Result<Option<u64>, StoreError> {
        let asked = self.ask_each(&topic.tenant, |shard| async move { shard.jobs_ahead(topic, id).await }).await?;
        Ok(asked.into_iter().find_map(|(_, ahead)| ahead))
    }

    /// Of an unavailable shard: the tenants that are placed there.
    async fn tenants(&self) -> Result<Vec<Name>, StoreError> {
        let (map, mut tenants) = (self.map(), BTreeSet::new());
        let answers = join_all(self.shards().iter().map(|shard| shard.tenants())).await;
        let none_answers = answers.iter().all(Result::is_err);
        for (shard, answer) in self.shards().iter().zip(answers) {
            match answer {
                Ok(here) => tenants.extend(here),
                Err(error) if none_answers || !error.is_unavailable() => return Err(error),
                Err(_) => tenants.extend(map.tenants().filter(|tenant| map.of(tenant).is_current(shard)).cloned()),
            }
        }
        Ok(tenants.into_iter().collect())
    }

    /// Those of the available shards; of a worker that several have heard, the last heartbeat.
    async fn heartbeats(&self) -> Result<Vec<Heartbeat>, StoreError> {
        let mut heard: BTreeMap<WorkerId, Heartbeat> = BTreeMap::new();
        let answers = join_all(self.shards().iter().map(|shard| in_time(shard, shard.heartbeats()))).await;
        let none_answers = answers.iter().all(Result::is_err);
        for answer in answers {
            match answer {
                Ok(here) => here.into_iter().for_each(|here| {
                    let last = heard.entry(here.worker.clone()).or_insert_with(|| here.clone());
                    if here.silent_for < last.silent_for {
                        *last = here;
                    }
                }),
                Err(error) if none_answers || !error.is_unavailable() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(heard.into_values().collect())
    }
}

#[async_trait]
impl Usage for ShardedStore {
    async fn stored_bytes(&self, tenant: &Name) -> Result<u64, StoreError> {
        let counted = self.ask_each(tenant, |shard| async move { shard.stored_bytes(tenant).await }).await?;
        Ok(counted.into_iter().map(|(_, bytes)| bytes).sum())
    }

    async fn store_size(&self, tenant: &Name) -> Result<StoreSize, StoreError> {
        self.map().placed(tenant)?.1.store_size(tenant).await
    }
}

#[async_trait]
impl DeadJobs for ShardedStore {
    /// Of a tenant whose jobs are in several shards, each shard is asked from its first dead job on.
    async fn dead(&self, topic: &TopicId, skip: usize, limit: usize) -> Result<Vec<DeadJob>, StoreError> {
        let map = self.map();
        let (shards, current) = map.placed(&topic.tenant)?;
        if !shards.is_moving {
            return current.dead(topic, skip, limit).await;
        }
        let end = skip.saturating_add(limit);
        let ask = |shard: Arc<Shard>| async move {
            let shard = &shard;
            dead_until(end, |skip, limit| shard.dead(topic, skip, limit)).await
        };
        let dead = self.ask_each(&topic.tenant, ask).await?;
        Ok(dead_between(dead.into_iter().flat_map(|(_, dead)| dead), skip, limit))
    }

    async fn respawn(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        self.change_each(&topic.tenant, ids, |shard| async move { shard.respawn(topic, ids).await }).await
    }

    async fn delete_dead(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        self.change_each(&topic.tenant, ids, |shard| async move { shard.delete_dead(topic, ids).await }).await
    }
}

#[async_trait]
impl Control for ShardedStore {
    async fn cancel(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError> {
        self.end_each(tenant, ids, |shard| async move { shard.cancel(tenant, ids).await }).await
    }

    async fn kill(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError> {
        self.end_each(tenant, ids, |shard| async move { shard.kill(tenant, ids).await }).await
    }

    /// A job that is in two shards for a moment is changed in both.
    async fn change(&self, tenant: &Name, ids: &[JobId], change: &JobChange) -> Result<Vec<JobChanged>, StoreError> {
        let lock = self.change_lock(tenant);
        let _shared = lock.read().await;
        let mut answers = vec![JobChanged::TooLate; ids.len()];
        for (_, changed) in
            self.ask_each(tenant, |shard| async move { shard.change(tenant, ids, change).await }).await?
        {
            answers.iter_mut().zip(changed).for_each(|(answer, here)| *answer = here.max(*answer));
        }
        Ok(answers)
    }

    /// Pauses the topic in every shard of a moving tenant. Resumes it in the current one only: what is elsewhere moves there.
    async fn set_paused(&self, topic: &TopicId, paused: bool) -> Result<bool, StoreError> {
        let lock = self.change_lock(&topic.tenant);
        let _shared = lock.read().await;
        let map = self.map();
        let (shards, current) = map.placed(&topic.tenant)?;
        for shard in shards.left().filter(|_| paused && shards.is_moving) {
            shard.set_paused(topic, true).await?;
        }
        current.set_paused(topic, paused).await
    }

    /// Forgets the topic in each of the tenant's shards, up to the first one in which the topic has jobs.
    async fn forget_topic(&self, topic: &TopicId) -> Result<bool, StoreError> {
        let lock = self.change_lock(&topic.tenant);
        let _shared = lock.read().await;
        let map = self.map();
        for shard in map.placed(&topic.tenant)?.0.old_first() {
            if !shard.forget_topic(topic).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl ShardedStore {
    /// Cancels or kills jobs in each of the tenant's shards: one that is in two for a moment, in both.
    async fn end_each<F: Future<Output = Result<Vec<Cancelled>, StoreError>>>(
        &self,
        tenant: &Name,
        ids: &[JobId],
        end: impl Fn(Arc<Shard>) -> F,
    ) -> Result<Vec<Cancelled>, StoreError> {
        let lock = self.change_lock(tenant);
        let _shared = lock.read().await;
        let mut answers = vec![Cancelled::TooLate; ids.len()];
        for (_, ended) in self.ask_each(tenant, end).await? {
            for (answer, here) in answers.iter_mut().zip(ended) {
                if *answer == Cancelled::TooLate || here == Cancelled::Gone {
                    *answer = here;
                }
            }
        }
        Ok(answers)
    }

    /// Changes waiting or dead jobs in each of the tenant's shards. Returns for each job whether one of them changed it.
    async fn change_each<F: Future<Output = Result<Vec<bool>, StoreError>>>(
        &self,
        tenant: &Name,
        ids: &[JobId],
        change: impl Fn(Arc<Shard>) -> F,
    ) -> Result<Vec<bool>, StoreError> {
        let lock = self.change_lock(tenant);
        let _shared = lock.read().await;
        let mut answers = vec![false; ids.len()];
        for (_, changed) in self.ask_each(tenant, change).await? {
            answers.iter_mut().zip(changed).for_each(|(answer, here)| *answer |= here);
        }
        Ok(answers)
    }
}
