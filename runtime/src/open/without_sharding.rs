//! In place of several stores, which this program is built without.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{One, not_built_in};
use crate::background::Background;
use gristmill_core::job::{Name, WorkerId};
use gristmill_store::{StoreError, TenantPlacements, Transfer};

/// There is none.
#[derive(Debug, Clone)]
pub(crate) enum ShardedStore {}

impl ShardedStore {
    pub(super) async fn write_placements(&self) -> Result<(), StoreError> {
        match *self {}
    }
}

pub(super) async fn open(
    _: One,
    others: Vec<(Name, One)>,
    _: BTreeMap<Name, Name>,
) -> Result<(Arc<dyn Transfer>, ShardedStore), StoreError> {
    let names: Vec<_> = others.iter().map(|(name, _)| format!("[stores.{name}]")).collect();
    Err(not_built_in(names.join(", "), "sharding"))
}

pub(crate) fn placements(stores: ShardedStore) -> Arc<dyn TenantPlacements> {
    match stores {}
}

pub(crate) fn move_tenants(stores: ShardedStore, _: WorkerId) -> Background {
    match stores {}
}
