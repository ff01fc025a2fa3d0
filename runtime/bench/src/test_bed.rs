//! What every scenario runs on: a store, topics with handlers, and a runner that is watched.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::open_store::{BenchStore, OpenStore};
use super::progress::Progress;
use gristmill_config::{JournalSettings, Manifest};
use gristmill_core::job::{Name, TopicId, WorkerId};
use gristmill_core::topic::Grants;
use gristmill_runner::handlers::{Handler, HandlerRegistry};
use gristmill_runner::{AttemptRecord, Journal, JournalError, Observer, Runner, RunnerSettings, Tenants};
use gristmill_sandbox::{Component, LoadError, Sandbox, SandboxError};
use gristmill_store::StoreError;

/// What the scenarios have in common.
#[derive(Debug, Clone)]
pub struct BenchSettings {
    /// The component to run.
    pub handler: PathBuf,
    /// A component that waits and computes as its payload says: `handlers/simulate`.
    pub simulate: PathBuf,
    pub store: BenchStore,
    pub concurrency: usize,
    pub threads: usize,
    /// Each job's.
    pub body: Arc<[u8]>,
    /// Every attempt is written down, in a file that goes with the bed.
    pub journal: bool,
    pub progress: Progress,
}

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("failed to read the handler {}; build it with scripts/build-handlers.sh or name another with an option", path.display())]
    ReadHandler {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("failed to load the handler")]
    LoadHandler(#[from] LoadError),
    #[error("failed to set up a sandbox")]
    Sandbox(#[from] SandboxError),
    #[error("failed to start a private redis-server; install one, or name a store with --store")]
    StartServer(#[source] std::io::Error),
    #[error("failed to make a temporary folder; set TMPDIR to another place")]
    MakeFolder(#[source] std::io::Error),
    #[error("failed to write a component into the temporary folder")]
    WriteHandler(#[source] std::io::Error),
    #[error("failed to open a journal")]
    Journal(#[from] JournalError),
    #[error("failed to start a runner")]
    StartRunner(#[source] std::io::Error),
    #[error("failed to connect with the server")]
    Connect(#[source] std::io::Error),
    #[error("failed to ask the server")]
    Ask(#[source] hyper::Error),
    #[error("failed to use the store")]
    Store(#[from] StoreError),
    #[error("failed to measure the bare Redis")]
    Floor(#[from] redis::RedisError),
    #[error("a part of the measurement failed, which measures nothing: {0}")]
    Failed(String),
}

/// A store and a handler; runners come and go.
#[derive(Debug)]
pub struct TestBed {
    pub settings: BenchSettings,
    pub(super) store: OpenStore,
    /// The topic of the measured handler.
    pub(super) topic: TopicId,
    pub(super) component: Component,
    registry: watch::Sender<Arc<HandlerRegistry>>,
    journals: Option<TempDir>,
}

/// A runner, and its journal if it has one.
pub(super) struct Running {
    runner: Runner,
    journal: Option<Journal>,
}

/// A topic that the bed's runners work on.
pub(super) struct TopicSetup {
    pub(super) topic: TopicId,
    pub(super) component: Component,
    pub(super) concurrency: usize,
    /// Jobs that one instance does.
    pub(super) reuse: u32,
}

impl TestBed {
    /// # Errors
    /// If the handler does not load or the store does not answer.
    pub async fn new(settings: BenchSettings, sandbox: &Sandbox) -> Result<Self, BenchError> {
        let component = load(sandbox, &settings.handler).await?;
        let store = OpenStore::open(&settings.store).await?;
        let journals = settings.journal.then(|| TempDir::with_prefix("gristmill-bench-")).transpose();
        let journals = journals.map_err(BenchError::MakeFolder)?;
        let bed =
            Self { settings, store, topic: topic("bench"), component, registry: watch::Sender::default(), journals };
        bed.serve(vec![bed.topic_setup(bed.topic.clone())]);
        Ok(bed)
    }

    /// The measured handler on a topic, as wide as the runner.
    pub(super) fn topic_setup(&self, topic: TopicId) -> TopicSetup {
        TopicSetup { topic, component: self.component.clone(), concurrency: self.settings.concurrency, reuse: 1 }
    }

    /// Gives the runners other topics to work on.
    pub(super) fn serve(&self, setups: Vec<TopicSetup>) {
        self.registry.send_replace(Arc::new(registry(setups)));
    }

    /// A runner, and a line for every attempt that it settles.
    pub(super) fn run(&self) -> Result<(Running, mpsc::UnboundedReceiver<AttemptRecord>), BenchError> {
        let (sender, records) = mpsc::unbounded_channel();
        let observer = Arc::new(move |record: &AttemptRecord| drop(sender.send(record.clone())));
        Ok((self.observed(self.registry.subscribe(), observer)?, records))
    }

    /// A runner, and how many attempts it has settled: to be measured itself, so as little as possible is added to it.
    pub(super) fn run_counted(&self) -> Result<(Running, Arc<AtomicUsize>), BenchError> {
        let done = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&done);
        let observer = Arc::new(move |_: &AttemptRecord| _ = counter.fetch_add(1, Ordering::Relaxed));
        Ok((self.observed(self.registry.subscribe(), observer)?, done))
    }

    /// A runner with handlers of its own.
    pub(super) fn observed(
        &self,
        registry: watch::Receiver<Arc<HandlerRegistry>>,
        observer: Observer,
    ) -> Result<Running, BenchError> {
        let settings = RunnerSettings {
            worker: WorkerId::new("bench"),
            concurrency: self.settings.concurrency,
            threads: self.settings.threads,
            shutdown_grace: Duration::from_secs(5),
            observer: Some(observer),
            metrics: Arc::default(),
            tenants: Tenants::default(),
        };
        let journal = self
            .journals
            .as_ref()
            .map(|folder| Journal::open(&JournalSettings::at(folder.path().join("journal.jsonl")), &settings.worker));
        let journal = journal.transpose()?;
        let runner = Runner::start_with_journal(self.store.store.clone(), registry, settings, journal.clone());
        Ok(Running { runner: runner.map_err(BenchError::StartRunner)?, journal })
    }

    pub(super) async fn end(Running { runner, journal }: Running) {
        runner.shutdown(CancellationToken::new()).await;
        if let Some(journal) = journal {
            journal.close().await;
        }
    }
}

/// Waits until `target` are done; looks every millisecond, and moves the bar.
pub(super) async fn reach(done: &AtomicUsize, target: usize, progress: &Progress) {
    let mut shown = done.load(Ordering::Relaxed);
    while shown < target {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let now = done.load(Ordering::Relaxed);
        progress.add(now - shown);
        shown = now;
    }
}

/// Loads a component from a file.
pub(super) async fn load(sandbox: &Sandbox, path: &Path) -> Result<Component, BenchError> {
    Ok(sandbox.load(&read(path)?).await?)
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, BenchError> {
    std::fs::read(path).map_err(|source| BenchError::ReadHandler { path: path.to_owned(), source })
}

/// A topic of the default tenant.
pub(super) fn topic(name: &str) -> TopicId {
    #[expect(clippy::expect_used, reason = "our own names")]
    name.parse().expect("a topic's name")
}

fn registry(setups: Vec<TopicSetup>) -> HandlerRegistry {
    let mut manifest = Manifest::default_at(Path::new("."));
    manifest.handlers.auto_topics = false;
    let mut handlers = BTreeMap::new();
    for TopicSetup { topic, component, concurrency, reuse } in setups {
        let name: Name = topic.topic.clone();
        let mut settings = manifest.auto_topic(&name);
        settings.concurrency = u32::try_from(concurrency).unwrap_or(u32::MAX);
        settings.reuse = reuse;
        // Whoever measures a component trusts it.
        settings.grants = Arc::new(Grants { clock: true, random: true, ..Grants::default() });
        manifest.topics.insert(topic, settings);
        handlers.insert(name.clone(), Handler { name, component });
    }
    HandlerRegistry::new(&manifest, &handlers, &HandlerRegistry::default())
}
