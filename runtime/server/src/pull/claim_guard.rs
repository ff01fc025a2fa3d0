//! Jobs that were claimed for somebody and are not yet theirs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use gristmill_core::job::{Claim, Name, WorkerId};
use gristmill_core::outcome::Verdict;
use gristmill_store::{Settlement, Store, StoreError};

/// How often jobs are given back to a store that is away, and after which pause; then their leases bring them back.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// A claimed job, and how long its topic keeps results.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) claim: Claim,
    pub(super) retention: Duration,
}

/// Claimed jobs on their way to a worker. Dropped before they are [handed over](Self::hand_over), they go back to ready,
/// with no attempt used up: whoever asked is gone.
#[derive(Debug)]
pub(super) struct ClaimGuard {
    store: Arc<dyn Store>,
    jobs: Vec<Taken>,
    runtime: Handle,
}

impl ClaimGuard {
    /// Must be called within a tokio runtime.
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, jobs: Vec::new(), runtime: Handle::current() }
    }

    pub(super) fn add(&mut self, jobs: impl IntoIterator<Item = Taken>) {
        self.jobs.extend(jobs);
    }

    pub(super) fn jobs(&self) -> &[Taken] {
        &self.jobs
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Keeps the first jobs. The others go back.
    pub(super) fn keep_first(&mut self, count: usize) {
        let back = self.jobs.split_off(count.min(self.jobs.len()));
        drop(Self { store: self.store.clone(), jobs: back, runtime: self.runtime.clone() });
    }

    /// From now on they are the worker's: only a lease that runs out brings them back.
    pub(super) fn hand_over(mut self) {
        self.jobs.clear();
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        let release = |Taken { claim, retention }| Settlement::of(&claim, Verdict::Release(Duration::ZERO), retention);
        let back: Vec<Settlement> = self.jobs.drain(..).map(release).collect();
        let store = self.store.clone();
        self.runtime.spawn(async move {
            let (jobs, store) = (back.len(), &*store);
            match patiently(|| store.settle(&back)).await {
                Ok(_) => tracing::debug!(jobs, "given back: the worker that asked for them was gone"),
                Err(error) => told(error),
            }
        });
    }
}

/// Gives back what `worker` holds. For a claim whose reply was lost: it may have had its effect.
pub(super) async fn give_back_lost(store: Arc<dyn Store>, tenant: Name, worker: WorkerId) {
    let (store, tenant, worker) = (&*store, &tenant, &worker);
    if let Err(error) = patiently(|| give_back_held(store, tenant, worker)).await {
        told(error);
    }
}

async fn give_back_held(store: &dyn Store, tenant: &Name, worker: &WorkerId) -> Result<(), StoreError> {
    let held = store.claims_of(tenant, worker, &HashSet::new()).await?;
    let release = |lease| Settlement::new(lease, Verdict::Release(Duration::ZERO));
    let back: Vec<Settlement> = held.into_iter().map(release).collect();
    if !back.is_empty() {
        store.settle(&back).await?;
    }
    Ok(())
}

async fn patiently<T, F: Future<Output = Result<T, StoreError>>>(attempt: impl Fn() -> F) -> Result<T, StoreError> {
    for _ in 1..TRIES {
        match attempt().await {
            Err(error) if error.is_unavailable() => tokio::time::sleep(PAUSE).await,
            answer => return answer,
        }
    }
    attempt().await
}

fn told(error: StoreError) {
    tracing::warn!("claimed jobs were not given back, their leases will bring them: {:#}", anyhow::Error::from(error));
}
