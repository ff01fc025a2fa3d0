//! What every scenario runs on: a store, a topic with one handler, and a runner that is watched.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::config::Manifest;
use crate::handlers::{Fleet, Handler};
use crate::job::{Name, TopicId, WorkerId};
use crate::runner::{AttemptRecord, Runner, RunnerSettings};
use crate::store::redis::RedisStore;
use crate::store::{Store, StoreError};
use crate::wasm::{LoadError, Sandbox};

const TOPIC: &str = "bench";
/// How long a private server may take to answer.
const SERVER_START: Duration = Duration::from_secs(5);

/// What the scenarios have in common.
#[derive(Debug, Clone)]
pub struct RigSettings {
    /// The component to run.
    pub handler: PathBuf,
    /// None: a private `redis-server`, gone afterwards.
    pub store: Option<String>,
    pub concurrency: usize,
    pub threads: usize,
    pub payload_bytes: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum RigError {
    #[error("failed to read the handler {}; build it with scripts/build-handlers.sh or name another with --handler", path.display())]
    ReadHandler {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("failed to load the handler")]
    LoadHandler(#[from] LoadError),
    #[error("failed to start a private redis-server; install one, or name a store with --store")]
    StartServer(#[source] std::io::Error),
    #[error("failed to start a runner")]
    StartRunner(#[source] std::io::Error),
    #[error("failed to use the store")]
    Store(#[from] StoreError),
}

/// A store and a handler; runners come and go.
#[derive(Debug)]
pub struct Rig {
    pub settings: RigSettings,
    pub(super) store: Arc<dyn Store>,
    pub(super) topic: TopicId,
    fleet: watch::Sender<Arc<Fleet>>,
    server: Option<PrivateServer>,
}

impl Rig {
    /// # Errors
    /// If the handler does not load or the store does not answer.
    pub async fn new(settings: RigSettings, sandbox: &Sandbox) -> Result<Self, RigError> {
        let path = settings.handler.clone();
        let bytes = std::fs::read(&path).map_err(|source| RigError::ReadHandler { path, source })?;
        let component = sandbox.load(&bytes).await?;
        let (store, server) = match &settings.store {
            // A prefix of its own: what is in the store stays as it is.
            Some(url) => (RedisStore::connect(url, &format!("gm-bench-{}", std::process::id())).await?, None),
            None => {
                let server = PrivateServer::start().map_err(RigError::StartServer)?;
                (server.connect().await?, Some(server))
            }
        };
        let topic = topic();
        let fleet = fleet(&topic, component, settings.concurrency);
        Ok(Self { settings, store: Arc::new(store), topic, fleet: watch::Sender::new(Arc::new(fleet)), server })
    }

    /// A runner, and a line for every attempt that it settles.
    pub(super) fn run(&self) -> Result<(Runner, mpsc::UnboundedReceiver<AttemptRecord>), RigError> {
        let (sender, records) = mpsc::unbounded_channel();
        let settings = RunnerSettings {
            worker: WorkerId::new("bench"),
            concurrency: self.settings.concurrency,
            threads: self.settings.threads,
            shutdown_grace: Duration::from_secs(5),
            observer: Some(Arc::new(move |record: &AttemptRecord| drop(sender.send(record.clone())))),
        };
        let runner =
            Runner::start(self.store.clone(), self.fleet.subscribe(), settings).map_err(RigError::StartRunner)?;
        Ok((runner, records))
    }

    pub(super) async fn end(runner: Runner) {
        runner.shutdown(CancellationToken::new()).await;
    }

    pub(super) fn store_name(&self) -> String {
        self.settings.store.clone().unwrap_or_else(|| "private redis-server".into())
    }

    /// CPU time of the store's process so far; none if it is not ours.
    pub(super) fn store_cpu(&self) -> Option<Duration> {
        self.server.as_ref().map(|server| super::cpu::used(server.child.id()))
    }
}

fn topic() -> TopicId {
    #[expect(clippy::expect_used, reason = "a constant that is a name")]
    TOPIC.parse().expect("a topic's name")
}

fn fleet(topic: &TopicId, component: crate::wasm::Component, concurrency: usize) -> Fleet {
    let name: Name = topic.topic.clone();
    let mut manifest = Manifest::default_at(std::path::Path::new("."));
    let mut settings = manifest.auto_topic(&name);
    settings.concurrency = u32::try_from(concurrency).unwrap_or(u32::MAX);
    manifest.topics.insert(topic.clone(), settings);
    Fleet::new(&manifest, &BTreeMap::from([(name.clone(), Handler { name, component })]))
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
