//! A store, in memory or in a file of its own, and a clock that stands still until it is told.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use crate::embedded::request::Weight;
use crate::embedded::{Durability, EmbeddedStore};
use crate::{ClaimFrom, Claimed, Clock, Inspect, JobState, Produce, Settled, Settlement, Signal, Store, TopicCounts};
use gristmill_core::job::{Claim, Due, JobSpec, Name, NewJob, Payload, Priority, TopicId, Unique, WorkerId};
use gristmill_core::outcome::{Failure, FailureDetail, Reason, Verdict};
use gristmill_core::time::Timestamp;

pub(super) const LEASE: Duration = Duration::from_secs(30);
pub(super) const DEAD_AFTER: Duration = Duration::from_secs(10);

pub(super) struct Mill {
    pub(super) store: EmbeddedStore,
    clock: Arc<AtomicU64>,
    folder: Option<TempDir>,
}

impl Mill {
    pub(super) async fn new() -> Self {
        Self::with(EmbeddedStore::in_memory().await.unwrap(), None)
    }

    /// A store in a file.
    pub(super) async fn on_disk(durability: Durability) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(&folder.path().join("jobs.db"), durability).await.unwrap();
        Self::with(store, Some(folder))
    }

    fn with(store: EmbeddedStore, folder: Option<TempDir>) -> Self {
        let clock = Arc::new(AtomicU64::new(1_795_176_245_006));
        Self { store: store.with_clock(Clock::Manual(Arc::clone(&clock))), clock, folder }
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.as_ref().expect("a store in a file").path().join("jobs.db")
    }

    /// Closes the store and opens its file again.
    pub(super) async fn reopen(self) -> Self {
        let Self { store, clock, folder } = self;
        drop(store);
        let folder = folder.expect("a store in a file");
        let store = EmbeddedStore::open(&folder.path().join("jobs.db"), Durability::Process).await.unwrap();
        Self { store: store.with_clock(Clock::Manual(Arc::clone(&clock))), clock, folder: Some(folder) }
    }

    /// Closes the store; its folder stays until what is returned is dropped.
    pub(super) fn close(self) -> Option<TempDir> {
        drop(self.store);
        self.folder
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
        self.settle_with(Settlement::of(claim, verdict, Duration::ZERO)).await
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

    /// Changes the file as an accident or a person does.
    pub(super) async fn raw(&self, sql: &'static str) {
        self.store.write("test", Weight::default(), move |work| Ok(work.connection.execute_batch(sql)?)).await.unwrap();
    }

    /// Asks the file.
    pub(super) async fn number(&self, sql: &'static str) -> i64 {
        self.store
            .read("test", move |connection, _| Ok(connection.query_row(sql, [], |row| row.get(0))?))
            .await
            .unwrap()
    }
}

/// The next signal, waited for.
pub(super) async fn next(signals: &mut Receiver<Signal>) -> Signal {
    timeout(Duration::from_secs(30), signals.recv()).await.expect("a signal in time").unwrap()
}

/// What was told so far.
pub(super) fn told(signals: &mut Receiver<Signal>) -> Vec<Signal> {
    std::iter::from_fn(|| signals.try_recv().ok()).collect()
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

pub(super) fn with(of: &str, change: impl FnOnce(&mut JobSpec)) -> NewJob {
    let mut job = job(of);
    change(&mut job.spec);
    job
}

pub(super) fn unique(of: &str, value: &str, window_ms: Option<u64>) -> NewJob {
    let window = window_ms.map(Duration::from_millis);
    with(of, |spec| spec.unique = Some(Unique { value: value.into(), window }))
}

pub(super) fn urgent(of: &str, priority: Priority) -> NewJob {
    with(of, |spec| spec.priority = priority)
}

pub(super) fn failure(reason: Reason) -> Failure {
    Failure { reason, detail: FailureDetail { code: "c".into(), message: "m".into(), context: None }, backtrace: None }
}

pub(super) fn retry(after_ms: u64) -> Verdict {
    Verdict::Retry { after: Duration::from_millis(after_ms), failure: failure(Reason::Failed) }
}

pub(super) fn bury() -> Verdict {
    Verdict::Bury(failure(Reason::Trap))
}
