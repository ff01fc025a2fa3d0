//! A whole runner in this process, on a store of its own: the way most behaviour is tested.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gristmill::config::{LmstfySettings, Manifest};
use gristmill::handlers::Reloader;
use gristmill::job::{Due, JobId, JobOptions, JobSpec, Name, NewJob, Payload, TopicId, WorkerId};
use gristmill::metrics::Metrics;
use gristmill::runner::{AttemptRecord, DeploymentRecords, RecentAttempts, Runner, RunnerSettings, Tenants, Traces};
use gristmill::sandbox::{CompilerProcess, CompilerSettings, Sandbox, SandboxSettings};
use gristmill::server::{Handlers, HttpServer, HttpServerSettings, Phase, RunnerStatus};
use gristmill::store::embedded::EmbeddedStore;
use gristmill::store::redis::RedisStore;
use gristmill::store::sharded::ShardedStore;
use gristmill::store::{JobState, JobView, Store, TenantPlacements, Timed};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::http_client::HttpClient;
use crate::process::{caches, program};
use crate::redis::Redis;
use crate::test_store::part;
use crate::wait::{SOON, until};

/// Which kind of store a runner works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    Memory,
    Redis,
    /// Two in memory, `home` and `other`, between which tenants may be moved; nobody carries their jobs.
    ShardedStore,
}

/// A runner with its manifest, its folder of handlers, and a record of every attempt.
#[derive(Debug)]
pub struct TestRunner {
    pub store: Arc<dyn Store>,
    /// Where the store is, if it is a Redis.
    pub redis: Option<Redis>,
    /// What the store is, if it is made of several.
    several: Option<ShardedStore>,
    folder: TempDir,
    settings: HttpServerSettings,
    runner: Option<Runner>,
    door: Option<HttpServer>,
    reloader: Option<JoinHandle<()>>,
    stop: CancellationToken,
    traces: Option<Traces>,
    records: Arc<Mutex<Vec<AttemptRecord>>>,
}

impl TestRunner {
    /// Starts on a fresh embedded store, with these components in the folder: name and path.
    pub async fn start(manifest: &str, handlers: &[(&str, &str)]) -> Self {
        Self::start_on(On::Memory, manifest, handlers).await
    }

    /// The same on a fresh store of this kind.
    pub async fn start_on(kind: On, manifest: &str, handlers: &[(&str, &str)]) -> Self {
        Self::start_with(HttpServerSettings::default(), kind, manifest, handlers).await
    }

    /// The same, with an HTTP server of these settings. lmstfy's admin API is always there.
    pub async fn start_with(settings: HttpServerSettings, kind: On, manifest: &str, handlers: &[(&str, &str)]) -> Self {
        let redis = if kind == On::Redis { Some(Redis::start().await) } else { None };
        let several = if kind == On::ShardedStore { Some(several().await) } else { None };
        let store: Arc<dyn Store> = match (&redis, &several) {
            (Some(redis), _) => Arc::new(RedisStore::connect(&redis.url(), "gm").await.unwrap()),
            (None, Some(several)) => Arc::new(several.clone()),
            (None, None) => Arc::new(EmbeddedStore::in_memory().await.unwrap()),
        };
        let folder = TempDir::with_prefix("gristmill-").unwrap();
        let mut runner = Self {
            store,
            redis,
            several,
            folder,
            settings,
            runner: None,
            door: None,
            reloader: None,
            stop: CancellationToken::new(),
            traces: None,
            records: Arc::default(),
        };
        std::fs::create_dir(runner.handlers()).unwrap();
        for (name, component) in handlers {
            runner.drop_in(name, &std::fs::read(component).unwrap());
        }
        std::fs::write(runner.manifest(), with_clock(manifest)).unwrap();
        runner.run().await;
        runner
    }

    async fn run(&mut self) {
        let manifest = Manifest::load(&self.manifest()).unwrap_or_else(|error| panic!("{error}"));
        let metrics = Arc::<Metrics>::default();
        let worker = WorkerId::new("runner");
        let traces = manifest.otel.as_ref().map(|settings| Traces::open(settings, &worker).unwrap());
        let mut reloader = Reloader::start(manifest, BTreeMap::new(), sandbox(), metrics.clone()).await.unwrap();
        let deployments = DeploymentRecords::default();
        reloader.follow(deployments.clone(), &*self.store).await;
        let records = Arc::clone(&self.records);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let handlers = Handlers { registry: reloader.registry(), uploads: reloader.uploads() };
        let status = watch::Sender::new(RunnerStatus { phase: Phase::Starting, handlers: Some(handlers) });
        let admin = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let settings = HttpServerSettings {
            lmstfy: LmstfySettings { admin, ..self.settings.lmstfy.clone() },
            metrics: metrics.clone(),
            traces: traces.clone(),
            runner: status.subscribe(),
            tenants: Tenants::default(),
            recent: RecentAttempts::default(),
            moves: self.several.clone().map(|several| Arc::new(several) as Arc<dyn TenantPlacements>),
            ..self.settings.clone()
        };
        let door = HttpServer::start(listener, self.store.clone(), "the runner's", &settings).await.unwrap();
        let (tenants, recent) = (settings.tenants.clone(), settings.recent.clone());
        let settings = RunnerSettings {
            threads: 2,
            shutdown_grace: Duration::from_secs(10),
            observer: Some(Arc::new(move |record| records.lock().push(record.clone()))),
            metrics: metrics.clone(),
            tenants,
            recent: Some(recent),
            traces: traces.clone(),
            deployments,
            ..RunnerSettings::new(worker)
        };
        let store = Arc::new(Timed::new(self.store.clone(), metrics));
        let mut registry = reloader.registry();
        self.reloader = Some(tokio::spawn(reloader.run(self.stop.clone())));
        // Tests name handlers as soon as the runner has started.
        registry.wait_for(|registry| registry.to_compile() == 0).await.unwrap();
        self.runner = Some(Runner::start(store, registry, settings).unwrap());
        status.send_modify(|status| status.phase = Phase::Ready);
        self.door = Some(door);
        self.traces = traces;
    }

    /// Somebody who asks at the server's door.
    pub fn client(&self) -> HttpClient {
        HttpClient::new(self.door.as_ref().expect("the runner is running").address())
    }

    /// A client of lmstfy's admin API.
    pub fn lmstfy_admin(&self) -> HttpClient {
        let door = self.door.as_ref().expect("the runner is running");
        HttpClient::new(door.lmstfy_admin_address().expect("an admin API"))
    }

    pub fn manifest(&self) -> PathBuf {
        self.folder.path().join("gristmill.toml")
    }

    /// Replaces the manifest in one step: who reads half of one finds no topics.
    pub fn rewrite(&self, manifest: &str) {
        let aside = self.manifest().with_extension("new");
        std::fs::write(&aside, manifest).unwrap();
        std::fs::rename(aside, self.manifest()).unwrap();
    }

    pub fn handlers(&self) -> PathBuf {
        self.folder.path().join("handlers")
    }

    /// Copies a component in the way that people are told to: written aside, then renamed.
    pub fn drop_in(&self, name: &str, component: &[u8]) {
        drop_in(&self.handlers(), name, component);
    }

    /// Pushes one job that is due now, and whose end is kept.
    pub async fn push(&self, topic: &str, body: &[u8]) -> JobId {
        self.push_job(spec(topic, body), Due::Now).await
    }

    pub async fn push_job(&self, spec: JobSpec, due: Due) -> JobId {
        let id = spec.id.clone();
        self.store.push(&[NewJob { spec, due }]).await.unwrap();
        id
    }

    /// Waits until no further attempt will be made at the job, and the last one is recorded.
    pub async fn end_of(&self, job: &JobId) -> JobView {
        let last = |record: &AttemptRecord| record.verdict.is_final();
        until(format!("the last record of {job}"), SOON, async || self.attempts_at(job).iter().any(last).then_some(()))
            .await;
        until(format!("the end of {job}"), SOON, async || {
            let view = self.store.job(&tenant(), job).await.unwrap()?;
            matches!(view.state, JobState::Finished | JobState::Dead { .. }).then_some(view)
        })
        .await
    }

    /// Pushes and waits for the end.
    pub async fn work(&self, topic: &str, body: &[u8]) -> JobView {
        let job = self.push(topic, body).await;
        self.end_of(&job).await
    }

    /// Every attempt settled so far, in order.
    pub fn records(&self) -> Vec<AttemptRecord> {
        self.records.lock().clone()
    }

    /// The attempts at one job.
    pub fn attempts_at(&self, job: &JobId) -> Vec<AttemptRecord> {
        self.records().into_iter().filter(|record| record.claim.lease.job == *job).collect()
    }

    /// Ends the runner in order and starts another on what it left: the store, the manifest and the folder of handlers.
    pub async fn restart(&mut self) {
        self.shutdown().await;
        self.stop = CancellationToken::new();
        self.run().await;
    }

    /// Ends the runner in order.
    pub async fn shutdown(&mut self) {
        if let Some(runner) = self.runner.take() {
            runner.shutdown(CancellationToken::new()).await;
        }
        if let Some(traces) = self.traces.take() {
            traces.close().await;
        }
        if let Some(door) = self.door.take() {
            door.shutdown().await;
        }
        self.stop.cancel();
        if let Some(reloader) = self.reloader.take() {
            reloader.await.unwrap();
        }
    }
}

async fn several() -> ShardedStore {
    let (home, other) = (EmbeddedStore::in_memory().await.unwrap(), EmbeddedStore::in_memory().await.unwrap());
    let registry = Arc::new(home.clone());
    ShardedStore::open(part("home", &home), registry, vec![part("other", &other)], BTreeMap::new()).await.unwrap()
}

/// A job that asks for its end to be kept.
pub fn spec(topic: &str, body: &[u8]) -> JobSpec {
    spec_with(topic, body, JobOptions::default())
}

/// A job with these options that asks for its end to be kept.
pub fn spec_with(topic: &str, body: &[u8], options: JobOptions) -> JobSpec {
    let options = JobOptions { keep_result: Some(Duration::from_secs(600)), ..options };
    let body = Payload { data: body.to_vec(), content_type: None };
    JobSpec { options, ..JobSpec::new(topic.parse::<TopicId>().unwrap(), body) }
}

pub fn tenant() -> Name {
    gristmill::job::DEFAULT_TENANT.parse().unwrap()
}

/// A manifest whose topics are granted the clock, unless it speaks of that itself: the puppet waits and looks at it.
pub fn with_clock(manifest: &str) -> String {
    const DEFAULTS: &str = "[defaults]\n";
    if manifest.contains("clock = ") {
        manifest.to_owned()
    } else if manifest.contains(DEFAULTS) {
        manifest.replacen(DEFAULTS, "[defaults]\nclock = true\n", 1)
    } else {
        format!("{manifest}\n[defaults]\nclock = true\n")
    }
}

/// Writes a component beside the folder and renames it in: it is never there half.
pub fn drop_in(folder: &Path, name: &str, component: &[u8]) {
    let aside = folder.join(format!(".{name}.new"));
    std::fs::write(&aside, component).unwrap();
    std::fs::rename(aside, folder.join(format!("{name}.wasm"))).unwrap();
}

/// Small enough that several fit beside each other into the address space; compiled guests are kept from run to run.
pub fn sandbox() -> Sandbox {
    let compiler = CompilerSettings {
        process: CompilerProcess::Child { program: program(), memory_bytes: 4 << 30 },
        timeout: Duration::from_secs(600),
        component_bytes: 64 << 20,
    };
    Sandbox::new(&SandboxSettings { concurrency: 64, cache: caches().join("gristmill"), compiler }).unwrap()
}
