//! What a runner repeats. A lease is settled in the shard that it is from; an unavailable shard delays no other.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::sync::mpsc;

use super::shard::Shard;
use super::store::ShardedStore;
use crate::parts::{ask_by_store, if_available};
use crate::{
    DeadLimits, FindWork, Leases, Migrated, OverdueJobs, PendingWork, PollTenant, Settle, Settled, Settlement, Signal,
    StateDeleted, States, StoreError, Sweep, Sweepable, VersionedState, Workers,
};
use gristmill_core::job::{JobId, Lease, Name, Progress, TopicId, WorkerId};

/// When to look again for due jobs in an unavailable shard.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long one shard may take to store a heartbeat, or to list them, so that the others get it in time.
const HEARTBEAT_TIME: Duration = Duration::from_secs(1);

/// The shard's answer, or that it is unavailable if it takes too long.
pub(super) async fn in_time<T>(
    shard: &Shard,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(HEARTBEAT_TIME, call).await.unwrap_or_else(|_| {
        let source = anyhow::anyhow!("no answer within {} s", HEARTBEAT_TIME.as_secs());
        Err(StoreError::Unavailable { store: shard.name.to_string(), source })
    })
}

#[async_trait]
impl Settle for ShardedStore {
    /// No record says which shard a lease is from. In every other shard the lease is lost.
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        self.ask_until_known(
            settlements,
            |settlement| &settlement.lease.topic.tenant,
            Settled::LeaseLost,
            |shard, part| async move { shard.settle(&part).await },
        )
        .await
    }
}

#[async_trait]
impl Leases for ShardedStore {
    /// The leases of an unavailable shard count as kept: whether they are lost is seen when they are settled.
    async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<bool>, StoreError> {
        self.ask_until_known(
            leases,
            |lease| &lease.topic.tenant,
            false,
            |shard, part| async move {
                let kept = if_available(shard.extend(&part, lease).await)?;
                Ok(kept.unwrap_or_else(|| vec![true; part.len()]))
            },
        )
        .await
    }

    async fn checkpoint(&self, lease: &Lease, state: &[u8]) -> Result<bool, StoreError> {
        let map = self.map();
        let shards = map.of(&lease.topic.tenant);
        for shard in shards.current().into_iter().chain(shards.left()) {
            if shard.checkpoint(lease, state).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// In every shard of the tenant that is available: the one that has the lease is among them.
    async fn note_progress(&self, progress: &[(Lease, Progress)]) -> Result<(), StoreError> {
        let map = self.map();
        for (lease, said) in progress {
            let shards = map.of(&lease.topic.tenant);
            for shard in shards.current().into_iter().chain(shards.left()) {
                let note = [(lease.clone(), said.clone())];
                match shard.note_progress(&note).await {
                    Err(error) if !error.is_unavailable() => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
        }
        Ok(())
    }

    async fn claims_of(
        &self,
        tenant: &Name,
        worker: &WorkerId,
        except: &HashSet<JobId>,
    ) -> Result<Vec<Lease>, StoreError> {
        let ask = |shard: Arc<Shard>| async move { shard.claims_of(tenant, worker, except).await };
        let claims = self.ask_available(tenant, ask).await?;
        Ok(claims.into_iter().flat_map(|(_, claims)| claims).collect())
    }
}

/// The manifest refuses states where there are several stores, so no tenant that has some moves.
#[async_trait]
impl States for ShardedStore {
    async fn state(&self, topic: &TopicId, key: &str) -> Result<Option<VersionedState>, StoreError> {
        self.map().placed(&topic.tenant)?.1.state(topic, key).await
    }

    async fn delete_state(&self, topic: &TopicId, key: &str, version: Option<u64>) -> Result<StateDeleted, StoreError> {
        self.map().placed(&topic.tenant)?.1.delete_state(topic, key, version).await
    }
}

#[async_trait]
impl Workers for ShardedStore {
    /// Each shard gets it. One shard that does not take it must not make the worker count as dead in the others.
    async fn heartbeat(&self, worker: &WorkerId) -> Result<(), StoreError> {
        let beats = self.shards().iter().map(|shard| in_time(shard, shard.heartbeat(worker)));
        one_success(join_all(beats).await)
    }

    async fn retire(&self, worker: &WorkerId) -> Result<(), StoreError> {
        one_success(join_all(self.shards().iter().map(|shard| shard.retire(worker))).await)
    }

    async fn overdue(&self, tenants: &[Name], dead_after: Duration, limit: usize) -> Result<OverdueJobs, StoreError> {
        let (map, mut found) = (self.map(), OverdueJobs { none_run: true, ..OverdueJobs::default() });
        for round in (0..self.shards().len()).rev() {
            let choose = |_, tenant: &Name| map.of(tenant).nth(round).cloned();
            let parts = ask_by_store(tenants, choose, |shard, tenants| async move {
                shard.overdue(&tenants, shard.dead_after(dead_after), limit).await
            });
            for part in parts.await {
                let OverdueJobs { jobs, refused, none_run } = if_available(part.answer)?.unwrap_or_default();
                found.none_run &= none_run;
                found.jobs.extend(jobs);
                found.refused.extend(refused);
            }
        }
        found.jobs.truncate(limit);
        Ok(found)
    }
}

#[async_trait]
impl FindWork for ShardedStore {
    async fn wake_ups(
        &self,
        worker: &WorkerId,
        tenants: &[Name],
        topics: &[TopicId],
    ) -> Result<mpsc::Receiver<Signal>, StoreError> {
        Ok(self.forward_signals(tenants, Some((worker.clone(), topics.into()))).await)
    }

    async fn pass_on(&self, topics: &[TopicId]) -> Result<(), StoreError> {
        let map = self.map();
        for round in 0..self.shards().len() {
            let choose = |_, topic: &TopicId| map.of(&topic.tenant).nth(round).cloned();
            let parts = ask_by_store(topics, choose, |shard, topics| async move { shard.pass_on(&topics).await });
            for part in parts.await {
                if_available(part.answer)?;
            }
        }
        Ok(())
    }

    async fn set_full(&self, tenant: &Name, is_full: bool) -> Result<(), StoreError> {
        let told = |shard: Arc<Shard>| async move { if_available(shard.set_full(tenant, is_full).await) };
        self.ask_available(tenant, told).await.map(drop)
    }

    async fn migrate(&self, tenant: &Name, limit: usize) -> Result<Migrated, StoreError> {
        let retry = Migrated { next_due_in: Some(RETRY_AFTER), ..Migrated::default() };
        let migrate =
            |shard: Arc<Shard>| async move { Ok(if_available(shard.migrate(tenant, limit).await)?.unwrap_or(retry)) };
        let mut total = Migrated::default();
        for (_, migrated) in self.ask_available(tenant, migrate).await? {
            total.add(migrated);
        }
        Ok(total)
    }

    async fn poll_work(&self, tenants: &[PollTenant]) -> Result<Vec<Result<PendingWork, StoreError>>, StoreError> {
        let map = self.map();
        let mut totals: Vec<_> = tenants.iter().map(|_| Ok(PendingWork::default())).collect();
        for round in (0..self.shards().len()).rev() {
            let choose = |_, polled: &PollTenant| map.of(&polled.tenant).nth(round).cloned();
            let parts = ask_by_store(tenants, choose, |shard, polled| async move { shard.poll_work(&polled).await });
            for part in parts.await {
                let found = if_available(part.answer)?.unwrap_or_default();
                for (position, found) in part.positions.into_iter().zip(found) {
                    if let Ok(found) = &found {
                        self.note_ready(&part.store, &found.ready);
                    }
                    if let Some(total) = totals.get_mut(position) {
                        PendingWork::add(total, found);
                    }
                }
            }
        }
        Ok(totals)
    }
}

#[async_trait]
impl Sweep for ShardedStore {
    async fn sweepable(&self, tenant: &Name, idle_for: Duration) -> Result<Sweepable, StoreError> {
        let ask = |shard: Arc<Shard>| async move { if_available(shard.sweepable(tenant, idle_for).await) };
        let mut found = Sweepable::default();
        for (_, here) in self.ask_available(tenant, ask).await? {
            found.add(here.unwrap_or_default());
        }
        Ok(found)
    }

    /// Without limits, each shard drops what belongs to no topic.
    async fn sweep(&self, limits: &[DeadLimits]) -> Result<Vec<u64>, StoreError> {
        if limits.is_empty() {
            for answer in join_all(self.shards().iter().map(|shard| shard.sweep(limits))).await {
                if_available(answer)?;
            }
        }
        let map = self.map();
        let mut dropped = vec![0; limits.len()];
        for round in 0..self.shards().len() {
            let choose = |_, limits: &DeadLimits| map.of(&limits.topic.tenant).nth(round).cloned();
            for part in ask_by_store(limits, choose, |shard, limits| async move { shard.sweep(&limits).await }).await {
                for (position, here) in part.positions.iter().zip(if_available(part.answer)?.unwrap_or_default()) {
                    if let Some(total) = dropped.get_mut(*position) {
                        *total += here;
                    }
                }
            }
        }
        Ok(dropped)
    }
}

/// Succeeds if one call did, or if there was none.
fn one_success(answers: Vec<Result<(), StoreError>>) -> Result<(), StoreError> {
    answers.into_iter().reduce(Result::or).unwrap_or(Ok(()))
}
