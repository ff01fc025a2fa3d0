//! What every scenario runs on: a store, topics with handlers, and a runner that is watched.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::figure::Figure;
use super::open_store::{BenchStore, OpenStore};
use super::progress::Progress;
use super::stopwatch::Stopwatch;
use gristmill_config::{LineFileSettings, Manifest};
use gristmill_core::job::{Name, TopicId, WorkerId};
use gristmill_core::topic::{Capability, Grants};
use gristmill_runner::handlers::{Available, Code, Handler, HandlerRegistry};
use gristmill_runner::{AttemptRecord, BillWriter, Journal, Observer, Runner, RunnerSettings, Shares, Tasks, Traces};
use gristmill_sandbox::{Component, Sandbox};
use gristmill_store::{BillSums, Store};

/// What the scenarios have in common.
#[derive(Debug, Clone)]
pub struct BenchSettings {
    /// The component to run.
    pub handler: PathBuf,
    /// A component that waits and computes as its payload says: `handlers/simulate`.
    pub simulate: PathBuf,
    /// The program `gristmill`, where a server is measured.
    pub gristmill: PathBuf,
    /// Where the jobs are.
    pub store: BenchStore,
    /// Jobs of a topic at once; of a runner as many, and at least the default of `[server] concurrency`.
    pub concurrency: usize,
    /// Threads that run guests.
    pub threads: usize,
    /// Each job's.
    pub body: Arc<[u8]>,
    /// Every attempt is written down, in a file that goes with the bed.
    pub journal: bool,
    /// Where progress is shown.
    pub progress: Progress,
}

/// A store and a handler; runners come and go.
#[derive(Debug)]
pub struct TestBed {
    /// What was asked for.
    pub settings: BenchSettings,
    pub(super) store: OpenStore,
    /// The topic of the measured handler.
    pub(super) topic: TopicId,
    pub(super) component: Component,
    /// Where the next runners send spans.
    pub(super) traces: Option<Traces>,
    registry: watch::Sender<Arc<HandlerRegistry>>,
    journals: Option<TempDir>,
}

/// A runner's own limit by default.
const SLOTS: usize = 256;
/// For how long the bills of measured jobs are kept.
const BILL_KEPT: Duration = Duration::from_secs(86_400);

/// A runner, and its journal if it has one.
pub(super) struct Running {
    runner: Runner,
    journal: Option<Journal>,
    bill: (CancellationToken, Tasks),
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
    pub async fn new(settings: BenchSettings, sandbox: &Sandbox) -> anyhow::Result<Self> {
        let component = load(sandbox, &settings.handler).await?;
        let store = OpenStore::open(&settings.store).await?;
        let journals = settings.journal.then(temporary_folder).transpose()?;
        let (topic, registry) = (topic("bench"), watch::Sender::default());
        let bed = Self { settings, store, topic, component, traces: None, registry, journals };
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

    /// Gives the runners the topics of a manifest to work on; their handler is called `bench`.
    pub(super) fn serve_manifest(&self, text: &str) -> anyhow::Result<()> {
        let mut manifest = Manifest::parse(text, Path::new("bench.toml")).context("our own manifest")?;
        manifest.handlers.auto_topics = false;
        let name: Name = self.topic.topic.clone();
        let handler = Handler { name: name.clone(), code: Code::Component(self.component.clone()) };
        let available = Available { handlers: BTreeMap::from([(name, handler)]), ..Available::default() };
        self.registry.send_replace(Arc::new(HandlerRegistry::new(&manifest, &available, &HandlerRegistry::default())));
        Ok(())
    }

    /// A runner, and a line for every attempt that it settles.
    pub(super) fn run(&self) -> anyhow::Result<(Running, mpsc::UnboundedReceiver<AttemptRecord>)> {
        let (observer, records) = recorded();
        Ok((self.observed(self.registry.subscribe(), observer)?, records))
    }

    /// A runner, and how many attempts it has settled: to be measured itself, so as little as possible is added to it.
    pub(super) fn run_counted(&self) -> anyhow::Result<(Running, Arc<AtomicUsize>)> {
        let (observer, done) = counted();
        Ok((self.observed(self.registry.subscribe(), observer)?, done))
    }

    /// A runner with handlers of its own.
    pub(super) fn observed(
        &self,
        registry: watch::Receiver<Arc<HandlerRegistry>>,
        observer: Observer,
    ) -> anyhow::Result<Running> {
        self.start(WorkerId::new("bench"), self.store.store.clone(), registry, observer)
    }

    /// Starts so many runners, each with a connection of its own to the Redis of the bed.
    pub(super) async fn run_herd(&self, runners: usize, observer: Observer) -> anyhow::Result<Vec<Running>> {
        let mut herd = Vec::with_capacity(runners);
        for number in 0..runners {
            let (worker, store) = (WorkerId::new(&format!("bench-{number}")), self.store.connect_again().await?);
            herd.push(self.start(worker, store, self.registry.subscribe(), Arc::clone(&observer))?);
        }
        Ok(herd)
    }

    fn start(
        &self,
        worker: WorkerId,
        store: Arc<dyn Store>,
        registry: watch::Receiver<Arc<HandlerRegistry>>,
        observer: Observer,
    ) -> anyhow::Result<Running> {
        let journal = self
            .journals
            .as_ref()
            .map(|folder| Journal::open(&LineFileSettings::at(folder.path().join("journal.jsonl")), &worker));
        let journal = journal.transpose().context("failed to open a journal")?;
        let (sums, shares, stop, mut billing) =
            (BillSums::default(), Shares::default(), CancellationToken::new(), Tasks::default());
        let writer = BillWriter::new(Arc::clone(&store), sums.clone(), shares.clone(), worker.clone(), BILL_KEPT);
        billing.spawn("bill", writer.run(stop.clone()));
        let settings = RunnerSettings {
            concurrency: self.settings.concurrency.max(SLOTS),
            threads: self.settings.threads,
            observer: Some(observer),
            journal: journal.clone(),
            bill: sums.clone(),
            shares: shares.clone(),
            traces: self.traces.clone(),
            ..RunnerSettings::new(worker)
        };
        let runner = Runner::start(store, registry, settings);
        let runner = runner.context("failed to start a runner")?;
        Ok(Running { runner, journal, bill: (stop, billing) })
    }

    /// Runs a runner until this many ready jobs are done.
    pub(super) async fn work_off(&self, scenario: &'static str, jobs: usize) -> anyhow::Result<Figure> {
        let stopwatch = Stopwatch::begin(self, None);
        let (runner, done) = self.run_counted()?;
        reach(&done, jobs, &self.settings.progress).await;
        let figure = stopwatch.end(self, scenario, jobs);
        runner.end().await;
        Ok(figure)
    }
}

/// A line for every attempt that is settled.
pub(super) fn recorded() -> (Observer, mpsc::UnboundedReceiver<AttemptRecord>) {
    let (sender, records) = mpsc::unbounded_channel();
    (Arc::new(move |record: &AttemptRecord| drop(sender.send(record.clone()))), records)
}

/// How many attempts are settled.
pub(super) fn counted() -> (Observer, Arc<AtomicUsize>) {
    let done = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&done);
    (Arc::new(move |_: &AttemptRecord| _ = counter.fetch_add(1, Ordering::Relaxed)), done)
}

impl Running {
    pub(super) async fn end(self) {
        self.runner.shutdown(CancellationToken::new()).await;
        let (stop, mut billing) = self.bill;
        stop.cancel();
        billing.end().await;
        if let Some(journal) = self.journal {
            journal.close().await;
        }
    }
}

/// A folder that goes when it is dropped.
pub(super) fn temporary_folder() -> anyhow::Result<TempDir> {
    TempDir::with_prefix("gristmill-bench-")
        .context("failed to create a temporary folder; name another place for it with TMPDIR")
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
pub(super) async fn load(sandbox: &Sandbox, path: &Path) -> anyhow::Result<Component> {
    sandbox.load(&read(path)?).await.with_context(|| format!("failed to load the handler {}", path.display()))
}

pub(super) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| {
        format!(
            "failed to read the handler {}; build it with scripts/build-handlers.sh or name another with an option",
            path.display()
        )
    })
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
        settings.id = topic.clone();
        settings.concurrency = u32::try_from(concurrency).unwrap_or(u32::MAX);
        settings.reuse = reuse;
        // The operator who measures a component trusts it.
        settings.grants = Arc::new(Grants { switches: Capability::switches().collect(), ..Grants::default() });
        manifest.topics.insert(topic, settings);
        handlers.insert(name.clone(), Handler { name, code: Code::Component(component) });
    }
    HandlerRegistry::new(&manifest, &Available { handlers, ..Available::default() }, &HandlerRegistry::default())
}
