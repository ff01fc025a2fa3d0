//! The placement of tenants in several stores: records in the primary store, one for each tenant that ever moved.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::counts::TopicCounts;
use super::error::StoreError;
use gristmill_core::job::{Name, WorkerId};

/// The placement of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The store that takes what is pushed.
    pub store: Name,
    /// The store that its jobs are being moved out of.
    pub from: Option<Name>,
    /// Stores that it was placed in before, the latest first. What still turns up there is also moved.
    pub formerly: Vec<Name>,
    /// Grows by one with each change; the first is 1.
    pub generation: u64,
}

impl Placement {
    /// Every other store that may have something of it: the latest first.
    pub fn behind(&self) -> impl Iterator<Item = &Name> {
        self.from.iter().chain(&self.formerly)
    }

    /// The placement with which a move begins.
    #[must_use]
    pub fn moving_to(&self, store: &Name) -> Self {
        let behind = self.behind().filter(|name| *name != store && **name != self.store).cloned().collect();
        let generation = self.generation + 1;
        Self { store: store.clone(), from: Some(self.store.clone()), formerly: behind, generation }
    }

    /// The placement with which the move ends.
    #[must_use]
    pub fn moved(&self) -> Self {
        let formerly = self.behind().cloned().collect();
        Self { store: self.store.clone(), from: None, formerly, generation: self.generation + 1 }
    }
}

/// The primary store's records of placements.
#[async_trait]
pub trait PlacementRegistry: Debug + Send + Sync + 'static {
    /// Every record, by tenant.
    async fn placements(&self) -> Result<BTreeMap<Name, Placement>, StoreError>;

    /// Writes a record over the one of the generation before it; over none, if it is the first. False: another process has
    /// written meanwhile, and nothing was changed.
    async fn write_placement(&self, tenant: &Name, placement: &Placement) -> Result<bool, StoreError>;

    /// Makes `driver` the one who moves the tenant's jobs, for `lease` from now; or lets it remain so. False: another one
    /// is. With no lease at all it is free for the next one.
    async fn lock_move(&self, tenant: &Name, driver: &WorkerId, lease: Duration) -> Result<bool, StoreError>;

    /// No other process can have this store, so that no other one drives.
    fn is_ours_alone(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn a_tenant_that_moves_on_and_back_leaves_each_store_behind_once() {
        let at_home = Placement { store: name("home"), from: None, formerly: Vec::new(), generation: 0 };
        let moving = at_home.moving_to(&name("b"));
        assert_eq!((&moving.store, moving.from.as_ref(), moving.generation), (&name("b"), Some(&name("home")), 1));
        let moved = moving.moved();
        assert_eq!((&moved.formerly, moved.generation), (&vec![name("home")], 2));
        let on = moved.moving_to(&name("c"));
        assert_eq!(on.behind().map(Name::as_str).collect::<Vec<_>>(), ["b", "home"]);
        let back = on.moving_to(&name("home"));
        assert_eq!(back.behind().map(Name::as_str).collect::<Vec<_>>(), ["c", "b"]);
        assert_eq!(back.moved().moved().formerly, [name("c"), name("b")]);
    }
}

/// Where a tenant is placed, and what remains elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TenantPlacement {
    /// The tenant.
    pub tenant: Name,
    /// The store that takes new jobs.
    pub store: Name,
    /// The store that the tenant is moving out of.
    pub from: Option<Name>,
    /// Stores that the tenant was in before.
    pub formerly: Vec<Name>,
    /// Topics that still have jobs in a store that the tenant has left or is leaving.
    pub remaining: Vec<TopicCounts>,
    /// Stores that do not answer, so that it is not known what remains there.
    pub unavailable: Vec<Name>,
}

/// Reads and changes where tenants are placed.
#[async_trait]
pub trait TenantPlacements: std::fmt::Debug + Send + Sync + 'static {
    /// Every tenant that has or had jobs, that the manifest places in another store than the primary one, or that was moved; ordered by name.
    async fn placements(&self) -> Result<Vec<TenantPlacement>, StoreError>;

    /// One tenant. An unknown one is placed in the primary store.
    async fn placement(&self, tenant: &Name) -> Result<TenantPlacement, StoreError>;

    /// Begins to move a tenant: from now on it is placed in `to`, and its jobs follow. Does nothing if it is placed there.
    ///
    /// # Errors
    /// [`StoreError::Refused`]: there is no such store, or another process changes the tenant's placement at this moment.
    async fn move_tenant(&self, tenant: &Name, to: &Name) -> Result<(), StoreError>;
}
