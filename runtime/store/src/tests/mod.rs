//! What the stores' own tests share: a store by a clock that stands still until a test moves it, and jobs to put into it.
//!
//! What the contract says of every store is tested in the conformance suite, and not here.

use std::sync::Arc;
use std::time::Duration;

use crate::{
    ClaimFrom, Claimed, Clock, JobState, ManualClock, PendingWork, PollTenant, Settled, Settlement, TopicCounts,
    Transfer,
};
use gristmill_core::job::{Claim, Due, JobSpec, Name, NewJob, Payload, Priority, TopicId, Unique, WorkerId};
use gristmill_core::outcome::{Failure, FailureDetail, Reason, Verdict};
use gristmill_core::time::Timestamp;

pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const DEAD_AFTER: Duration = Duration::from_secs(10);

/// A clock that stands still, and what moves it.
pub(crate) fn still_clock() -> (Clock, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(1_800_000_000_000));
    (Clock::Manual(Arc::clone(&clock)), clock)
}

/// A store, and its clock.
pub(crate) struct TestStore<S> {
    pub(crate) store: S,
    pub(crate) clock: Arc<ManualClock>,
}

impl<S: Transfer> TestStore<S> {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn pass(&self, ms: u64) {
        self.clock.pass(ms);
    }

    pub(crate) async fn push(&self, jobs: &[NewJob]) {
        self.store.push(jobs).await.unwrap();
    }

    pub(crate) async fn claim(&self, max: usize) -> Vec<Claim> {
        self.claim_as(&worker(), "mail", max).await.claims
    }

    pub(crate) async fn claim_as(&self, worker: &WorkerId, of: &str, max: usize) -> Claimed {
        self.store.claim(worker, &[ClaimFrom::new(topic(of), max, LEASE)]).await.unwrap()
    }

    /// Pushes one job and claims it.
    pub(crate) async fn running(&self) -> Claim {
        self.push(&[job("mail")]).await;
        self.claim(1).await.pop().unwrap()
    }

    pub(crate) async fn settle(&self, claim: &Claim, verdict: Verdict) -> Settled {
        self.settle_with(Settlement::of(claim, verdict, Duration::ZERO)).await
    }

    pub(crate) async fn settle_with(&self, settlement: Settlement) -> Settled {
        self.store.settle(&[settlement]).await.unwrap().pop().unwrap()
    }

    pub(crate) async fn migrate(&self) -> usize {
        self.store.migrate(&tenant(), 100).await.unwrap().moved
    }

    pub(crate) async fn poll(&self, raw: &[Name]) -> PendingWork {
        let polled = self.store.poll_work(&[PollTenant { tenant: tenant(), raw: raw.to_vec() }]).await.unwrap();
        polled.into_iter().next().unwrap().unwrap()
    }

    pub(crate) async fn counts(&self, of: &str) -> TopicCounts {
        let counts = self.store.counts(&tenant()).await.unwrap();
        counts.into_iter().find(|counts| counts.topic == topic(of)).unwrap()
    }

    pub(crate) async fn total(&self, what: &str) -> u64 {
        self.counts("mail").await.totals.get(what).copied().unwrap_or(0)
    }

    pub(crate) async fn state(&self, spec: &JobSpec) -> Option<JobState> {
        self.store.job(&tenant(), &spec.id).await.unwrap().map(|view| view.state)
    }
}

pub(crate) fn tenant() -> Name {
    "acme".parse().unwrap()
}

pub(crate) fn topic(name: &str) -> TopicId {
    TopicId { tenant: tenant(), topic: name.parse().unwrap() }
}

pub(crate) fn worker() -> WorkerId {
    WorkerId::new("host-1-abc")
}

pub(crate) fn job(of: &str) -> NewJob {
    NewJob { spec: JobSpec::new(topic(of), Payload { data: b"hello".to_vec(), content_type: None }), due: Due::Now }
}

pub(crate) fn delayed(of: &str, ms: u64) -> NewJob {
    NewJob { due: Due::After(Duration::from_millis(ms)), ..job(of) }
}

pub(crate) fn with(of: &str, change: impl FnOnce(&mut JobSpec)) -> NewJob {
    let mut job = job(of);
    change(&mut job.spec);
    job
}

/// A job that holds `value` until it is done, or for `window_ms`.
pub(crate) fn unique(of: &str, value: &str, window_ms: Option<u64>) -> NewJob {
    let window = window_ms.map(Duration::from_millis);
    with(of, |spec| spec.options.unique = Some(Unique { value: value.into(), window }))
}

pub(crate) fn of_priority(priority: Priority) -> NewJob {
    with("mail", |spec| spec.options.priority = priority)
}

pub(crate) fn failure(reason: Reason) -> Failure {
    Failure::new(reason, FailureDetail { code: "c".into(), message: "m".into(), context: None })
}

pub(crate) fn retry(after_ms: u64) -> Verdict {
    Verdict::Retry { after: Duration::from_millis(after_ms), failure: failure(Reason::Failed) }
}

pub(crate) fn bury() -> Verdict {
    Verdict::Bury(failure(Reason::Trap))
}
