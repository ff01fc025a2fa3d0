//! Opens the stores that a manifest names; this process then owns their files.

#[cfg(feature = "embedded")]
mod embedded;
#[cfg(not(feature = "embedded"))]
#[path = "without_embedded.rs"]
mod embedded;
#[cfg(feature = "redis")]
mod redis;
#[cfg(not(feature = "redis"))]
#[path = "without_redis.rs"]
mod redis;
#[cfg(feature = "sharding")]
mod sharded;
#[cfg(not(feature = "sharding"))]
#[path = "without_sharding.rs"]
mod sharded;
mod spread;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use gristmill_config::{Manifest, StoreAddress, StoreSettings};
use gristmill_core::job::Name;
use gristmill_store::{FsckReport, PlacementRegistry, ServerName, StoreError, Transfer};

pub(crate) use embedded::Announcement;
use embedded::EmbeddedStore;
use redis::RedisStore;
pub(crate) use sharded::{ShardedStore, move_tenants, placements};

/// Which stores there are, and which tenants are placed where, by the manifest.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) home: StoreSettings,
    pub(crate) others: BTreeMap<Name, StoreSettings>,
    /// The stores that the manifest places tenants in.
    placements: BTreeMap<Name, Name>,
    memory: PathBuf,
}

/// A store that this process has opened itself.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Transfer>,
    /// Set if it is made of several stores.
    pub(crate) sharded: Option<ShardedStore>,
    /// What no other process can open meanwhile.
    owned: Vec<EmbeddedStore>,
    servers: Vec<RedisStore>,
}

impl Layout {
    pub(crate) fn of(manifest: &Manifest) -> Self {
        let Manifest { store, stores, placements, path, .. } = manifest;
        let mut memory = path.clone().into_os_string();
        memory.push(".memory");
        let memory = memory.into();
        Self { home: store.clone(), others: stores.clone(), placements: placements.clone(), memory }
    }

    /// Only this store.
    pub(crate) fn alone(home: StoreSettings) -> Self {
        Self { home, others: BTreeMap::new(), placements: BTreeMap::new(), memory: PathBuf::new() }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &StoreSettings> {
        std::iter::once(&self.home).chain(self.others.values())
    }

    /// The path by which commands know the store in the memory of the manifest's server, if it is there.
    pub(crate) fn memory(&self) -> Option<&Path> {
        self.all().any(|store| store.address == StoreAddress::Memory).then_some(&self.memory)
    }

    /// The files among them, which have one owner each.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.all().filter_map(|store| match &store.address {
            StoreAddress::File(path) => Some(path.as_path()),
            _ => None,
        })
    }
}

impl Opened {
    /// Writes down for other processes where this one answers for a store that they cannot open, which server it is, and the token to
    /// send there.
    ///
    /// # Errors
    /// It cannot be written down.
    pub(crate) fn announce(&self, http: SocketAddr, secret: &str, server: &ServerName) -> Result<(), StoreError> {
        self.owned.iter().try_for_each(|store| store.announce(http, secret, server))
    }

    /// Before the first worker starts: what an earlier owner's workers ran is free at once. Where the manifest says that
    /// tenants live is written down. Settings of servers that may lose jobs are logged.
    ///
    /// # Errors
    /// The disk failed or is full, or the primary store is unavailable.
    pub(crate) async fn prepare_for_work(&self) -> Result<(), StoreError> {
        for store in &self.owned {
            store.presume_workers_dead().await?;
        }
        for server in self.servers.clone() {
            tokio::spawn(async move { server.warn_of_risks().await });
        }
        match &self.sharded {
            Some(sharded) => sharded.write_placements().await,
            None => Ok(()),
        }
    }
}

/// Says beside the manifest that its store is in the memory of this process, so that commands find it. `None` if that is impossible: the log says
/// why.
pub(crate) fn announce_memory(path: &Path) -> Option<Announcement> {
    match Announcement::of_memory(path) {
        Ok(announcement) => Some(announcement),
        Err(error) => {
            let error = anyhow::Error::from(error);
            tracing::warn!(
                "commands do not find this server by its manifest: name it to them with --server: {error:#}"
            );
            None
        }
    }
}

/// Looks for damage in a store, which other processes may use meanwhile.
///
/// # Errors
/// It is unavailable, refuses, or is in the memory of another process.
pub(crate) async fn fsck(settings: &StoreSettings) -> Result<FsckReport, StoreError> {
    match &settings.address {
        StoreAddress::File(path) => embedded::fsck(path).await,
        StoreAddress::Memory => {
            let problem = "it is in the memory of its server, where no other process can look".into();
            Err(StoreError::BadAddress { address: settings.address.to_string(), problem })
        }
        StoreAddress::Redis(_) => One::open(settings, true).await?.store.fsck().await,
    }
}

/// Opens every store. A file that is not there is made. Waits for no Redis but that of the home
/// store.
///
/// # Errors
/// One belongs to another process, or refuses; or the primary store is unavailable.
pub(crate) async fn open(layout: &Layout) -> Result<Opened, StoreError> {
    let home = One::open(&layout.home, true).await?;
    if layout.others.is_empty() {
        let (owned, servers) = (home.owned.into_iter().collect(), home.server.into_iter().collect());
        return Ok(Opened { store: home.store, sharded: None, owned, servers });
    }
    let mut owned: Vec<EmbeddedStore> = home.owned.iter().cloned().collect();
    let mut servers: Vec<RedisStore> = home.server.iter().cloned().collect();
    let mut others = Vec::with_capacity(layout.others.len());
    for (name, settings) in &layout.others {
        if settings.is_same_store(&layout.home) {
            // The manifest's own would have been refused: an option has named another primary store.
            let problem = format!("[stores.{name}] is the same store");
            return Err(StoreError::BadAddress { address: settings.address.to_string(), problem });
        }
        let one = One::open(settings, false).await?;
        owned.extend(one.owned.iter().cloned());
        servers.extend(one.server.iter().cloned());
        others.push((name.clone(), one));
    }
    let (store, sharded) = sharded::open(home, others, layout.placements.clone()).await?;
    Ok(Opened { store, sharded: Some(sharded), owned, servers })
}

/// One store by its address.
struct One {
    store: Arc<dyn Transfer>,
    registry: Arc<dyn PlacementRegistry>,
    /// Set if it is a file.
    owned: Option<EmbeddedStore>,
    /// Set if it is a Redis.
    server: Option<RedisStore>,
    is_remote: bool,
}

impl One {
    async fn open(settings: &StoreSettings, must_answer: bool) -> Result<Self, StoreError> {
        match &settings.address {
            StoreAddress::Redis(url) => redis::open(url, &settings.redis, must_answer).await,
            StoreAddress::File(path) => embedded::open(path, settings.durability).await,
            StoreAddress::Memory => embedded::in_memory().await,
        }
    }
}

/// The feature of this crate that an address needs, where the program is built without it.
#[cfg(not(all(feature = "embedded", feature = "redis", feature = "sharding")))]
fn not_built_in(address: impl ToString, feature: &str) -> StoreError {
    let problem = format!("this program is built without the feature `{feature}` of gristmill");
    StoreError::BadAddress { address: address.to_string(), problem }
}

/// How long to wait before asking an unavailable store again at the start.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How long the owner of a file may take to release it: another command, or a server that ends.
const OWNER_PATIENCE: Duration = Duration::from_secs(5);
const OWNER_PAUSE: Duration = Duration::from_millis(25);

/// Opens every store, and waits while the primary one is unavailable: runners may be started before their Redis.
///
/// # Errors
/// The store refuses, its address makes no sense, or another server owns it.
pub(crate) async fn open_patiently(layout: &Layout) -> Result<Opened, StoreError> {
    let begun = Instant::now();
    let mut logged = false;
    loop {
        match open(layout).await {
            Err(error @ StoreError::Unavailable { .. }) => {
                if !logged {
                    tracing::error!("{:#}; trying again until it is there", anyhow::Error::from(error));
                    logged = true;
                }
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            Err(StoreError::Owned { .. }) if begun.elapsed() < OWNER_PATIENCE && !is_served(layout) => {
                tokio::time::sleep(OWNER_PAUSE).await;
            }
            answer => return answer,
        }
    }
}

/// Returns whether the owner of one of the stores is a server, which will not release it soon.
fn is_served(layout: &Layout) -> bool {
    layout.files().any(embedded::is_served)
}
