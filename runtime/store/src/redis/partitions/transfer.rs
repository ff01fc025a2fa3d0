//! Moving jobs to and from another store: out of all partitions, and each into its own.

use super::RedisStore;
use crate::composite::answer_by_store;
use crate::{Imported, StoreError, StoredJob, StoredWindow};
use gristmill_core::job::{JobId, TopicId};
use gristmill_core::time::Timestamp;

impl RedisStore {
    pub(crate) async fn export(&self, topic: &TopicId, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
        let mut jobs = Vec::new();
        for number in 0..self.map().await?.of_topic(topic) {
            jobs.extend(self.partition(number).export(topic, limit - jobs.len()).await?);
        }
        Ok(jobs)
    }

    pub(crate) async fn import(&self, jobs: &[StoredJob]) -> Result<Vec<Imported>, StoreError> {
        let map = self.map().await?;
        let now = map.now();
        let known = if map.is_plain() { Vec::new() } else { self.earlier_imports((&map, now), jobs).await? };
        let choose = |position: usize, stored: &StoredJob| {
            let before = known.get(position).copied().flatten();
            Some(before.unwrap_or_else(|| map.of_job(&stored.job.spec, now)))
        };
        answer_by_store(jobs, choose, vec![Imported::IdTaken; jobs.len()], |number, jobs| {
            let partition = self.partition(number);
            async move { partition.import(&jobs).await }
        })
        .await
    }

    /// An id is removed from one partition, in the order in which jobs are exported.
    pub(crate) async fn remove_exported(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        let mut answers = vec![false; ids.len()];
        for number in 0..self.map().await?.of_topic(topic) {
            let missing: Vec<usize> =
                (0..ids.len()).filter(|position| answers.get(*position) == Some(&false)).collect();
            let some: Vec<JobId> = missing.iter().filter_map(|position| ids.get(*position)).cloned().collect();
            let removed = self.partition(number).remove_exported(topic, &some).await?;
            for (position, removed) in missing.into_iter().zip(removed) {
                if let Some(answer) = answers.get_mut(position) {
                    *answer = removed;
                }
            }
        }
        Ok(answers)
    }

    pub(crate) async fn export_windows(&self, topic: &TopicId, limit: usize) -> Result<Vec<StoredWindow>, StoreError> {
        let mut windows = Vec::new();
        for number in 0..self.map().await?.of_topic(topic) {
            windows.extend(self.partition(number).export_windows(topic, limit - windows.len()).await?);
        }
        Ok(windows)
    }

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
