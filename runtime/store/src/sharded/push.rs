//! Pushes, each to its tenant's current shard.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::shard::Shard;
use super::shard_map::TenantShards;
use super::store::ShardedStore;
use crate::composite::answer_by_store;
use crate::{JobState, Push, Pushed, Query, StoreError};
use gristmill_core::job::NewJob;

/// How many jobs of moving tenants are looked up at once.
const LOOKUPS_AT_ONCE: usize = 32;

#[async_trait]
impl Push for ShardedStore {
    async fn push(&self, jobs: &[NewJob]) -> Result<Vec<Pushed>, StoreError> {
        let _held = self.hold_predecessors(jobs).await;
        let map = self.map();
        let mut moving = Vec::new();
        for (position, job) in jobs.iter().enumerate() {
            let (shards, _) = map.placed(&job.spec.topic.tenant)?;
            moving.extend(shards.is_moving.then_some((position, shards, job)));
        }
        let mut existing = HashSet::new();
        for some in moving.chunks(LOOKUPS_AT_ONCE) {
            let lookups = some.iter().map(|(_, shards, job)| exists_in_left_shard(shards, job));
            for ((position, ..), exists) in some.iter().zip(join_all(lookups).await) {
                existing.extend(exists?.then_some(*position));
            }
        }
        let mut places: Vec<Option<Arc<Shard>>> = Vec::with_capacity(jobs.len());
        for (position, job) in jobs.iter().enumerate() {
            let place = place(map.of(&job.spec.topic.tenant), job, (jobs, &places)).await?;
            places.push(place.filter(|_| !existing.contains(&position)));
        }
        let choose = |position: usize, _: &NewJob| places.get(position).cloned().flatten();
        let answers = vec![Pushed::Exists; jobs.len()];
        answer_by_store(jobs, choose, answers, |shard, jobs| async move { shard.push(&jobs).await }).await
    }
}

/// The shard of a new job: the current one, but for a job that waits for others which have not moved. `before`: the jobs of the same push,
/// and the shards of those before it.
async fn place(
    shards: &TenantShards,
    job: &NewJob,
    (jobs, before): (&[NewJob], &[Option<Arc<Shard>>]),
) -> Result<Option<Arc<Shard>>, StoreError> {
    if shards.departed().next().is_some() {
        for id in job.spec.options.named() {
            if let Some((_, place)) = jobs.iter().zip(before).rev().find(|(before, _)| before.spec.id == *id) {
                return Ok(place.clone());
            }
            for shard in shards.departed() {
                let found = shard.job(&job.spec.topic.tenant, id).await?;
                if found.is_some_and(|view| view.state != JobState::Finished) {
                    return Ok(Some(Arc::clone(shard)));
                }
            }
        }
    }
    Ok(shards.current().cloned())
}

/// Whether a job with this id has not moved yet.
async fn exists_in_left_shard(shards: &TenantShards, job: &NewJob) -> Result<bool, StoreError> {
    for shard in shards.departed().rev() {
        let view = shard.job(&job.spec.topic.tenant, &job.spec.id).await?;
        if view.is_some_and(|view| view.state != JobState::Finished) {
            return Ok(true);
        }
    }
    Ok(false)
}
