//! A private server, and a store in it.

use std::ops::Deref;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{interval, timeout};

use crate::redis::{DEFAULT_PREFIX, RedisStore};
use crate::tests::{TestStore, still_clock};

/// A `redis-server` of its own, on a socket of its own, gone when dropped.
pub(super) struct Server {
    folder: TempDir,
    process: Child,
}

impl Server {
    pub(super) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = Self::spawn(&folder);
        let server = Self { folder, process };
        server.answers().await;
        server
    }

    fn spawn(folder: &TempDir) -> Child {
        Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(folder.path().join("redis.sock"))
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("`redis-server` runs: these tests need Redis 6.2 or later in the PATH")
    }

    async fn answers(&self) {
        drop(self.store().await);
    }

    /// A store in it, once it answers.
    async fn store(&self) -> RedisStore {
        let mut store = None;
        until("the server answers", async || {
            store = RedisStore::connect(&self.url(), DEFAULT_PREFIX).await.ok();
            store.is_some()
        })
        .await;
        store.unwrap()
    }

    pub(super) fn url(&self) -> String {
        format!("unix:{}", self.folder.path().join("redis.sock").display())
    }

    pub(super) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Kills the server, and starts an empty one in its place.
    pub(super) async fn replace(&mut self) {
        self.kill();
        self.process = Self::spawn(&self.folder);
        self.answers().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until `condition` holds, for at most thirty seconds.
pub(super) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let wait = async {
        let mut ticks = interval(Duration::from_millis(2));
        loop {
            ticks.tick().await;
            if condition().await {
                return;
            }
        }
    };
    timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

/// A store in a server of its own.
pub(super) struct TestRedis {
    pub(super) server: Server,
    inner: TestStore<RedisStore>,
}

impl Deref for TestRedis {
    type Target = TestStore<RedisStore>;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl TestRedis {
    pub(super) async fn new() -> Self {
        let server = Server::start().await;
        let (still, clock) = still_clock();
        let inner = TestStore { store: server.store().await.with_clock(still), clock };
        Self { server, inner }
    }

    /// Speaks to the server behind the store's back, as a raw producer or an accident does.
    pub(super) async fn raw(&self, command: &mut redis::Cmd) -> redis::Value {
        let mut commands = redis::pipe();
        commands.add_command(std::mem::take(command));
        self.inner.store.link.query::<Vec<redis::Value>>("test", &commands).await.unwrap().pop().unwrap()
    }
}
