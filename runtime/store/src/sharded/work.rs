//! What a runner repeats. A lease is settled in the shard that it is from; an unavailable shard delays no other.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::sync::mpsc;

use super::shard::Shard;
use super::store::ShardedStore;
use crate::composite::{Asking, CompositeStore, add, if_available};
use crate::{
    DeadLimits, FindWork, Leases, Migrated, OverdueJobs, PendingWork, PollTenant, Settle, Settled, Settlement, Signal,
    StoreError, Sweep, Workers,
};
use gristmill_core::job::{Lease, Name, Progress, TopicId, WorkerId};

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
        let follow_ups = settlements.iter().flat_map(Settlement::visible_follow_ups);
        let _held = self.hold_predecessors(follow_ups).await;
        self.ask_until_known(
            settlements,
            |settlement| &settlement.lease.topic.tenant,
            Settled::LeaseLost,
            |shard, part| async move { shard.settle(&part).await },
        )
        .await
    }
}

impl ShardedStore {
    /// The leases of an unavailable shard count as kept: whether they are lost is seen when they are settled.
    pub(crate) async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<bool>, StoreError> {
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

    pub(crate) async fn checkpoint(&self, lease: &Lease, state: &[u8]) -> Result<bool, StoreError> {
        let map = self.map();
        let shards = map.of(&lease.topic.tenant);
        for shard in shards.current().into_iter().chain(shards.departed()) {
            if shard.checkpoint(lease, state).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// In every shard of the tenant that is available: the one that has the lease is among them.
    pub(crate) async fn note_progress(&self, progress: &[(Lease, Progress)]) -> Result<(), StoreError> {
        let map = self.map();
        for (lease, said) in progress {
            let shards = map.of(&lease.topic.tenant);
            for shard in shards.current().into_iter().chain(shards.departed()) {
                let note = [(lease.clone(), said.clone())];
                match shard.note_progress(&note).await {
                    Err(error) if !error.is_unavailable() => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
        }
        Ok(())
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
        let mut found = OverdueJobs { none_run: true, ..OverdueJobs::default() };
        let parts = self.ask_shards(
            tenants,
            |tenant| tenant,
            |shard, tenants| async move {
                if shard.has_just_returned(dead_after) {
                    return Ok(OverdueJobs::default());
                }
                shard.overdue(&tenants, dead_after, limit).await
            },
        );
        for part in parts.await {
            let OverdueJobs { jobs, refused, none_run } = if_available(part.answer)?.unwrap_or_default();
            found.none_run &= none_run;
            found.jobs.extend(jobs);
            found.refused.extend(refused);
        }
        found.jobs.truncate(limit);
        Ok(found)
    }
}

impl ShardedStore {
    pub(crate) async fn wake_ups(
        &self,
        worker: &WorkerId,
        tenants: &[Name],
        topics: &[TopicId],
    ) -> Result<mpsc::Receiver<Signal>, StoreError> {
        Ok(self.forward_signals(tenants, Some((worker.clone(), topics.into()))).await)
    }

    pub(crate) async fn pass_on(&self, topics: &[TopicId]) -> Result<(), StoreError> {
        let parts =
            self.ask_shards(topics, |topic| &topic.tenant, |shard, topics| async move { shard.pass_on(&topics).await });
        parts.await.into_iter().try_for_each(|part| if_available(part.answer).map(drop))
    }

    pub(crate) async fn migrate(&self, tenant: &Name, limit: usize) -> Result<Migrated, StoreError> {
        let retry = Migrated { next_due_in: Some(RETRY_AFTER), ..Migrated::default() };
        let migrate =
            |shard: Arc<Shard>| async move { Ok(if_available(shard.migrate(tenant, limit).await)?.unwrap_or(retry)) };
        let mut total = Migrated::default();
        for migrated in self.ask(Asking::News, tenant, migrate).await? {
            total.add(migrated);
        }
        Ok(total)
    }

    pub(crate) async fn poll_work(
        &self,
        tenants: &[PollTenant],
    ) -> Result<Vec<Result<PendingWork, StoreError>>, StoreError> {
        let mut totals: Vec<_> = tenants.iter().map(|_| Ok(PendingWork::default())).collect();
        let parts = self.ask_shards(
            tenants,
            |polled| &polled.tenant,
            |shard, polled| async move { shard.poll_work(&polled).await },
        );
        for part in parts.await {
            let found = if_available(part.answer)?.unwrap_or_default();
            found.iter().flatten().for_each(|found| self.note_ready(&part.store, &found.ready));
            add(&mut totals, part.positions, found, PendingWork::add);
        }
        Ok(totals)
    }

    /// Without limits, each shard drops what belongs to no topic.
    pub(crate) async fn sweep(&self, limits: &[DeadLimits]) -> Result<Vec<u64>, StoreError> {
        if limits.is_empty() {
            for answer in join_all(self.shards().iter().map(|shard| shard.sweep(limits))).await {
                if_available(answer)?;
            }
        }
        let mut dropped = vec![0; limits.len()];
        let parts = self.ask_shards(
            limits,
            |limits| &limits.topic.tenant,
            |shard, limits| async move { shard.sweep(&limits).await },
        );
        for part in parts.await {
            let here = if_available(part.answer)?.unwrap_or_default();
            add(&mut dropped, part.positions, here, |total, here| *total += here);
        }
        Ok(dropped)
    }
}

/// Succeeds if one call did, or if there was none.
fn one_success(answers: Vec<Result<(), StoreError>>) -> Result<(), StoreError> {
    answers.into_iter().reduce(Result::or).unwrap_or(Ok(()))
}
