//! Where the jobs of a measurement are: a store that nobody else uses, gone afterwards.

use std::fmt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::rig::RigError;
use crate::store::embedded::{Durability, EmbeddedStore};
use crate::store::redis::RedisStore;
use crate::store::{Store, StoreError};

/// How long a private server may take to answer.
const SERVER_START: Duration = Duration::from_secs(5);

/// Which store to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BenchStore {
    /// A file in a temporary folder.
    Embedded(Durability),
    /// A `redis-server` of its own, without a log on disk.
    PrivateRedis,
    /// A Redis that is there, under keys of its own: what is in it stays as it is.
    RedisAt(String),
}

impl fmt::Display for BenchStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(Durability::Power) => f.write_str("embedded (power)"),
            Self::Embedded(Durability::Process) => f.write_str("embedded (process)"),
            Self::PrivateRedis => f.write_str("redis"),
            // Without the user's name and password.
            Self::RedisAt(url) => f.write_str(url.rsplit_once('@').map_or(url, |(_, host)| host)),
        }
    }
}

/// An open store, with what has to go when it goes.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) store: Arc<dyn Store>,
    server: Option<PrivateServer>,
    /// Dropped after the store that is in it.
    _folder: Option<TempDir>,
}

impl Place {
    pub(super) async fn open(which: &BenchStore) -> Result<Self, RigError> {
        match which {
            BenchStore::Embedded(durability) => {
                let folder = TempDir::with_prefix("gristmill-bench-").map_err(RigError::MakeFolder)?;
                let store = EmbeddedStore::open(&folder.path().join("bench.db"), *durability).await?;
                Ok(Self { store: Arc::new(store), server: None, _folder: Some(folder) })
            }
            BenchStore::PrivateRedis => {
                let server = PrivateServer::start().map_err(RigError::StartServer)?;
                Ok(Self { store: Arc::new(server.connect().await?), server: Some(server), _folder: None })
            }
            BenchStore::RedisAt(url) => {
                let store = RedisStore::connect(url, &format!("gm-bench-{}", std::process::id())).await?;
                Ok(Self { store: Arc::new(store), server: None, _folder: None })
            }
        }
    }

    /// CPU time of the store's process so far; none if it is not ours, or this one.
    pub(super) fn cpu(&self) -> Option<Duration> {
        self.server.as_ref().map(|server| super::cpu::used(server.child.id()))
    }
}

/// A `redis-server` on a socket in a folder of its own.
#[derive(Debug)]
struct PrivateServer {
    child: Child,
    folder: TempDir,
}

impl PrivateServer {
    fn start() -> std::io::Result<Self> {
        let folder = TempDir::with_prefix("gristmill-bench-")?;
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(folder.path().join("redis.sock"))
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self { child, folder })
    }

    async fn connect(&self) -> Result<RedisStore, StoreError> {
        let url = format!("redis+unix://{}", self.folder.path().join("redis.sock").display());
        let begun = tokio::time::Instant::now();
        loop {
            match RedisStore::connect(&url, "gm").await {
                Err(error) if error.is_away() && begun.elapsed() < SERVER_START => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                answer => return answer,
            }
        }
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
