//! Where the jobs of a measurement are: a store that only the measurement uses, removed afterwards.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;

use super::redis_server::{PREFIX, PrivateServers};
use super::test_bed::temporary_folder;
use gristmill_store::Store;
use gristmill_store::embedded::{Durability, EmbeddedStore};
use gristmill_store::redis::RedisStore;

/// Which store to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BenchStore {
    /// A file in a temporary folder.
    Embedded(Durability),
    /// A `redis-server` of its own, without a log on disk.
    PrivateRedis,
    /// So many `redis-server`s of its own that listen at ports: one by itself, or several as a cluster.
    PrivateServers(usize),
    /// A Redis that is there, under keys of its own: what is in it stays as it is.
    RedisAt(String),
}

impl BenchStore {
    /// Whether it is a Redis.
    pub fn is_redis(&self) -> bool {
        !matches!(self, Self::Embedded(_))
    }
}

impl fmt::Display for BenchStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(Durability::Power) => f.write_str("embedded (power)"),
            Self::Embedded(Durability::Process) => f.write_str("embedded (process)"),
            Self::PrivateRedis => f.write_str("redis"),
            Self::PrivateServers(1) => f.write_str("redis over TCP"),
            Self::PrivateServers(count) => write!(f, "redis cluster of {count}"),
            // Without the user's name and password.
            Self::RedisAt(url) => f.write_str(url.rsplit_once('@').map_or(url, |(_, host)| host)),
        }
    }
}

/// An open store, with what has to go when it goes.
#[derive(Debug)]
pub(super) struct OpenStore {
    pub(super) store: Arc<dyn Store>,
    /// The address of the Redis that it is in, if it is in one, and what its keys begin with.
    pub(super) redis: Option<(String, String)>,
    servers: Option<PrivateServers>,
    /// Dropped after the store that is in it.
    folder: Option<TempDir>,
}

impl OpenStore {
    pub(super) async fn open(which: &BenchStore) -> anyhow::Result<Self> {
        match which {
            BenchStore::Embedded(durability) => {
                let folder = temporary_folder()?;
                let store = EmbeddedStore::open(&folder.path().join("bench.db"), *durability).await?;
                Ok(Self { store: Arc::new(store), redis: None, servers: None, folder: Some(folder) })
            }
            BenchStore::PrivateRedis => Self::in_servers(PrivateServers::one()?).await,
            BenchStore::PrivateServers(count) => Self::in_servers(PrivateServers::at_ports(*count).await?).await,
            BenchStore::RedisAt(url) => {
                let prefix = format!("gm-bench-{}", std::process::id());
                let store = RedisStore::connect(url, &prefix).await?;
                Ok(Self { store: Arc::new(store), redis: Some((url.clone(), prefix)), servers: None, folder: None })
            }
        }
    }

    async fn in_servers(servers: PrivateServers) -> anyhow::Result<Self> {
        let store = Arc::new(servers.connect().await?);
        let redis = Some((servers.url(), PREFIX.to_owned()));
        Ok(Self { store, redis, servers: Some(servers), folder: None })
    }

    /// The same Redis over another connection, as another process would see it.
    pub(super) async fn connect_again(&self) -> anyhow::Result<Arc<dyn Store>> {
        let (url, prefix) = self.redis()?;
        Ok(Arc::new(RedisStore::connect(url, prefix).await?))
    }

    /// The address of the Redis, and what its keys begin with.
    pub(super) fn redis(&self) -> anyhow::Result<(&str, &str)> {
        let (url, prefix) = self.redis.as_ref().context("this measurement needs a store on Redis; see --on")?;
        Ok((url, prefix))
    }

    /// CPU time of the store's processes so far; none if they are not ours, or this one.
    pub(super) fn cpu(&self) -> Option<Duration> {
        self.servers.as_ref().map(PrivateServers::cpu)
    }

    /// What the store takes up: memory of a Redis, files on disk of an embedded one. None if it is not known.
    pub(super) async fn bytes(&self) -> Option<u64> {
        match (&self.redis, &self.folder) {
            (Some((url, _)), _) => used_memory(url.clone()).await,
            (None, Some(folder)) => {
                let files = std::fs::read_dir(folder.path()).ok()?;
                Some(files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum())
            }
            (None, None) => None,
        }
    }
}

/// What Redis says of itself, in bytes.
async fn used_memory(url: String) -> Option<u64> {
    let mut connection = redis::Client::open(url).ok()?.get_multiplexed_async_connection().await.ok()?;
    let info: String = redis::cmd("INFO").arg("memory").query_async(&mut connection).await.ok()?;
    info.lines().find_map(|line| line.strip_prefix("used_memory:"))?.trim().parse().ok()
}
