//! Questions about jobs and topics of which shards answer otherwise than other parts of a store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;

use super::shard::Shard;
use super::store::ShardedStore;
use super::work::in_time;
use crate::composite::{Asking, CompositeStore};
use crate::joined;
use crate::{Control, Heartbeat, JobView, Query, StoreError, TopicCounts};
use gristmill_core::job::{JobId, Name, TopicId, WorkerId};

impl ShardedStore {
    /// A job that is in two shards for a moment counts twice.
    pub(crate) async fn counts(&self, tenant: &Name) -> Result<Vec<TopicCounts>, StoreError> {
        let map = &self.map();
        let ask = |shard: Arc<Shard>| async move {
            let mut counts = shard.counts(tenant).await?;
            if !map.of(tenant).is_current(&shard) {
                counts.retain(|counts| counts.jobs() > 0 || !counts.totals.is_empty());
                // A pause only stops claims of jobs that are to move.
                counts.iter_mut().for_each(|counts| (counts.paused, counts.pause) = (false, None));
            }
            Ok(counts)
        };
        Ok(joined::counts(self.ask(Asking::Answer, tenant, ask).await?))
    }

    /// Prefers a job that is not finished, and among these the one in the current shard.
    ///
    /// # Errors
    /// No shard knows the job, and one of them does not answer.
    pub(crate) async fn job(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        let (mut found, mut problem) = (Vec::new(), None);
        let map = self.map();
        for shard in map.placed(tenant)?.0.old_first() {
            match shard.job(tenant, id).await {
                Ok(view) => found.push(view),
                Err(error) => problem = Some(error),
            }
        }
        match (joined::prefer(found), problem) {
            (None, Some(error)) => Err(error),
            (found, _) => Ok(found),
        }
    }

    /// Of an unavailable shard: the tenants that are placed there.
    pub(crate) async fn tenants(&self) -> Result<Vec<Name>, StoreError> {
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

    /// Those of the available shards; of a worker that several have, the last heartbeat.
    pub(crate) async fn heartbeats(&self) -> Result<Vec<Heartbeat>, StoreError> {
        let mut heartbeats: BTreeMap<WorkerId, Heartbeat> = BTreeMap::new();
        let answers = join_all(self.shards().iter().map(|shard| in_time(shard, shard.heartbeats()))).await;
        let none_answers = answers.iter().all(Result::is_err);
        for answer in answers {
            match answer {
                Ok(here) => here.into_iter().for_each(|here| {
                    let last = heartbeats.entry(here.worker.clone()).or_insert_with(|| here.clone());
                    if here.silent_for < last.silent_for {
                        *last = here;
                    }
                }),
                Err(error) if none_answers || !error.is_unavailable() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(heartbeats.into_values().collect())
    }
}

impl ShardedStore {
    /// Pauses the topic in every shard of a moving tenant. Resumes it in the current one only: what is elsewhere moves there.
    pub(crate) async fn set_paused(&self, topic: &TopicId, paused: bool) -> Result<bool, StoreError> {
        let lock = self.change_lock(&topic.tenant);
        let _shared = lock.read().await;
        let map = self.map();
        let (shards, current) = map.placed(&topic.tenant)?;
        for shard in shards.departed().filter(|_| paused && shards.is_moving) {
            shard.set_paused(topic, true).await?;
        }
        current.set_paused(topic, paused).await
    }

    /// Forgets the topic in each of the tenant's shards, up to the first one in which the topic has jobs.
    pub(crate) async fn forget_topic(&self, topic: &TopicId) -> Result<bool, StoreError> {
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
