//! Moving jobs to and from another store: out of all partitions, and each into its own.

use std::ops::RangeInclusive;

use async_trait::async_trait;

use super::RedisStore;
use crate::parts::ask_by_store;
use crate::{Imported, StoreError, StoredJob, StoredResult, StoredState, StoredWindow, TakenBill, Transfer};
use gristmill_core::bill::Day;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;

#[async_trait]
impl Transfer for RedisStore {
    async fn export(&self, topic: &TopicId, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
        let mut jobs = Vec::new();
        for number in 0..self.map().await?.of_topic(topic) {
            jobs.extend(self.partition(number).export(topic, limit - jobs.len()).await?);
        }
        Ok(jobs)
    }

    async fn import(&self, jobs: &[StoredJob]) -> Result<Vec<Imported>, StoreError> {
        let map = self.map().await?;
        let now = map.now();
        let known = if map.is_plain() { Vec::new() } else { self.earlier_imports((&map, now), jobs).await? };
        let choose = |position: usize, stored: &StoredJob| {
            let before = known.get(position).copied().flatten();
            Some(before.unwrap_or_else(|| map.of_job(&stored.job.spec, now)))
        };
        let parts = ask_by_store(jobs, choose, |number, jobs| {
            let partition = self.partition(number);
            async move { partition.import(&jobs).await }
        });
        let mut answers = vec![Imported::IdTaken; jobs.len()];
        for part in parts.await {
            part.put_into(&mut answers)?;
        }
        Ok(answers)
    }

    /// An id is removed from one partition, in the order in which jobs are exported.
    async fn remove_exported(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        let mut answers = vec![false; ids.len()];
        for number in 0..self.map().await?.of_topic(topic) {
            let left: Vec<usize> = (0..ids.len()).filter(|position| answers.get(*position) == Some(&false)).collect();
            let some: Vec<JobId> = left.iter().filter_map(|position| ids.get(*position)).cloned().collect();
            let removed = self.partition(number).remove_exported(topic, &some).await?;
            for (position, removed) in left.into_iter().zip(removed) {
                if let Some(answer) = answers.get_mut(position) {
                    *answer = removed;
                }
            }
        }
        Ok(answers)
    }

    async fn clear_move_marks(&self, tenant: &Name, ids: &[JobId]) -> Result<(), StoreError> {
        let count = self.map().await?.of_tenant(tenant);
        self.ask_all(count, |partition| async move { partition.clear_move_marks(tenant, ids).await }).await.map(drop)
    }

    async fn export_windows(&self, topic: &TopicId, limit: usize) -> Result<Vec<StoredWindow>, StoreError> {
        let mut windows = Vec::new();
        for number in 0..self.map().await?.of_topic(topic) {
            windows.extend(self.partition(number).export_windows(topic, limit - windows.len()).await?);
        }
        Ok(windows)
    }

    /// Into every partition of the topic: a job goes to one by its key, or else by its value.
    async fn import_windows(&self, topic: &TopicId, windows: &[StoredWindow]) -> Result<(), StoreError> {
        let count = self.map().await?.of_topic(topic);
        self.ask_all(count, |partition| async move { partition.import_windows(topic, windows).await }).await.map(drop)
    }

    async fn remove_windows(&self, topic: &TopicId, windows: &[StoredWindow]) -> Result<(), StoreError> {
        let count = self.map().await?.of_topic(topic);
        self.ask_all(count, |partition| async move { partition.remove_windows(topic, windows).await }).await.map(drop)
    }

    async fn has_links(&self, tenant: &Name) -> Result<bool, StoreError> {
        let count = self.map().await?.of_tenant(tenant);
        let found = self.ask_all(count, |partition| async move { partition.has_links(tenant).await }).await?;
        Ok(found.contains(&true))
    }

    async fn jobs_with_result(&self, tenant: &Name) -> Result<Vec<JobId>, StoreError> {
        self.all_jobs_with_result(tenant).await
    }

    async fn export_results(&self, tenant: &Name, jobs: &[JobId]) -> Result<Vec<StoredResult>, StoreError> {
        let count = self.map().await?.of_tenant(tenant);
        let found =
            self.ask_all(count, |partition| async move { partition.export_results(tenant, jobs).await }).await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn import_results(&self, tenant: &Name, results: &[StoredResult]) -> Result<u64, StoreError> {
        self.first().import_results(tenant, results).await
    }

    async fn keys_with_state(&self, tenant: &Name) -> Result<Vec<(TopicId, String)>, StoreError> {
        self.all_keys_with_state(tenant).await
    }

    async fn export_state(&self, topic: &TopicId, key: &str) -> Result<Option<StoredState>, StoreError> {
        self.one_state(topic, key).await
    }

    async fn import_state(&self, topic: &TopicId, key: &str, state: &StoredState) -> Result<bool, StoreError> {
        self.add_state(topic, key, state).await
    }

    async fn take_bills(
        &self,
        tenant: &Name,
        days: &RangeInclusive<Day>,
        mark: u64,
    ) -> Result<Vec<TakenBill>, StoreError> {
        self.first().take_bills(tenant, days, mark).await
    }

    async fn drop_taken_bill(&self, tenant: &Name, day: Day, mark: u64) -> Result<(), StoreError> {
        self.first().drop_taken_bill(tenant, day, mark).await
    }
}

impl RedisStore {
    /// For each job the partition that has its id already, if that is one that its topic had before: an import that is repeated goes
    /// where it went the first time.
    async fn earlier_imports(
        &self,
        at: (&super::PartitionMap, Timestamp),
        jobs: &[StoredJob],
    ) -> Result<Vec<Option<u32>>, StoreError> {
        let known = self.pushed_before(at, jobs.iter().map(|stored| &stored.job.spec)).await?;
        let has_id = |position| matches!(known.get(&position), Some((_, crate::Pushed::Exists)));
        Ok((0..jobs.len())
            .map(|position| known.get(&position).filter(|_| has_id(position)).map(|(number, _)| *number))
            .collect())
    }
}
