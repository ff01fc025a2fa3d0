//! What a runner repeats. A partition that is unavailable holds up no other.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::{Partition, RedisStore, available};
use crate::composite::{Asking, CompositeStore, StoreAnswer, add};
use crate::joined::{self, any_of_each};
use crate::schedules::note_full;
use crate::{DeadLimits, Migrated, OverdueJobs, PendingWork, PollTenant, Signal, StoreError, Sweepable, Workers};
use gristmill_core::job::{Name, TopicId, WorkerId};

#[async_trait]
impl Workers for RedisStore {
    async fn heartbeat(&self, worker: &WorkerId) -> Result<(), StoreError> {
        let Some(step) = self.server.heartbeat(worker).await? else { return Ok(()) };
        let store = self.server.link.address.clone();
        if self.follow_set_clock(step).await?.is_none() {
            tracing::warn!(
                store,
                "the store's {step}: what waited for a time that it has passed is due; runners extend the leases of what they run"
            );
        } else {
            tracing::warn!(
                store,
                "the store's {step}: delays, leases and other relative times were moved by the same step, times that were named were not"
            );
        }
        Err(StoreError::Unavailable { store, source: anyhow::anyhow!("its {step}") })
    }

    async fn retire(&self, worker: &WorkerId) -> Result<(), StoreError> {
        self.server.retire(worker).await
    }

    async fn overdue(&self, tenants: &[Name], dead_after: Duration, limit: usize) -> Result<OverdueJobs, StoreError> {
        let map = self.map().await?;
        let parts = self.ask_partitions(
            tenants,
            |tenant| map.of_tenant(tenant),
            |partition, tenants| async move { partition.overdue(&tenants, dead_after, limit).await },
        );
        let answers: Vec<_> = parts.await.into_iter().map(|part| part.answer).collect();
        let mut found = OverdueJobs { none_run: answers.iter().all(Result::is_ok), ..OverdueJobs::default() };
        for OverdueJobs { jobs, refused, none_run } in available(answers)? {
            found.jobs.extend(jobs);
            found.refused.extend(refused);
            found.none_run &= none_run;
        }
        found.jobs.truncate(limit);
        Ok(found)
    }
}

impl RedisStore {
    pub(crate) async fn wake_ups(
        &self,
        worker: &WorkerId,
        _tenants: &[Name],
        topics: &[TopicId],
    ) -> Result<mpsc::Receiver<Signal>, StoreError> {
        self.wake(worker, topics).await
    }

    pub(crate) async fn pass_on(&self, topics: &[TopicId]) -> Result<(), StoreError> {
        let map = self.map().await?;
        let parts = self.ask_partitions(
            topics,
            |topic| map.of_topic(topic),
            |partition, topics| async move { partition.pass_on(&topics).await },
        );
        available(parts.await.into_iter().map(|part| part.answer).collect()).map(drop)
    }

    pub(crate) async fn set_full(&self, tenant: &Name, is_full: bool) -> Result<(), StoreError> {
        note_full(&self.server.full, tenant, is_full);
        Ok(())
    }

    pub(crate) async fn migrate(&self, tenant: &Name, limit: usize) -> Result<Migrated, StoreError> {
        let count = self.map().await?.of_tenant(tenant);
        if count == 1 {
            return self.first().migrate(tenant, limit, count).await;
        }
        let share = limit / count as usize;
        let ask = |partition: Partition| async move {
            Ok((partition.clone(), partition.migrate(tenant, share, count).await?))
        };
        let shares = self.ask(Asking::News, tenant, ask).await?;
        let mut room = limit.saturating_sub(shares.iter().map(|(_, migrated)| migrated.moved).sum());
        let mut total = Migrated::default();
        for (partition, mut migrated) in shares {
            // What remains of the shares of the others.
            if room > 0 && migrated.next_due_in == Some(Duration::ZERO) {
                let more = partition.migrate(tenant, room, count).await?;
                room = room.saturating_sub(more.moved);
                let (moved, fired) = (migrated.moved + more.moved, migrated.fired + more.fired);
                migrated = Migrated { moved, fired, ..more };
            }
            total.add(migrated);
        }
        Ok(total)
    }

    /// Raw producers write to the first partition.
    pub(crate) async fn poll_work(
        &self,
        tenants: &[PollTenant],
    ) -> Result<Vec<Result<PendingWork, StoreError>>, StoreError> {
        let map = self.map().await?;
        self.empty_outboxes(&map, tenants).await;
        let parts = self.ask_partitions(
            tenants,
            |polled| map.of_tenant(&polled.tenant),
            |partition, mut tenants| async move {
                if partition.number > 0 && tenants.iter().any(|polled| !polled.raw.is_empty()) {
                    tenants.to_mut().iter_mut().for_each(|polled| polled.raw.clear());
                }
                partition.poll_work(&tenants).await
            },
        );
        let answers =
            parts.await.into_iter().map(|StoreAnswer { positions, answer, .. }| answer.map(|found| (positions, found)));
        let mut totals: Vec<_> = tenants.iter().map(|_| Ok(PendingWork::default())).collect();
        for (positions, found) in available(answers.collect())? {
            add(&mut totals, positions, found, PendingWork::add);
        }
        Ok(totals)
    }
}

impl RedisStore {
    pub(crate) async fn sweepable(&self, tenant: &Name, idle_for: Duration) -> Result<Sweepable, StoreError> {
        let ask = |partition: Partition| async move { partition.sweepable(tenant, idle_for).await };
        let mut found = joined::sweepable(self.ask(Asking::News, tenant, ask).await?);
        if self.map().await?.of_tenant(tenant) > 1 && !found.idle.is_empty() {
            let idle = &found.idle;
            let ask = |partition: Partition| async move { partition.in_use(tenant, idle, idle_for).await };
            let in_use = match self.ask(Asking::Answer, tenant, ask).await {
                Err(error) if error.is_unavailable() => vec![true; idle.len()],
                answers => any_of_each(answers?),
            };
            let mut in_use = in_use.into_iter();
            found.idle.retain(|_| !in_use.next().unwrap_or(true));
        }
        Ok(found)
    }

    /// Each partition of a spread topic keeps its share of dead jobs.
    pub(crate) async fn sweep(&self, limits: &[DeadLimits]) -> Result<Vec<u64>, StoreError> {
        let map = self.map().await?;
        let share = |limits: &DeadLimits| {
            let width = map.spread(&limits.topic).map_or(1, |spread| spread.width(map.now())) as u64;
            DeadLimits { keep: limits.keep.div_ceil(width), ..limits.clone() }
        };
        let limits: Vec<DeadLimits> = limits.iter().map(share).collect();
        let parts = self.ask_partitions(
            &limits,
            |limits| map.of_topic(&limits.topic),
            |partition, limits| async move { partition.sweep(&limits).await },
        );
        let mut dropped = vec![0; limits.len()];
        for part in parts.await {
            add(&mut dropped, part.positions, part.answer?, |total, here| *total += here);
        }
        Ok(dropped)
    }
}
