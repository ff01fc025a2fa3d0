//! Puts several stores together, and moves tenants between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::One;
use crate::background::Background;
use gristmill_config::HOME;
use gristmill_core::job::{Name, WorkerId};
use gristmill_store::sharded::ShardSpec;
pub(crate) use gristmill_store::sharded::ShardedStore;
use gristmill_store::{StoreError, TenantPlacements, Transfer};

pub(super) async fn open(
    home: One,
    others: Vec<(Name, One)>,
    placements: BTreeMap<Name, Name>,
) -> Result<(Arc<dyn Transfer>, ShardedStore), StoreError> {
    let registry = Arc::clone(&home.registry);
    let problem = |_| StoreError::BadAddress { address: HOME.into(), problem: "it is no name".into() };
    let home = shard(HOME.parse().map_err(problem)?, home);
    let others = others.into_iter().map(|(name, one)| shard(name, one)).collect();
    let sharded = ShardedStore::open(home, registry, others, placements).await?;
    Ok((Arc::new(sharded.clone()), sharded))
}

fn shard(name: Name, one: One) -> ShardSpec {
    ShardSpec { name, store: one.store, is_remote: one.is_remote }
}

/// What the HTTP server asks where tenants live.
pub(crate) fn placements(stores: ShardedStore) -> Arc<dyn TenantPlacements> {
    Arc::new(stores)
}

/// Starts the task that moves tenants between stores.
pub(crate) fn move_tenants(stores: ShardedStore, worker: WorkerId) -> Background {
    Background::spawn("move tenants", |stop| stores.migrate_tenants(worker, stop))
}
