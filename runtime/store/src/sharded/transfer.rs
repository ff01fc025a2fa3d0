//! Both ends of a move of jobs, as if the shards were one store.

use super::store::ShardedStore;
use crate::composite::answer_by_store;
use crate::{Imported, StoreError, StoredJob, Transfer};
use gristmill_core::job::TopicId;

impl ShardedStore {
    pub(crate) async fn export(&self, topic: &TopicId, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
        let (map, mut jobs) = (self.map(), Vec::new());
        for shard in map.placed(&topic.tenant)?.0.old_first() {
            jobs.extend(shard.export(topic, limit - jobs.len()).await?);
        }
        Ok(jobs)
    }

    pub(crate) async fn import(&self, jobs: &[StoredJob]) -> Result<Vec<Imported>, StoreError> {
        let map = self.map();
        for stored in jobs {
            map.placed(&stored.job.spec.topic.tenant)?;
        }
        let current = |_, stored: &StoredJob| map.of(&stored.job.spec.topic.tenant).current().cloned();
        // Each job has a current shard, so each answer is replaced.
        let answers = vec![Imported::IdTaken; jobs.len()];
        answer_by_store(jobs, current, answers, |shard, jobs| async move { shard.import(&jobs).await }).await
    }
}
