//! Ends of attempts, and what a worker does with its leases. The number of its claim says in which partition a job is.

use std::borrow::Cow;
use std::time::Duration;

use async_trait::async_trait;

use super::{PartitionMap, RedisStore};
use crate::composite::{answer_by_store, ask_by_store};
use crate::{Settle, Settled, Settlement, StoreError};
use gristmill_core::job::{Lease, Progress};

#[async_trait]
impl Settle for RedisStore {
    /// Follow-ups that another partition is to have go out at once; see `outbox`.
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        const DOING: &str = "settle attempts";
        let map = self.map().await?;
        let now = map.now();
        let leases: Vec<&Lease> = settlements.iter().map(|settlement| &settlement.lease).collect();
        let mut settlements = Cow::Borrowed(settlements);
        if let Some(leases) = self.with_batches(DOING, &map, &leases).await? {
            for (settlement, lease) in settlements.to_mut().iter_mut().zip(leases) {
                settlement.lease = lease;
            }
        }
        let choose = |_, settlement: &Settlement| Some(map.of_lease(&settlement.lease));
        let answers = vec![Settled::LeaseLost; settlements.len()];
        let answers = answer_by_store(&settlements, choose, answers, |number, part| {
            let (partition, map) = (self.partition(number), &map);
            async move { partition.settle(&part, (map, now)).await }
        });
        let answers = answers.await?;
        if !map.is_plain() {
            self.send_follow_ups((&map, now), &settlements, &answers).await;
        }
        Ok(answers)
    }
}

impl RedisStore {
    pub(crate) async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<bool>, StoreError> {
        let map = self.map().await?;
        let known = self.with_batches("extend leases", &map, &leases.iter().collect::<Vec<_>>()).await?;
        let leases = known.as_deref().unwrap_or(leases);
        let choose = |_, lease: &Lease| Some(map.of_lease(lease));
        answer_by_store(leases, choose, vec![false; leases.len()], |number, part| {
            let partition = self.partition(number);
            async move { partition.extend(&part, lease).await }
        })
        .await
    }

    pub(crate) async fn checkpoint(&self, lease: &Lease, state: &[u8]) -> Result<bool, StoreError> {
        let map = self.map().await?;
        let known = self.with_batches("save a checkpoint", &map, &[lease]).await?;
        let lease = known.as_ref().and_then(|known| known.first()).unwrap_or(lease);
        self.partition(map.of_lease(lease)).checkpoint(lease, state).await
    }

    pub(crate) async fn note_progress(&self, progress: &[(Lease, Progress)]) -> Result<(), StoreError> {
        let map = self.map().await?;
        let choose = |_, (lease, _): &(Lease, Progress)| Some(map.of_lease(lease));
        let parts = ask_by_store(progress, choose, |number, part| {
            let partition = self.partition(number);
            async move { partition.note_progress(&part).await }
        });
        parts.await.into_iter().try_for_each(|part| part.answer)
    }

    /// The leases with their batches, where some do not say theirs; `None` if all do. One that is lost gets a batch that there is
    /// not.
    async fn with_batches(
        &self,
        doing: &'static str,
        map: &PartitionMap,
        leases: &[&Lease],
    ) -> Result<Option<Vec<Lease>>, StoreError> {
        if leases.iter().all(|lease| lease.batch.is_some()) {
            return Ok(None);
        }
        let mut known: Vec<Lease> = leases.iter().map(|lease| (*lease).clone()).collect();
        let count = leases.iter().map(|lease| map.of_tenant(&lease.topic.tenant)).max().unwrap_or(1);
        for found in self.ask_all(count, |partition| async move { partition.batches(doing, leases).await }).await? {
            for (lease, batch) in known.iter_mut().zip(found).filter(|(_, batch)| batch.is_some()) {
                lease.batch = batch;
            }
        }
        known.iter_mut().for_each(|lease| lease.batch = lease.batch.or(Some(0)));
        Ok(Some(known))
    }
}
