//! A private server, a store in it, and a clock that stands still until it is told.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{interval, timeout};

use crate::redis::{DEFAULT_PREFIX, RedisStore};
use crate::{ClaimFrom, Claimed, Clock, Inspect, JobState, Produce, Settled, Settlement, Store, TopicCounts};
use gristmill_core::job::{Claim, Due, JobSpec, Name, NewJob, Payload, TopicId, Unique, WorkerId};
use gristmill_core::outcome::{Failure, FailureDetail, Reason, Verdict};
use gristmill_core::time::Timestamp;

pub(super) const LEASE: Duration = Duration::from_secs(30);
pub(super) const DEAD_AFTER: Duration = Duration::from_secs(10);

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

pub(super) struct Mill {
    pub(super) store: RedisStore,
    pub(super) server: Server,
    clock: Arc<AtomicU64>,
}

impl Mill {
    pub(super) async fn new() -> Self {
        let server = Server::start().await;
        let clock = Arc::new(AtomicU64::new(1_800_000_000_000));
        let store = server.store().await;
        Self { store: store.with_clock(Clock::Manual(Arc::clone(&clock))), server, clock }
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.load(Ordering::SeqCst))
    }

    pub(super) fn pass(&self, ms: u64) {
        self.clock.fetch_add(ms, Ordering::SeqCst);
    }

    pub(super) async fn push(&self, jobs: &[NewJob]) {
        self.store.push(jobs).await.unwrap();
    }

    pub(super) async fn claim(&self, max: usize) -> Vec<Claim> {
        self.claim_as(&worker(), "mail", max).await.claims
    }

    pub(super) async fn claim_as(&self, worker: &WorkerId, of: &str, max: usize) -> Claimed {
        self.store.claim(worker, &[ClaimFrom { topic: topic(of), max, lease: LEASE }]).await.unwrap()
    }

    /// Pushes one job and claims it.
    pub(super) async fn running(&self) -> Claim {
        self.push(&[job("mail")]).await;
        self.claim(1).await.pop().unwrap()
    }

    pub(super) async fn settle(&self, claim: &Claim, verdict: Verdict) -> Settled {
        self.settle_with(Settlement::new(claim.lease.clone(), verdict)).await
    }

    pub(super) async fn settle_with(&self, settlement: Settlement) -> Settled {
        self.store.settle(&[settlement]).await.unwrap().pop().unwrap()
    }

    pub(super) async fn migrate(&self) -> usize {
        self.store.migrate(&tenant(), 100).await.unwrap().moved
    }

    pub(super) async fn counts(&self, of: &str) -> TopicCounts {
        let counts = self.store.counts(&tenant()).await.unwrap();
        counts.into_iter().find(|counts| counts.topic == topic(of)).unwrap()
    }

    pub(super) async fn total(&self, what: &str) -> u64 {
        self.counts("mail").await.totals.get(what).copied().unwrap_or(0)
    }

    pub(super) async fn state(&self, spec: &JobSpec) -> Option<JobState> {
        self.store.job(&tenant(), &spec.id).await.unwrap().map(|view| view.state)
    }

    /// Speaks to the server behind the store's back, as a raw producer or an accident does.
    pub(super) async fn raw(&self, command: &mut redis::Cmd) -> redis::Value {
        let mut commands = redis::pipe();
        commands.add_command(std::mem::take(command));
        self.store.link.query::<Vec<redis::Value>>("test", &commands).await.unwrap().pop().unwrap()
    }
}

pub(super) fn tenant() -> Name {
    "acme".parse().unwrap()
}

pub(super) fn topic(name: &str) -> TopicId {
    TopicId { tenant: tenant(), topic: name.parse().unwrap() }
}

pub(super) fn worker() -> WorkerId {
    WorkerId::new("host-1-abc")
}

pub(super) fn job(of: &str) -> NewJob {
    NewJob { spec: JobSpec::new(topic(of), Payload { data: b"hello".to_vec(), content_type: None }), due: Due::Now }
}

pub(super) fn delayed(of: &str, ms: u64) -> NewJob {
    NewJob { due: Due::After(Duration::from_millis(ms)), ..job(of) }
}

pub(super) fn unique(of: &str, value: &str) -> NewJob {
    let mut job = job(of);
    job.spec.unique = Some(Unique { value: value.into(), window: None });
    job
}

pub(super) fn failure(reason: Reason) -> Failure {
    Failure { reason, detail: FailureDetail { code: "c".into(), message: "m".into(), context: None }, backtrace: None }
}

pub(super) fn retry(after_ms: u64) -> Verdict {
    Verdict::Retry { after: Duration::from_millis(after_ms), failure: failure(Reason::Failed) }
}
