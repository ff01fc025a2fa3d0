//! Opens the stores that a manifest names; this process then owns their files.

#[cfg(feature = "embedded")]
mod embedded;
#[cfg(feature = "sharding")]
mod sharded;
#[cfg(feature = "redis")]
mod spread;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gristmill_config::{Manifest, StoreAddress, StoreSettings};
use gristmill_core::job::Name;
use gristmill_store::{FsckReport, PlacementRegistry, StoreError, Transfer};

#[cfg(feature = "embedded")]
use gristmill_store::embedded::{Announcement, EmbeddedStore};
#[cfg(feature = "redis")]
use gristmill_store::redis::RedisStore;
#[cfg(feature = "sharding")]
use gristmill_store::sharded::ShardedStore;

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
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Transfer>,
    /// Set if it is made of several stores.
    #[cfg(feature = "sharding")]
    pub(crate) sharded: Option<ShardedStore>,
    by_kind: ByKind,
}

/// The opened stores by their kinds, for what not every kind needs.
#[derive(Debug, Default)]
struct ByKind {
    /// What no other process can open meanwhile.
    #[cfg(feature = "embedded")]
    files: Vec<EmbeddedStore>,
    /// Lets commands find a store in memory as long as it lives.
    #[cfg(feature = "embedded")]
    memory: Option<Announcement>,
    #[cfg(feature = "redis")]
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
    /// Before the first worker starts: what an earlier owner's workers ran is free at once. Where the manifest says that
    /// tenants live is written down. Settings of servers that may lose jobs are logged. Waits while a store has no room for that, or is unavailable.
    ///
    /// # Errors
    /// A store refuses.
    pub(crate) async fn prepare_for_work(&self) -> Result<(), StoreError> {
        patiently(async || self.write_at_start().await).await?;
        #[cfg(feature = "redis")]
        for server in self.by_kind.servers.clone() {
            tokio::spawn(async move { server.warn_of_risks().await });
        }
        Ok(())
    }

    async fn write_at_start(&self) -> Result<(), StoreError> {
        #[cfg(feature = "embedded")]
        for file in &self.by_kind.files {
            file.presume_workers_dead().await?;
        }
        #[cfg(feature = "sharding")]
        if let Some(sharded) = &self.sharded {
            sharded.write_placements().await?;
        }
        // A new store gets its id here. That fails while it is full, or is a replica during a failover.
        self.store.store_id().await.map(drop)
    }
}

/// Looks for damage in a store, which other processes may use meanwhile.
///
/// # Errors
/// It is unavailable, refuses, or is in the memory of another process.
pub(crate) async fn fsck(settings: &StoreSettings) -> Result<FsckReport, StoreError> {
    match &settings.address {
        #[cfg(feature = "embedded")]
        StoreAddress::File(path) => embedded::fsck(path).await,
        StoreAddress::Memory => {
            let problem = "it is in the memory of its server, where no other process can look".into();
            Err(StoreError::BadAddress { address: settings.address.to_string(), problem })
        }
        _ => ByKind::default().open(settings).await?.store.fsck().await,
    }
}

/// Opens every store. A file that is not there is made. Waits for no Redis but that of the home
/// store.
///
/// # Errors
/// One belongs to another process, or refuses; or the primary store is unavailable.
pub(crate) async fn open(layout: &Layout) -> Result<Opened, StoreError> {
    #[cfg(not(feature = "sharding"))]
    if !layout.others.is_empty() {
        let names: Vec<_> = layout.others.keys().map(|name| format!("[stores.{name}]")).collect();
        return Err(not_built_in(names.join(", "), "sharding"));
    }
    let mut by_kind = ByKind::default();
    let home = by_kind.open(&layout.home).await?;
    #[cfg(feature = "sharding")]
    if !layout.others.is_empty() {
        return sharded::open(layout, home, by_kind).await;
    }
    Ok(Opened {
        store: home.store,
        #[cfg(feature = "sharding")]
        sharded: None,
        by_kind,
    })
}

/// One store by its address.
struct One {
    store: Arc<dyn Transfer>,
    registry: Arc<dyn PlacementRegistry>,
}

impl One {
    fn of(store: impl Transfer + PlacementRegistry + Clone) -> Self {
        Self { store: Arc::new(store.clone()), registry: Arc::new(store) }
    }
}

impl ByKind {
    /// Opens one more. Waits until a Redis has answered.
    async fn open(&mut self, settings: &StoreSettings) -> Result<One, StoreError> {
        match &settings.address {
            #[cfg(feature = "redis")]
            StoreAddress::Redis(url) => Ok(self.redis(RedisStore::open(url, &settings.redis).await?)),
            #[cfg(not(feature = "redis"))]
            address @ StoreAddress::Redis(_) => Err(not_built_in(address, "redis")),
            #[cfg(feature = "embedded")]
            StoreAddress::File(path) => {
                let file = embedded::open(path, settings.durability).await?;
                self.files.push(file.clone());
                Ok(One::of(file))
            }
            #[cfg(feature = "embedded")]
            StoreAddress::Memory => EmbeddedStore::in_memory().await.map(One::of),
            #[cfg(not(feature = "embedded"))]
            address @ (StoreAddress::File(_) | StoreAddress::Memory) => Err(not_built_in(address, "embedded")),
        }
    }

    #[cfg(feature = "redis")]
    fn redis(&mut self, server: RedisStore) -> One {
        self.servers.push(server.clone());
        One::of(server)
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
    #[cfg(feature = "embedded")]
    let begun = tokio::time::Instant::now();
    patiently(async || {
        loop {
            match open(layout).await {
                #[cfg(feature = "embedded")]
                Err(StoreError::Owned { .. })
                    if begun.elapsed() < OWNER_PATIENCE && !layout.files().any(embedded::is_served) =>
                {
                    tokio::time::sleep(OWNER_PAUSE).await;
                }
                answer => return answer,
            }
        }
    })
    .await
}

/// Asks again while the store has no room or is unavailable, and logs that once.
async fn patiently<T>(ask: impl AsyncFn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let mut logged = false;
    loop {
        match ask().await {
            Err(error @ (StoreError::Unavailable { .. } | StoreError::Full { .. })) => {
                if !logged {
                    tracing::error!("{:#}; trying again until it is there", anyhow::Error::from(error));
                    logged = true;
                }
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            answer => return answer,
        }
    }
}
