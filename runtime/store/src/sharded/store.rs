//! [`ShardedStore`]: what it holds, how it keeps up with where tenants live, and which file does what of the contract.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use arc_swap::ArcSwap;
use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{RwLock, watch};

use super::all::all;
use super::member::{Shard, ShardSpec};
use super::places::{Places, View};
use crate::{Placement, PlacementRegistry, Shards, StoreError};
use gristmill_config::HOME;
use gristmill_core::job::{Lease, Name, TopicId};

/// How often a node looks where tenants live.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// Stores that are used as one. Clones are one.
///
/// Cancel-safety is that of the stores; what concerns several of them may be done in some and not in others.
#[derive(Debug, Clone)]
pub struct ShardedStore(pub(super) Arc<Core>);

#[derive(Debug)]
pub(super) struct Core {
    /// Where it is written down who lives where.
    pub(super) registry: Arc<dyn PlacementRegistry>,
    /// The home store first.
    pub(super) members: Vec<Arc<Shard>>,
    /// What the manifest says, for tenants of which nothing is written down.
    residences: BTreeMap<Name, Name>,
    view: ArcSwap<View>,
    /// Changes with the view.
    pub(super) changes: watch::Sender<u64>,
    /// Topics with ready jobs in a place that is not their tenant's first.
    topics_with_backlog: Mutex<HashSet<(usize, TopicId)>>,
    /// Held by who carries a batch of the tenant's jobs over, and shared by who changes waiting and dead jobs of it.
    turns: Mutex<HashMap<Name, Arc<RwLock<()>>>>,
}

impl ShardedStore {
    /// Joins the home store and others; tenants live where the home store has it written down, or else where `residences`
    /// says, or else in the home store. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The home store does not tell where tenants live.
    pub async fn open(
        home: ShardSpec,
        registry: Arc<dyn PlacementRegistry>,
        others: Vec<ShardSpec>,
        residences: BTreeMap<Name, Name>,
    ) -> Result<Self, StoreError> {
        let members: Vec<_> = std::iter::once(home).chain(others).map(|part| Arc::new(Shard::new(part))).collect();
        let view = View::new(&members, &residences, registry.placements().await?);
        let several = Self(Arc::new(Core {
            registry,
            members,
            residences,
            view: ArcSwap::from_pointee(view),
            changes: watch::Sender::new(0),
            topics_with_backlog: Mutex::default(),
            turns: Mutex::default(),
        }));
        let core = Arc::downgrade(&several.0);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK).await;
                let Some(core) = core.upgrade() else { return };
                // While the home store is away everybody lives where they lived.
                Self(core).look().await.ok();
            }
        });
        Ok(several)
    }

    /// Writes down for each tenant of the manifest where it lives, so that another word in the manifest does not leave its
    /// jobs behind one day.
    ///
    /// # Errors
    /// The home store does not take it.
    pub async fn write_residences(&self) -> Result<(), StoreError> {
        self.look().await?;
        let view = self.view();
        for (tenant, store) in &self.0.residences {
            match view.records.get(tenant) {
                None => {
                    let formerly = HOME.parse().into_iter().collect();
                    let first = Placement { store: store.clone(), from: None, formerly, generation: 1 };
                    self.0.registry.write_placement(tenant, &first).await?;
                }
                Some(record) if record.store != *store => tracing::warn!(
                    %tenant, store = %record.store,
                    "does not live where the manifest says: `gristmill tenant move {tenant} --to {store}` moves it there"
                ),
                Some(_) => {}
            }
        }
        for (tenant, record) in view.records.iter().filter(|(tenant, _)| view.of(tenant).members.is_empty()) {
            tracing::error!(%tenant, "lives in a store that the manifest does not have: add [stores.{}]", record.store);
        }
        self.look().await
    }

    /// Reads where everybody lives.
    pub(super) async fn look(&self) -> Result<(), StoreError> {
        let Core { registry, members, residences, .. } = &*self.0;
        let records = self.primary().ask(registry.placements()).await?;
        if records != self.view().records {
            self.0.view.store(Arc::new(View::new(members, residences, records)));
            self.0.changes.send_modify(|changes| *changes += 1);
        }
        Ok(())
    }

    pub(super) fn view(&self) -> Arc<View> {
        self.0.view.load_full()
    }

    pub(crate) fn primary(&self) -> &Arc<Shard> {
        self.member(0)
    }

    #[expect(clippy::indexing_slicing, reason = "places are made of positions in this list, which never changes")]
    pub(super) fn member(&self, place: usize) -> &Arc<Shard> {
        &self.0.members[place]
    }

    pub(super) fn places(&self, tenant: &Name) -> Places {
        self.view().of(tenant).clone()
    }

    /// The place that takes what is pushed.
    pub(super) fn first(&self, tenant: &Name) -> Result<usize, StoreError> {
        self.places(tenant).members.first().copied().ok_or_else(|| self.homeless(tenant))
    }

    fn homeless(&self, tenant: &Name) -> StoreError {
        let view = self.view();
        let store = view.records.get(tenant).map(|record| record.store.to_string()).unwrap_or_default();
        let source = anyhow!("the tenant `{tenant}` lives in it, and the manifest has no [stores.{store}]");
        StoreError::Refused { store, doing: "find the tenant's store", source }
    }

    pub(super) fn topics_with_backlog(&self) -> MutexGuard<'_, HashSet<(usize, TopicId)>> {
        self.0.topics_with_backlog.lock()
    }

    /// Notes topics of which a claim finds jobs in a place that is not the first.
    pub(super) fn note_ready<'a>(&self, place: usize, topics: impl IntoIterator<Item = &'a TopicId>) {
        let view = self.view();
        for topic in topics {
            if view.of(&topic.tenant).members.first() != Some(&place) {
                self.topics_with_backlog().insert((place, topic.clone()));
            }
        }
    }

    /// Whose turn it is with a tenant's waiting jobs: see [`Core::turns`].
    pub(super) fn turn(&self, tenant: &Name) -> Arc<RwLock<()>> {
        let mut turns = self.0.turns.lock();
        Arc::clone(turns.entry(tenant.clone()).or_default())
    }
}

#[async_trait]
impl Shards for ShardedStore {
    async fn unavailable(&self) -> Result<Vec<StoreError>, StoreError> {
        let probes = all(self.0.members.iter().map(|shard| shard.probe())).await;
        let mut unavailable: Vec<StoreError> = probes.into_iter().filter_map(Result::err).collect();
        if unavailable.len() < self.0.members.len() {
            return Ok(unavailable);
        }
        unavailable.pop().map_or(Ok(Vec::new()), Err)
    }

    /// One for each shard, and one for the tenants that are moving.
    fn lanes(&self) -> usize {
        self.0.members.len() + 1
    }

    fn lane(&self, lease: &Lease) -> usize {
        let Places { members, is_moving } = self.places(&lease.topic.tenant);
        members.first().copied().filter(|_| !is_moving).unwrap_or(self.0.members.len())
    }
}
