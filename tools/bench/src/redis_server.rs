//! `redis-server`s of our own: one, or those of a cluster.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;

use super::test_bed::temporary_folder;
use super::usage::cpu_of;
use gristmill_store::StoreError;
use gristmill_store::redis::RedisStore;

/// How long it may take to answer, or to know the others of its cluster.
const SERVER_START: Duration = Duration::from_secs(5);

/// What the keys in it begin with.
pub(super) const PREFIX: &str = "gm";

/// A `redis-server` with a folder of its own, without a log on disk. Ends when dropped.
#[derive(Debug)]
struct PrivateServer {
    child: Child,
    folder: TempDir,
    /// Where it listens; 0 is on a socket in its folder.
    port: u16,
}

/// Servers that together have the keys. They end when dropped.
#[derive(Debug)]
pub(super) struct PrivateServers {
    servers: Vec<PrivateServer>,
    is_cluster: bool,
}

impl PrivateServer {
    fn start(port: u16, is_cluster: bool) -> anyhow::Result<Self> {
        let folder = temporary_folder()?;
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"])
            .args(["--cluster-enabled", if is_cluster { "yes" } else { "no" }, "--dir"])
            .arg(folder.path())
            .arg("--unixsocket")
            .arg(folder.path().join("redis.sock"))
            .stdout(Stdio::null())
            .spawn()
            .context("failed to start a private redis-server; install one, or name a store with --store")?;
        Ok(Self { child, folder, port })
    }

    /// The address of this server alone.
    fn url(&self) -> String {
        if self.port > 0 {
            return format!("redis://127.0.0.1:{}", self.port);
        }
        format!("redis+unix://{}", self.folder.path().join("redis.sock").display())
    }

    /// One `CLUSTER` command, as soon as the server answers.
    async fn cluster(&self, words: &[&str]) -> anyhow::Result<String> {
        let client = redis::Client::open(self.url())?;
        let mut connection = until(async || client.get_multiplexed_async_connection().await, |_| true).await?;
        Ok(redis::cmd("CLUSTER").arg(words).query_async(&mut connection).await?)
    }
}

impl PrivateServers {
    /// One, on a socket.
    pub(super) fn one() -> anyhow::Result<Self> {
        Ok(Self { servers: vec![PrivateServer::start(0, false)?], is_cluster: false })
    }

    /// So many, at ports: one by itself, several as a cluster.
    pub(super) async fn at_ports(count: usize) -> anyhow::Result<Self> {
        let is_cluster = count > 1;
        let servers =
            (0..count).map(|_| PrivateServer::start(free_port()?, is_cluster)).collect::<anyhow::Result<_>>()?;
        let servers = Self { servers, is_cluster };
        if is_cluster {
            servers.share_slots().await?;
        }
        Ok(servers)
    }

    async fn share_slots(&self) -> anyhow::Result<()> {
        const SLOTS: usize = 16_384;
        let count = self.servers.len();
        for (number, server) in self.servers.iter().enumerate() {
            let [first, end] = [number, number + 1].map(|number| SLOTS * number / count);
            server.cluster(&["ADDSLOTSRANGE", &first.to_string(), &(end - 1).to_string()]).await?;
            // Otherwise the servers first settle which of them is right.
            server.cluster(&["SET-CONFIG-EPOCH", &(number + 1).to_string()]).await?;
            for other in &self.servers {
                server.cluster(&["MEET", "127.0.0.1", &other.port.to_string()]).await?;
            }
        }
        let all = format!("cluster_size:{count}\r");
        let knows_all = |info: &String| info.contains("cluster_state:ok") && info.contains(&all);
        for server in &self.servers {
            let info = until(async || server.cluster(&["INFO"]).await, knows_all).await?;
            anyhow::ensure!(knows_all(&info), "the private servers do not form a cluster");
        }
        Ok(())
    }

    pub(super) fn url(&self) -> String {
        let urls: Vec<String> = self.servers.iter().map(PrivateServer::url).collect();
        let url = urls.join(",").replace(",redis://", ",");
        if self.is_cluster { url.replace("redis://", "redis+cluster://") } else { url }
    }

    /// CPU time of all so far.
    pub(super) fn cpu(&self) -> Duration {
        self.servers.iter().map(|server| cpu_of(server.child.id())).sum()
    }

    /// Waits until the servers answer.
    pub(super) async fn connect(&self) -> Result<RedisStore, StoreError> {
        until(async || RedisStore::connect(&self.url(), PREFIX).await, |_| true).await
    }
}

/// Asks again until the answer is as it should be, for as long as a server may take to start. Returns the last answer.
async fn until<T, E>(ask: impl AsyncFn() -> Result<T, E>, is_right: impl Fn(&T) -> bool) -> Result<T, E> {
    let begun = tokio::time::Instant::now();
    loop {
        let answer = ask().await;
        if answer.as_ref().is_ok_and(&is_right) || begun.elapsed() >= SERVER_START {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A port that nothing listens at. A server of a cluster speaks to the others at the one that is 10,000 higher.
fn free_port() -> anyhow::Result<u16> {
    loop {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        if port < 55_536 {
            return Ok(port);
        }
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
