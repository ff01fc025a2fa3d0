//! Moving jobs out of all these stores, or into the one that a tenant lives in: as if they were one store.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::store::ShardedStore;
use crate::{Imported, StoreError, StoredJob, Transfer};
use gristmill_core::job::{JobId, Name, TopicId};

#[async_trait]
impl Transfer for ShardedStore {
    async fn export(&self, topic: &TopicId, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
        self.first(&topic.tenant)?;
        let mut jobs = Vec::new();
        for place in self.places(&topic.tenant).in_order_of_moves() {
            let member = self.member(place);
            jobs.extend(member.ask(member.store.export(topic, limit - jobs.len())).await?);
        }
        Ok(jobs)
    }

    async fn import(&self, jobs: &[StoredJob]) -> Result<Vec<Imported>, StoreError> {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, job) in jobs.iter().enumerate() {
            groups.entry(self.first(&job.job.spec.topic.tenant)?).or_default().push(at);
        }
        let mut answers = Vec::with_capacity(jobs.len());
        for (place, positions) in groups {
            let batch: Vec<StoredJob> = positions.iter().filter_map(|at| jobs.get(*at)).cloned().collect();
            let member = self.member(place);
            answers.extend(positions.into_iter().zip(member.ask(member.store.import(&batch)).await?));
        }
        answers.sort_unstable_by_key(|(at, _)| *at);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    async fn remove_exported(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        let mut answers = vec![false; ids.len()];
        for place in self.places(&topic.tenant).in_order_of_moves() {
            let member = self.member(place);
            let gone = member.ask(member.store.remove_exported(topic, ids)).await?;
            answers.iter_mut().zip(gone).for_each(|(answer, here)| *answer |= here);
        }
        Ok(answers)
    }

    async fn clear_move_marks(&self, tenant: &Name, ids: &[JobId]) -> Result<(), StoreError> {
        for place in self.places(tenant).in_order_of_moves() {
            let member = self.member(place);
            member.ask(member.store.clear_move_marks(tenant, ids)).await?;
        }
        Ok(())
    }
}
