//! Both ends of a move of jobs, as if the shards were one store.

use std::ops::RangeInclusive;

use async_trait::async_trait;

use super::store::ShardedStore;
use crate::parts::ask_by_store;
use crate::{Imported, StoreError, StoredJob, StoredResult, StoredState, StoredWindow, TakenBill, Transfer};
use gristmill_core::bill::Day;
use gristmill_core::job::{JobId, Name, TopicId};

#[async_trait]
impl Transfer for ShardedStore {
    async fn export(&self, topic: &TopicId, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
        let (map, mut jobs) = (self.map(), Vec::new());
        for shard in map.placed(&topic.tenant)?.0.old_first() {
            jobs.extend(shard.export(topic, limit - jobs.len()).await?);
        }
        Ok(jobs)
    }

    async fn import(&self, jobs: &[StoredJob]) -> Result<Vec<Imported>, StoreError> {
        let map = self.map();
        for stored in jobs {
            map.placed(&stored.job.spec.topic.tenant)?;
        }
        let current = |_, stored: &StoredJob| map.of(&stored.job.spec.topic.tenant).current().cloned();
        // Each job has a current shard, so each answer is replaced.
        let mut answers = vec![Imported::IdTaken; jobs.len()];
        for part in ask_by_store(jobs, current, |shard, jobs| async move { shard.import(&jobs).await }).await {
            part.put_into(&mut answers)?;
        }
        Ok(answers)
    }

    async fn remove_exported(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        let mut answers = vec![false; ids.len()];
        for shard in self.map().of(&topic.tenant).old_first() {
            let removed = shard.remove_exported(topic, ids).await?;
            answers.iter_mut().zip(removed).for_each(|(answer, here)| *answer |= here);
        }
        Ok(answers)
    }

    async fn clear_move_marks(&self, tenant: &Name, ids: &[JobId]) -> Result<(), StoreError> {
        for shard in self.map().of(tenant).old_first() {
            shard.clear_move_marks(tenant, ids).await?;
        }
        Ok(())
    }

    async fn export_windows(&self, topic: &TopicId, limit: usize) -> Result<Vec<StoredWindow>, StoreError> {
        self.map().placed(&topic.tenant)?.1.export_windows(topic, limit).await
    }

    async fn import_windows(&self, topic: &TopicId, windows: &[StoredWindow]) -> Result<(), StoreError> {
        self.map().placed(&topic.tenant)?.1.import_windows(topic, windows).await
    }

    async fn remove_windows(&self, topic: &TopicId, windows: &[StoredWindow]) -> Result<(), StoreError> {
        self.map().placed(&topic.tenant)?.1.remove_windows(topic, windows).await
    }

    async fn has_links(&self, tenant: &Name) -> Result<bool, StoreError> {
        self.map().placed(tenant)?.1.has_links(tenant).await
    }

    async fn jobs_with_result(&self, tenant: &Name) -> Result<Vec<JobId>, StoreError> {
        self.map().placed(tenant)?.1.jobs_with_result(tenant).await
    }

    async fn export_results(&self, tenant: &Name, jobs: &[JobId]) -> Result<Vec<StoredResult>, StoreError> {
        self.map().placed(tenant)?.1.export_results(tenant, jobs).await
    }

    async fn import_results(&self, tenant: &Name, results: &[StoredResult]) -> Result<u64, StoreError> {
        self.map().placed(tenant)?.1.import_results(tenant, results).await
    }

    async fn keys_with_state(&self, tenant: &Name) -> Result<Vec<(TopicId, String)>, StoreError> {
        self.map().placed(tenant)?.1.keys_with_state(tenant).await
    }

    async fn export_state(&self, topic: &TopicId, key: &str) -> Result<Option<StoredState>, StoreError> {
        self.map().placed(&topic.tenant)?.1.export_state(topic, key).await
    }

    async fn import_state(&self, topic: &TopicId, key: &str, state: &StoredState) -> Result<bool, StoreError> {
        self.map().placed(&topic.tenant)?.1.import_state(topic, key, state).await
    }

    async fn take_bills(
        &self,
        tenant: &Name,
        days: &RangeInclusive<Day>,
        mark: u64,
    ) -> Result<Vec<TakenBill>, StoreError> {
        self.map().placed(tenant)?.1.take_bills(tenant, days, mark).await
    }

    async fn drop_taken_bill(&self, tenant: &Name, day: Day, mark: u64) -> Result<(), StoreError> {
        self.map().placed(tenant)?.1.drop_taken_bill(tenant, day, mark).await
    }
}
