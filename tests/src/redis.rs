//! A private `redis-server` on a socket in a folder of its own, gone when dropped.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Weak};

use redis::AsyncConnectionConfig;
use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::wait::{SOON, until};

/// A running Redis that writes every change to its log, so that it comes back with its data.
#[derive(Debug)]
pub struct Redis {
    folder: TempDir,
    server: Option<Child>,
}

/// The one that tests of this process share which need no more of a server than keys of their own. It ends with the last
/// of its users, so that nothing stays behind; who comes later starts another one.
pub async fn shared() -> Arc<Redis> {
    static SHARED: Mutex<Weak<Redis>> = Mutex::const_new(Weak::new());
    let mut shared = SHARED.lock().await;
    if let Some(running) = shared.upgrade() {
        return running;
    }
    let server = Arc::new(Redis::start_without_log().await);
    *shared = Arc::downgrade(&server);
    server
}

impl Redis {
    /// Starts one and waits until it answers.
    pub async fn start() -> Self {
        let mut redis = Self { folder: TempDir::with_prefix("gristmill-redis-").unwrap(), server: None };
        redis.resume().await;
        redis
    }

    /// Starts one for those who do not kill it and want its data back.
    pub async fn start_without_log() -> Self {
        let redis = Self::start().await;
        redis.ask::<String>("CONFIG", &["SET", "appendonly", "no"]).await.expect("Redis takes the setting");
        redis
    }

    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// SIGKILL, in the middle of whatever it does.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }

    /// SIGSTOP and SIGCONT, for a server that stands still.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(self.server.as_ref().unwrap());
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Stops it in order, its data on disk.
    pub fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let pid = rustix::process::Pid::from_child(&server);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            server.wait().unwrap();
        }
    }

    /// Starts it again with the data that it had.
    pub async fn resume(&mut self) {
        let server = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "yes"])
            // It is the process that is killed, not the machine. With `everysec`, a disk that is slow to take what was
            // written holds up the next write for two seconds, and whoever kills it then loses what was acknowledged.
            .args(["--appendfsync", "no"])
            .arg("--unixsocket")
            .arg(self.socket())
            .arg("--dir")
            .arg(self.folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server can be started: install it with scripts/setup.sh");
        self.server = Some(server);
        until("redis to answer", SOON, async || self.ask::<String>("PING", &[]).await).await;
    }

    /// One command, by hand; none if Redis does not answer, or not with that.
    pub async fn ask<T: redis::FromRedisValue>(&self, command: &str, arguments: &[&str]) -> Option<T> {
        let client = redis::Client::open(self.url()).ok()?;
        // By themselves they are half a second: too little for a busy machine.
        let patient = AsyncConnectionConfig::new().set_connection_timeout(Some(SOON)).set_response_timeout(Some(SOON));
        let mut connection = client.get_multiplexed_async_connection_with_config(&patient).await.ok()?;
        redis::cmd(command).arg(arguments).query_async(&mut connection).await.ok()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            drop(server.kill());
            drop(server.wait());
        }
    }
}
