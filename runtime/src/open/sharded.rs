//! Puts several stores together, and moves tenants between them.

use std::sync::Arc;

use super::{ByKind, Layout, One, Opened};
use crate::background::Background;
use gristmill_config::{HOME, StoreAddress, StoreSettings};
use gristmill_core::job::{Name, WorkerId};
use gristmill_store::sharded::{ShardSpec, ShardedStore};
use gristmill_store::{StoreError, TenantPlacements, Transfer};

/// Opens the stores beside the primary one, and makes one store of all. Waits for no Redis among them.
pub(super) async fn open(layout: &Layout, home: One, mut by_kind: ByKind) -> Result<Opened, StoreError> {
    let mut others = Vec::with_capacity(layout.others.len());
    for (name, settings) in &layout.others {
        if settings.is_same_store(&layout.home) {
            // The manifest's own would have been refused: an option has named another primary store.
            let problem = format!("[stores.{name}] is the same store");
            return Err(StoreError::BadAddress { address: settings.address.to_string(), problem });
        }
        let one = match &settings.address {
            #[cfg(feature = "redis")]
            StoreAddress::Redis(url) => by_kind.redis(gristmill_store::redis::RedisStore::at(url, &settings.redis)?),
            _ => by_kind.open(settings).await?,
        };
        others.push(shard(name.clone(), settings, one.store));
    }
    let problem = |_| StoreError::BadAddress { address: HOME.into(), problem: "it is no name".into() };
    let primary = shard(HOME.parse().map_err(problem)?, &layout.home, home.store);
    let sharded = ShardedStore::open(primary, home.registry, others, layout.placements.clone()).await?;
    Ok(Opened { store: Arc::new(sharded.clone()), sharded: Some(sharded), by_kind })
}

fn shard(name: Name, settings: &StoreSettings, store: Arc<dyn Transfer>) -> ShardSpec {
    ShardSpec { name, store, is_remote: matches!(settings.address, StoreAddress::Redis(_)) }
}

impl Opened {
    /// What the HTTP server asks where tenants live, if there are several stores.
    pub(crate) fn placements(&self) -> Option<Arc<dyn TenantPlacements>> {
        let stores = self.sharded.clone()?;
        Some(Arc::new(stores))
    }

    /// Starts the task that moves tenants between stores, if there are several.
    pub(crate) fn move_tenants(&self, worker: WorkerId) -> Option<Background> {
        let stores = self.sharded.clone()?;
        Some(Background::spawn("move tenants", |stop| stores.migrate_tenants(worker, stop)))
    }
}
