//! Jobs that were claimed for a client and are not known to have reached it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use gristmill_core::job::{Claim, JobId, Name, WorkerId};
use gristmill_core::outcome::Verdict;
use gristmill_store::{Settlement, Store, StoreError};

/// How often to try to give jobs back to a store that is unavailable, and the pause in between. Then their leases bring
/// them back.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Claimed jobs, and the guard that gives them back.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) claims: Vec<Claim>,
    pub(super) guard: ClaimGuard,
}

/// Gives claims back when it is dropped, with no attempt used up, unless [`Self::delivered`] was called.
#[derive(Debug)]
pub(crate) struct ClaimGuard {
    store: Arc<dyn Store>,
    releases: Vec<Settlement>,
}

impl Claimed {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { claims: Vec::new(), guard: ClaimGuard { store, releases: Vec::new() } }
    }

    /// `retention`: how long the topic of the claims keeps results.
    pub(super) fn add(&mut self, claims: Vec<Claim>, retention: Duration) {
        let release = |claim| Settlement::of(claim, Verdict::Release(Duration::ZERO), retention);
        self.guard.releases.extend(claims.iter().map(release));
        self.claims.extend(claims);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Keeps the first jobs and gives the others back.
    pub(super) fn keep_first(&mut self, count: usize) {
        self.claims.truncate(count);
        let releases = self.guard.releases.split_off(self.claims.len());
        drop(ClaimGuard { store: self.guard.store.clone(), releases });
    }
}

impl ClaimGuard {
    pub(crate) fn is_empty(&self) -> bool {
        self.releases.is_empty()
    }

    /// The client has the jobs: from now on only a lease that runs out brings them back.
    pub(crate) fn delivered(mut self) {
        self.releases.clear();
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        let releases = std::mem::take(&mut self.releases);
        // Without a runtime the process ends, and the leases bring the jobs back.
        if let (false, Ok(runtime)) = (releases.is_empty(), Handle::try_current()) {
            runtime.spawn(give_back(Arc::clone(&self.store), releases));
        }
    }
}

/// A late release changes nothing: a client that has settled a job meanwhile did have it.
async fn give_back(store: Arc<dyn Store>, releases: Vec<Settlement>) {
    match retry(|| store.settle(&releases)).await {
        Ok(_) => tracing::debug!(jobs = releases.len(), "gave back jobs that did not reach their client"),
        Err(error) => log_failure(error),
    }
}

/// Gives back what `worker` holds besides `delivered`. For a claim whose reply was lost: it may have had its effect.
pub(super) async fn give_back_lost(store: Arc<dyn Store>, tenant: Name, worker: WorkerId, delivered: HashSet<JobId>) {
    let lost = || release_lost(&*store, &tenant, &worker, &delivered);
    if let Err(error) = retry(lost).await {
        log_failure(error);
    }
}

async fn release_lost(
    store: &dyn Store,
    tenant: &Name,
    worker: &WorkerId,
    delivered: &HashSet<JobId>,
) -> Result<(), StoreError> {
    let lost = store.claims_of(tenant, worker, delivered).await?;
    let release = |lease| Settlement::new(lease, Verdict::Release(Duration::ZERO));
    let releases: Vec<Settlement> = lost.into_iter().map(release).collect();
    if !releases.is_empty() {
        store.settle(&releases).await?;
    }
    Ok(())
}

/// Tries a few times for as long as the store is unavailable.
async fn retry<T, F: Future<Output = Result<T, StoreError>>>(attempt: impl Fn() -> F) -> Result<T, StoreError> {
    for _ in 1..TRIES {
        match attempt().await {
            Err(error) if error.is_unavailable() => tokio::time::sleep(PAUSE).await,
            answer => return answer,
        }
    }
    attempt().await
}

fn log_failure(error: StoreError) {
    tracing::warn!("failed to give claimed jobs back, their leases will: {:#}", anyhow::Error::from(error));
}
