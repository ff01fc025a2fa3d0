//! What every scenario runs on: a store, a topic with one handler, and a runner that is watched.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::place::{BenchStore, Place};
use crate::config::Manifest;
use crate::handlers::{Fleet, Handler};
use crate::job::{Name, TopicId, WorkerId};
use crate::runner::{AttemptRecord, Runner, RunnerSettings};
use crate::store::StoreError;
use crate::wasm::{LoadError, Sandbox};

const TOPIC: &str = "bench";

/// What the scenarios have in common.
#[derive(Debug, Clone)]
pub struct RigSettings {
    /// The component to run.
    pub handler: PathBuf,
    pub store: BenchStore,
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
    #[error("failed to make a temporary folder for the store; set TMPDIR to another place")]
    MakeFolder(#[source] std::io::Error),
    #[error("failed to start a runner")]
    StartRunner(#[source] std::io::Error),
    #[error("failed to use the store")]
    Store(#[from] StoreError),
}

/// A store and a handler; runners come and go.
#[derive(Debug)]
pub struct Rig {
    pub settings: RigSettings,
    pub(super) place: Place,
    pub(super) topic: TopicId,
    fleet: watch::Sender<Arc<Fleet>>,
}

impl Rig {
    /// # Errors
    /// If the handler does not load or the store does not answer.
    pub async fn new(settings: RigSettings, sandbox: &Sandbox) -> Result<Self, RigError> {
        let path = settings.handler.clone();
        let bytes = std::fs::read(&path).map_err(|source| RigError::ReadHandler { path, source })?;
        let component = sandbox.load(&bytes).await?;
        let place = Place::open(&settings.store).await?;
        let topic = topic();
        let fleet = fleet(&topic, component, settings.concurrency);
        Ok(Self { settings, place, topic, fleet: watch::Sender::new(Arc::new(fleet)) })
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
            Runner::start(self.place.store.clone(), self.fleet.subscribe(), settings).map_err(RigError::StartRunner)?;
        Ok((runner, records))
    }

    pub(super) async fn end(runner: Runner) {
        runner.shutdown(CancellationToken::new()).await;
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
