//! A `redis-server` of our own.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;

use super::test_bed::temporary_folder;
use gristmill_store::StoreError;
use gristmill_store::redis::RedisStore;

/// How long it may take to answer.
const SERVER_START: Duration = Duration::from_secs(5);

/// What the keys in it begin with.
pub(super) const PREFIX: &str = "gm";

/// A `redis-server` on a socket in a folder of its own, without a log on disk. Ends when dropped.
#[derive(Debug)]
pub(super) struct PrivateServer {
    child: Child,
    folder: TempDir,
}

impl PrivateServer {
    pub(super) fn start() -> anyhow::Result<Self> {
        let folder = temporary_folder()?;
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(folder.path().join("redis.sock"))
            .stdout(Stdio::null())
            .spawn()
            .context("failed to start a private redis-server; install one, or name a store with --store")?;
        Ok(Self { child, folder })
    }

    pub(super) fn url(&self) -> String {
        format!("redis+unix://{}", self.folder.path().join("redis.sock").display())
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the server answers.
    pub(super) async fn connect(&self) -> Result<RedisStore, StoreError> {
        let begun = tokio::time::Instant::now();
        loop {
            match RedisStore::connect(&self.url(), PREFIX).await {
                Err(error) if error.is_unavailable() && begun.elapsed() < SERVER_START => {
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
