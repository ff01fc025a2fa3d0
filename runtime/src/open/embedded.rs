//! Opens the embedded store.

use std::path::Path;
use std::sync::Arc;

use super::One;
use gristmill_config::Durability;
pub(crate) use gristmill_store::embedded::Announcement;
pub(crate) use gristmill_store::embedded::EmbeddedStore;
use gristmill_store::embedded::{self, owner};
use gristmill_store::{FsckReport, StoreError};

pub(super) async fn open(path: &Path, durability: Durability) -> Result<One, StoreError> {
    let durability = match durability {
        Durability::Power => embedded::Durability::Power,
        Durability::Process => embedded::Durability::Process,
    };
    let store = EmbeddedStore::open(path, durability).await?;
    Ok(One { owned: Some(store.clone()), ..one(store) })
}

/// Reads the file beside its owner.
pub(super) async fn fsck(path: &Path) -> Result<FsckReport, StoreError> {
    let file = path.to_owned();
    let looked = tokio::task::spawn_blocking(move || embedded::fsck_file(&file)).await;
    let unavailable =
        |error| StoreError::Unavailable { store: path.display().to_string(), source: anyhow::Error::from(error) };
    looked.map_err(unavailable)?
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
