//! A store whose calls are timed.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use tokio::sync::watch;

use super::announcer::Announcer;
use super::answers::ClaimFrom;
use super::bill::BillSums;
use super::clock::ClockOffset;
use super::contract::Shards;
use super::error::StoreError;
use super::waiting_claim::{WaitToClaim, WaitingClaim};
use gristmill_core::job::{Lease, Name, WorkerId};
use gristmill_metrics::{CallResult, Metrics};

/// A store, and the metrics in which the time and the result of each call are observed. It has the traits that the store
/// has; the macro `operations!` writes them.
#[derive(Debug)]
pub struct Timed<S: ?Sized> {
    pub(super) store: Arc<S>,
    pub(super) announcer: Option<Announcer>,
    metrics: Arc<Metrics>,
}

impl<S: ?Sized> Timed<S> {
    /// Times calls, and nothing else: for a runner, which counts jobs and emits events itself.
    pub fn new(store: Arc<S>, metrics: Arc<Metrics>) -> Self {
        Self { store, announcer: None, metrics }
    }

    /// Also counts jobs, emits events and adds costs to `bill`: for an HTTP server, whose clients push, claim and settle.
    pub fn announcing(store: Arc<S>, metrics: Arc<Metrics>, bill: BillSums) -> Self {
        Self { announcer: Some(Announcer::new(metrics.clone(), bill)), ..Self::new(store, metrics) }
    }

    pub(super) async fn time<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let begun = Instant::now();
        let answer = call.await;
        let result = match &answer {
            Ok(_) => CallResult::Ok,
            Err(error) if error.is_unavailable() => CallResult::Unavailable,
            Err(StoreError::Unconfirmed { .. }) => CallResult::Unconfirmed,
            Err(_) => CallResult::Refused,
        };
        self.metrics.call(operation, result, begun.elapsed());
        answer
    }
}

/// Not timed: it takes as long as there is no job.
impl<S: WaitToClaim + ?Sized> WaitToClaim for Timed<S> {
    fn wait_to_claim(&self, worker: &WorkerId, from: &[ClaimFrom]) -> Option<WaitingClaim> {
        // What it gets would not be announced.
        self.announcer.is_none().then(|| self.store.wait_to_claim(worker, from)).flatten()
    }
}

#[async_trait]
impl<S: Shards + ?Sized> Shards for Timed<S> {
    async fn unavailable(&self) -> Result<Vec<StoreError>, StoreError> {
        self.time("unavailable", self.store.unavailable()).await
    }

    async fn clocks(&self) -> Vec<(Option<Name>, ClockOffset)> {
        self.store.clocks().await
    }

    fn returns(&self) -> watch::Receiver<u64> {
        self.store.returns()
    }

    fn lanes(&self) -> usize {
        self.store.lanes()
    }

    fn lane(&self, lease: &Lease) -> usize {
        self.store.lane(lease)
    }
}
