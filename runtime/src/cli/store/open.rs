//! Opens a store for this process: a file becomes its own.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use crate::config::{Durability, StoreAddress, StoreSettings};
use crate::store::embedded::{self, EmbeddedStore};
use crate::store::redis::RedisStore;
use crate::store::{StoreError, Transfer};

/// A store that this process has opened itself.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Opened {
    pub(in crate::cli) store: Arc<dyn Transfer>,
    /// Set if no other process can open it meanwhile.
    owned: Option<EmbeddedStore>,
}

impl Opened {
    /// Tells other processes where this one answers for the store, if it is one that they cannot open, and what to say
    /// there.
    ///
    /// # Errors
    /// It cannot be written down.
    pub(in crate::cli) fn announce(&self, http: SocketAddr, secret: &str) -> Result<(), StoreError> {
        self.owned.as_ref().map_or(Ok(()), |store| store.announce(http, secret))
    }

    /// Before the first worker starts: what an earlier owner's workers ran is free at once.
    ///
    /// # Errors
    /// The disk failed or is full.
    pub(in crate::cli) async fn presume_workers_dead(&self) -> Result<(), StoreError> {
        match &self.owned {
            Some(store) => store.presume_workers_dead().await,
            None => Ok(()),
        }
    }
}

/// Opens the store at its address. A file that is not there is made.
///
/// # Errors
/// It is away, belongs to another process, or refuses.
pub(in crate::cli) async fn open(settings: &StoreSettings) -> Result<Opened, StoreError> {
    match &settings.address {
        StoreAddress::Redis(url) => {
            let store = RedisStore::connect(url, &settings.prefix).await?;
            Ok(Opened { store: Arc::new(store), owned: None })
        }
        StoreAddress::File(path) => Ok(own(open_file(path, settings.durability).await?)),
        StoreAddress::Memory => Ok(Opened { store: Arc::new(EmbeddedStore::in_memory().await?), owned: None }),
    }
}

pub(super) async fn open_file(path: &Path, durability: Durability) -> Result<EmbeddedStore, StoreError> {
    let durability = match durability {
        Durability::Power => embedded::Durability::Power,
        Durability::Process => embedded::Durability::Process,
    };
    EmbeddedStore::open(path, durability).await
}

fn own(store: EmbeddedStore) -> Opened {
    Opened { store: Arc::new(store.clone()), owned: Some(store) }
}
