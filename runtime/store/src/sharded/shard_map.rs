//! Which shards may hold something of a tenant.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use anyhow::anyhow;

use super::shard::Shard;
use crate::{Placement, StoreError};
use gristmill_core::job::Name;

/// The shards that may hold something of a tenant. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TenantShards {
    /// The current one first, then those that the tenant has left, the latest first. Empty: the tenant is placed in a store
    /// that the manifest does not name.
    shards: Arc<[Arc<Shard>]>,
    /// Its jobs are being moved to the current shard.
    pub(super) is_moving: bool,
}

impl TenantShards {
    /// The shard that takes new jobs.
    pub(super) fn current(&self) -> Option<&Arc<Shard>> {
        self.shards.first()
    }

    pub(super) fn is_current(&self, shard: &Shard) -> bool {
        self.current().is_some_and(|current| **current == *shard)
    }

    /// The shards that the tenant has departed from, or is leaving.
    pub(super) fn departed(&self) -> impl DoubleEndedIterator<Item = &Arc<Shard>> {
        self.shards.iter().skip(1)
    }

    pub(super) fn contains(&self, shard: &Arc<Shard>) -> bool {
        self.shards.contains(shard)
    }

    /// The `n`th shard, counted from the current one.
    pub(super) fn nth(&self, n: usize) -> Option<&Arc<Shard>> {
        self.shards.get(n)
    }

    /// From the shard that the tenant left first to the current one. Jobs move in this direction, so a reader in this order misses
    /// none, and may see one twice.
    pub(super) fn old_first(&self) -> impl Iterator<Item = &Arc<Shard>> {
        self.shards.iter().rev()
    }

    /// Whether a question about the tenant fails while this shard is unavailable. One that the tenant left earlier hardly
    /// ever has anything of it, so the answer comes without that one.
    pub(super) fn requires(&self, shard: &Shard) -> bool {
        self.is_moving || self.is_current(shard)
    }
}

/// The shards of every tenant, as last read from the registry.
#[derive(Debug)]
pub(super) struct ShardMap {
    /// Without the tenants that have always been in the primary shard.
    tenants: HashMap<Name, TenantShards>,
    only_primary: TenantShards,
    pub(super) records: BTreeMap<Name, Placement>,
}

impl ShardMap {
    /// `shards`: the primary one first. `configured`: what the manifest says, which counts for tenants without a record.
    pub(super) fn new(
        shards: &[Arc<Shard>],
        configured: &BTreeMap<Name, Name>,
        records: BTreeMap<Name, Placement>,
    ) -> Self {
        let find = |name: &Name| shards.iter().find(|shard| shard.name == *name).cloned();
        let primary = || shards.first().cloned();
        let configured = configured.iter().map(|(tenant, store)| {
            // What was pushed before the manifest had this is in the primary shard.
            let shards = find(store).into_iter().chain(primary()).collect();
            (tenant.clone(), TenantShards { shards, is_moving: false })
        });
        let recorded = records.iter().map(|(tenant, record)| {
            let shards = match find(&record.store) {
                Some(current) => std::iter::once(current).chain(record.behind().filter_map(find)).collect(),
                None => Arc::default(),
            };
            (tenant.clone(), TenantShards { shards, is_moving: record.from.is_some() })
        });
        let tenants = configured.chain(recorded).collect();
        let only_primary = TenantShards { shards: primary().into_iter().collect(), is_moving: false };
        Self { tenants, only_primary, records }
    }

    /// A tenant's shards, and the current one of them.
    ///
    /// # Errors
    /// The manifest does not name the store that the tenant is placed in.
    pub(super) fn placed(&self, tenant: &Name) -> Result<(&TenantShards, &Arc<Shard>), StoreError> {
        let shards = self.of(tenant);
        let current = shards.current().ok_or_else(|| {
            let store = self.records.get(tenant).map(|record| record.store.to_string()).unwrap_or_default();
            let source = anyhow!("the tenant `{tenant}` lives in it, and the manifest has no [stores.{store}]");
            StoreError::Refused { store, doing: "find the tenant's store", source }
        })?;
        Ok((shards, current))
    }

    pub(super) fn of(&self, tenant: &Name) -> &TenantShards {
        self.tenants.get(tenant).unwrap_or(&self.only_primary)
    }

    /// The tenants that are, or have been, in another shard than the primary one.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &Name> {
        self.tenants.keys()
    }
}
