//! Opens the embedded store.

use std::path::Path;
use std::sync::Arc;

use super::One;
use gristmill_config::Durability;
use gristmill_store::StoreError;
pub(crate) use gristmill_store::embedded::EmbeddedStore;
use gristmill_store::embedded::{self, owner};

pub(super) async fn open(path: &Path, durability: Durability) -> Result<One, StoreError> {
    let durability = match durability {
        Durability::Power => embedded::Durability::Power,
        Durability::Process => embedded::Durability::Process,
    };
    let store = EmbeddedStore::open(path, durability).await?;
    Ok(One { owned: Some(store.clone()), ..one(store) })
}

pub(super) async fn in_memory() -> Result<One, StoreError> {
    EmbeddedStore::in_memory().await.map(one)
}

fn one(store: EmbeddedStore) -> One {
    One { store: Arc::new(store.clone()), registry: Arc::new(store), owned: None, server: None, is_remote: false }
}

/// Returns whether the owner of the file is a server, which will not release it soon.
pub(super) fn is_served(path: &Path) -> bool {
    owner(path).is_ok_and(|owner| owner.is_some_and(|owner| owner.http.is_some()))
}
