//! What the loops of a runner share, and what every attempt needs.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::limits::storage::StorageUse;
use super::path::in_flight::InFlight;
use super::path::work::Finished;
use super::recent::RecentAttempts;
use super::store_retry::StoreRetry;
use super::tenants::Tenants;
use super::traces::Traces;
use crate::handlers::HandlerRegistry;
use gristmill_core::job::WorkerId;
use gristmill_metrics::Metrics;
use gristmill_sandbox::{CheckpointRequest, StateReader};
use gristmill_store::{BillSums, Store};

/// What the loops of a runner share. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) store: Arc<dyn Store>,
    pub(super) retry: Arc<StoreRetry>,
    pub(super) worker: WorkerId,
    pub(super) registry: watch::Receiver<Arc<HandlerRegistry>>,
    pub(super) tenants: Tenants,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) bill: BillSums,
    pub(super) recent: Option<RecentAttempts>,
    pub(super) stop: CancellationToken,
}

#[cfg(test)]
impl Context {
    /// A context without handlers.
    pub(super) fn of(store: Arc<dyn Store>) -> Self {
        let stop = CancellationToken::new();
        Self {
            store,
            retry: Arc::new(StoreRetry::new(stop.clone())),
            worker: WorkerId::new("w"),
            registry: watch::Sender::default().subscribe(),
            tenants: Tenants::default(),
            in_flight: Arc::default(),
            metrics: Arc::default(),
            bill: BillSums::default(),
            recent: None,
            stop,
        }
    }
}

/// What every attempt needs and none owns.
#[derive(Debug)]
pub(super) struct ExecutorContext {
    pub(super) store: Arc<dyn Store>,
    pub(super) storage: Arc<StorageUse>,
    pub(super) registry: watch::Receiver<Arc<HandlerRegistry>>,
    pub(super) finished: mpsc::UnboundedSender<Finished>,
    pub(super) checkpoints: Arc<mpsc::Sender<CheckpointRequest>>,
    pub(super) states: StateReader,
    /// The runner is shutting down: guests may ask and finish early.
    pub(super) ending: Arc<CancellationToken>,
    /// The grace is over: what still runs is given back.
    pub(super) abort: CancellationToken,
    pub(super) metrics: Arc<Metrics>,
    /// The ends of the guests' logs are kept.
    pub(super) keeps_logs: bool,
    pub(super) traces: Option<Traces>,
}

#[cfg(test)]
impl ExecutorContext {
    /// What passes on here what has ended, and nothing else.
    pub(super) fn of(context: &Context, finished: mpsc::UnboundedSender<Finished>) -> Self {
        Self {
            store: Arc::clone(&context.store),
            storage: Arc::default(),
            registry: context.registry.clone(),
            finished,
            checkpoints: Arc::new(mpsc::channel(1).0),
            states: StateReader(mpsc::channel(1).0),
            ending: Arc::new(context.stop.clone()),
            abort: context.stop.clone(),
            metrics: Arc::default(),
            keeps_logs: false,
            traces: None,
        }
    }
}
