//! A private `redis-server` on a socket in a folder of its own, gone when dropped.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::shell::after;
use crate::wait::{SOON, until};

/// A running Redis.
#[derive(Debug)]
pub struct Redis {
    folder: TempDir,
    settings: Settings,
    /// Where it listens beside its socket: 0 is nowhere.
    port: u16,
    server: Option<Child>,
}

/// How a Redis is started.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Whether every change is written to its log, so that it comes back with its data.
    log: bool,
    listens: bool,
    /// More of its own options.
    options: Vec<String>,
    /// What the file says that a sentinel begins with; it keeps its state in that file.
    sentinel: Option<String>,
    is_valkey: bool,
}

impl Settings {
    /// With a TCP port beside the socket.
    pub fn listens(self) -> Self {
        Self { listens: true, ..self }
    }

    /// With TLS, and only with it, at its port. `clients`: whether they must show a certificate of the same authority.
    pub fn tls(self, certificates: &Certificates, server: &str, clients: bool) -> Self {
        let path = |file: &str| certificates.path(file).display().to_string();
        let settings = self.listens();
        settings
            .option("tls-cert-file", path(&format!("{server}.pem")))
            .option("tls-key-file", path(&format!("{server}-key.pem")))
            .option("tls-ca-cert-file", path("ca.pem"))
            .option("tls-auth-clients", if clients { "yes" } else { "no" })
    }

    /// As a Valkey.
    pub fn valkey(self) -> Self {
        Self { is_valkey: true, ..self }
    }

    pub fn option(mut self, name: &str, value: impl Into<String>) -> Self {
        self.options.extend([format!("--{name}"), value.into()]);
        self
    }

    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(ToString::to_string));
        self
    }

    /// As a sentinel that watches the primary at the port, and finds it dead by itself only after ten minutes.
    pub fn sentinel(self, name: &str, port: u16) -> Self {
        let config = format!(
            "sentinel monitor {name} 127.0.0.1 {port} 2\nsentinel down-after-milliseconds {name} 600000\n\
             sentinel failover-timeout {name} 20000\n"
        );
        Self { sentinel: Some(config), ..self.listens() }
    }

    /// As a server of a cluster that has no other server yet, and finds no other dead by itself before ten minutes.
    pub fn in_cluster(self) -> Self {
        let over_tls = if self.speaks_tls() { "yes" } else { "no" };
        let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "600000", "--tls-cluster", over_tls];
        self.listens().options(&options)
    }

    pub(crate) fn speaks_tls(&self) -> bool {
        self.options.iter().any(|option| option == "--tls-cert-file")
    }
}

impl Redis {
    /// Starts one that writes every change to its log, and waits until it answers.
    pub async fn start() -> Self {
        Self::start_with(Settings { log: true, ..Settings::default() }).await
    }

    /// Starts one for those who do not want its data back.
    pub async fn start_without_log() -> Self {
        Self::start_with(Settings::default()).await
    }

    pub async fn start_with(settings: Settings) -> Self {
        let folder = TempDir::with_prefix("gristmill-redis-").unwrap();
        let mut redis = Self { folder, settings, port: 0, server: None };
        redis.resume().await;
        redis
    }

    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// The TCP port of one that listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// SIGKILL, in the middle of whatever it does.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }

    /// Kills it, and starts it again: empty, if it has no log.
    pub async fn replace(&mut self) {
        self.kill();
        self.resume().await;
    }

    /// SIGSTOP and SIGCONT, for a server that stands still.
    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(self.server.as_ref().unwrap())
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
        // Another program may take the port before the server does: then it ends, and tries another one.
        until("redis to answer", SOON, async || {
            let ended = self.server.as_mut().and_then(|server| server.try_wait().unwrap());
            let is_missing = ended.is_some_and(|ended| ended.code() == Some(127));
            assert!(!is_missing, "redis-server cannot be started: install it with scripts/setup.sh --tests");
            if self.server.is_none() || ended.is_some() {
                if self.settings.listens && self.server.is_some() | (self.port == 0) {
                    self.port = free_port();
                }
                self.server = Some(self.spawn());
            }
            self.ask::<String>("PING", &[]).await
        })
        .await;
    }

    fn spawn(&self) -> Child {
        let port = self.port.to_string();
        let ports = if self.settings.speaks_tls() { ["0", &port] } else { [&port, "0"] };
        let mut command = Command::new(if self.settings.is_valkey { "valkey-server" } else { "redis-server" });
        let file = self.folder.path().join("sentinel.conf");
        if let Some(config) = self.settings.sentinel.as_ref().filter(|_| !file.exists()) {
            std::fs::write(&file, config).unwrap();
        }
        if self.settings.sentinel.is_some() {
            command.arg(file).arg("--sentinel");
        }
        command
            .args(["--save", "", "--appendonly", if self.settings.log { "yes" } else { "no" }])
            // It is the process that is killed, not the machine. With `everysec`, a disk that is slow to take what was
            // written holds up the next write for two seconds, and whoever kills it then loses what was acknowledged.
            .args(["--appendfsync", "no"])
            .args(["--bind", "127.0.0.1", "--port", ports[0], "--tls-port", ports[1]])
            .arg("--unixsocket")
            .arg(self.socket())
            .arg("--dir")
            .arg(self.folder.path())
            .args(&self.settings.options);
        // A limit on the size of its files must fail its writes, and not end it.
        after("trap '' XFSZ", &command).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// One command, by hand; none if Redis does not answer, or not with that.
    pub async fn ask<T: redis::FromRedisValue>(&self, command: &str, arguments: &[&str]) -> Option<T> {
        redis::cmd(command).arg(arguments).query_async(&mut self.connect().await.ok()?).await.ok()
    }

    /// A connection for commands by hand.
    pub async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        // The client's own timeouts are half a second: too little for a busy machine.
        let patient = AsyncConnectionConfig::new().set_connection_timeout(Some(SOON)).set_response_timeout(Some(SOON));
        redis::Client::open(self.url())?.get_multiplexed_async_connection_with_config(&patient).await
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
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

/// A port that nothing listens on. A server of a cluster speaks to the others at the one that is 10,000 higher.
fn free_port() -> u16 {
    let mut ports =
        std::iter::repeat_with(|| TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port());
    ports.find(|port| *port < 55_536).unwrap()
}
