//! [`ShardedStore`]: what it holds, and how it learns where tenants are placed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, RwLock, watch};

use super::shard::{Shard, ShardSpec};
use super::shard_map::ShardMap;
use crate::{ClockOffset, Placement, PlacementRegistry, Shards, StoreError, WaitToClaim};
use gristmill_config::HOME;
use gristmill_core::job::{Lease, Name, NewJob};

/// How often a process reads the placements.
pub(super) const REFRESH_EVERY: Duration = Duration::from_secs(1);

/// Several stores, used as one. Clones share their state.
///
/// Cancel-safety is that of the stores; a dropped call may have had its effect in some of them and not in others.
#[derive(Debug, Clone)]
pub struct ShardedStore(pub(super) Arc<Core>);

#[derive(Debug)]
pub(super) struct Core {
    /// The primary shard's records of where tenants are placed.
    pub(super) registry: Arc<dyn PlacementRegistry>,
    primary: Arc<Shard>,
    /// The primary shard first.
    shards: Vec<Arc<Shard>>,
    /// What the manifest says, which counts for tenants without a record.
    configured: BTreeMap<Name, Name>,
    map: ArcSwap<ShardMap>,
    /// Changes with the map.
    pub(super) changes: watch::Sender<u64>,
    /// Changes each time a shard becomes available again.
    pub(super) returns: watch::Sender<u64>,
    /// See [`ShardedStore::change_lock`]. Only locks that are in use.
    change_locks: Mutex<HashMap<Name, Arc<RwLock<()>>>>,
}

impl ShardedStore {
    /// Joins the primary store and others. A tenant is placed where the primary store's record says, or else where
    /// `configured` says, or else in the primary store. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The placements cannot be read from the primary store.
    pub async fn open(
        primary: ShardSpec,
        registry: Arc<dyn PlacementRegistry>,
        others: Vec<ShardSpec>,
        configured: BTreeMap<Name, Name>,
    ) -> Result<Self, StoreError> {
        let returns = watch::Sender::default();
        let shard = |spec| Shard::new(spec, returns.clone());
        let primary = shard(primary);
        let shards: Vec<_> = std::iter::once(primary.clone()).chain(others.into_iter().map(shard)).collect();
        let map = ShardMap::new(&shards, &configured, registry.placements().await?);
        let store = Self(Arc::new(Core {
            registry,
            primary,
            shards,
            configured,
            map: ArcSwap::from_pointee(map),
            changes: watch::Sender::new(0),
            returns,
            change_locks: Mutex::default(),
        }));
        let core = Arc::downgrade(&store.0);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(REFRESH_EVERY).await;
                let Some(core) = core.upgrade() else { return };
                // While the primary store is unavailable, tenants stay where they are.
                Self(core).refresh().await.ok();
            }
        });
        Ok(store)
    }

    /// Writes a record for each tenant that the manifest places and that has none, so that a later change of the manifest
    /// does not leave its jobs behind.
    ///
    /// # Errors
    /// The primary store does not take a record.
    pub async fn write_placements(&self) -> Result<(), StoreError> {
        self.refresh().await?;
        let map = self.map();
        for (tenant, store) in &self.0.configured {
            match map.records.get(tenant) {
                None => {
                    let formerly = HOME.parse().into_iter().collect();
                    let first = Placement { store: store.clone(), from: None, formerly, generation: 1 };
                    self.0.registry.write_placement(tenant, &first).await?;
                }
                Some(record) if record.store != *store => tracing::warn!(
                    %tenant, store = %record.store,
                    "is not in the store that the manifest names: `gristmill tenant move {tenant} --to {store}` moves it there"
                ),
                Some(_) => {}
            }
        }
        for (tenant, record) in map.records.iter().filter(|(tenant, _)| map.of(tenant).current().is_none()) {
            tracing::error!(%tenant, "lives in a store that the manifest does not have: add [stores.{}]", record.store);
        }
        self.refresh().await
    }

    /// Reads the placements.
    pub(super) async fn refresh(&self) -> Result<(), StoreError> {
        let Core { registry, shards, configured, primary, .. } = &*self.0;
        let records = primary.ask(registry.placements()).await?;
        if records != self.map().records {
            self.0.map.store(Arc::new(ShardMap::new(shards, configured, records)));
            self.0.changes.send_modify(|changes| *changes += 1);
        }
        Ok(())
    }

    pub(super) fn map(&self) -> Arc<ShardMap> {
        self.0.map.load_full()
    }

    pub(crate) fn primary(&self) -> &Arc<Shard> {
        &self.0.primary
    }

    pub(super) fn shards(&self) -> &[Arc<Shard>] {
        &self.0.shards
    }

    /// The lock of a tenant's waiting and dead jobs: held alone while a batch of them moves, and shared while a call changes
    /// some, or has others wait for some.
    pub(super) fn change_lock(&self, tenant: &Name) -> Arc<RwLock<()>> {
        let mut locks = self.0.change_locks.lock();
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(locks.entry(tenant.clone()).or_default())
    }
}

impl ShardedStore {
    /// Keeps what these jobs are to wait for where it is, until the answer is dropped. A job that is waited for does not move: if one came to be in the
    /// midst of its move, it would be in both shards, and run twice.
    pub(super) async fn hold_predecessors<'a>(
        &self,
        jobs: impl IntoIterator<Item = &'a NewJob>,
    ) -> Vec<OwnedRwLockReadGuard<()>> {
        let linked = jobs.into_iter().filter(|job| job.spec.options.is_linked());
        let tenants: BTreeSet<&Name> = linked.map(|job| &job.spec.topic.tenant).collect();
        let mut held = Vec::with_capacity(tenants.len());
        for tenant in tenants {
            held.push(self.change_lock(tenant).read_owned().await);
        }
        held
    }
}

impl WaitToClaim for ShardedStore {}

#[async_trait]
impl Shards for ShardedStore {
    async fn unavailable(&self) -> Result<Vec<StoreError>, StoreError> {
        let answers = join_all(self.shards().iter().map(|shard| shard.unavailable())).await;
        let (takes_jobs, mut unavailable) = (answers.iter().any(Result::is_ok), Vec::new());
        for answer in answers {
            match answer {
                Ok(parts) => unavailable.extend(parts),
                Err(error) => unavailable.push(error),
            }
        }
        if takes_jobs {
            return Ok(unavailable);
        }
        unavailable.pop().map_or(Ok(Vec::new()), Err)
    }

    async fn clocks(&self) -> Vec<(Option<Name>, ClockOffset)> {
        let clocks = join_all(self.shards().iter().map(|shard| shard.clocks())).await;
        let named = |(shard, clocks): (&Arc<Shard>, Vec<_>)| {
            let name = shard.name.clone();
            clocks.into_iter().map(move |(_, offset)| (Some(name.clone()), offset))
        };
        self.shards().iter().zip(clocks).flat_map(named).collect()
    }

    fn returns(&self) -> watch::Receiver<u64> {
        self.0.returns.subscribe()
    }

    /// One for each shard, and one for the tenants that are moving.
    fn lanes(&self) -> usize {
        self.shards().len() + 1
    }

    fn lane(&self, lease: &Lease) -> usize {
        let map = self.map();
        let shards = map.of(&lease.topic.tenant);
        let current = shards.current().filter(|_| !shards.is_moving);
        let lane = current.and_then(|current| self.shards().iter().position(|shard| Arc::ptr_eq(shard, current)));
        lane.unwrap_or(self.shards().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::EmbeddedStore;
    use crate::prelude::*;
    use crate::{ClaimFrom, Pushed, Settled, Settlement};
    use gristmill_core::job::{Due, JobOptions, JobSpec, Payload, WorkerId};
    use gristmill_core::outcome::Verdict;

    async fn open() -> ShardedStore {
        let store = EmbeddedStore::in_memory().await.unwrap();
        let primary = ShardSpec { name: HOME.parse().unwrap(), store: Arc::new(store.clone()), is_remote: false };
        ShardedStore::open(primary, Arc::new(store), Vec::new(), BTreeMap::new()).await.unwrap()
    }

    #[tokio::test]
    async fn calls_for_many_tenants_leave_no_locks_behind() {
        let sharded = open().await;
        for n in 0..1000 {
            sharded.cancel(&format!("tenant-{n}").parse().unwrap(), &[]).await.unwrap();
        }
        assert!(sharded.0.change_locks.lock().len() <= 1);
    }

    #[tokio::test]
    async fn a_job_is_linked_to_no_other_in_the_midst_of_a_batch_that_moves() {
        let sharded = open().await;
        let job = |after: &[&NewJob]| {
            let after = after.iter().map(|job| job.spec.id.clone()).collect();
            let spec = JobSpec::new("mail".parse().unwrap(), Payload::default());
            NewJob { spec: JobSpec { options: JobOptions { after, ..JobOptions::default() }, ..spec }, due: Due::Now }
        };
        let (parent, first, other) = (job(&[]), job(&[]), job(&[]));
        let [next, follow_up] = [job(&[&first]), job(&[&first])];
        sharded.push(std::slice::from_ref(&parent)).await.unwrap();
        let from = ClaimFrom::new(first.spec.topic.clone(), 1, Duration::from_secs(60));
        let claim = sharded.claim(&WorkerId::new("w"), &[from]).await.unwrap().claims.remove(0);
        let settlement =
            Settlement { follow_ups: vec![follow_up], ..Settlement::of(&claim, Verdict::Ack(None), Duration::ZERO) };
        sharded.push(std::slice::from_ref(&first)).await.unwrap();

        let lock = sharded.change_lock(&first.spec.topic.tenant);
        let moving = lock.write().await;
        let (pushing, settling) = (sharded.clone(), sharded.clone());
        let pushed = tokio::spawn(async move { pushing.push(std::slice::from_ref(&next)).await });
        let settled = tokio::spawn(async move { settling.settle(&[settlement]).await });
        tokio::task::yield_now().await;
        // Carried out behind them.
        sharded.push(std::slice::from_ref(&other)).await.unwrap();
        assert_eq!(
            sharded.counts(&first.spec.topic.tenant).await.unwrap()[0].jobs(),
            3,
            "the parent, the first one, and the other"
        );
        drop(moving);
        assert_eq!(
            (pushed.await.unwrap().unwrap(), settled.await.unwrap().unwrap()),
            (vec![Pushed::Stored], vec![Settled::Done])
        );
    }
}
