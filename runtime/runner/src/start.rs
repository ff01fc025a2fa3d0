//! Wires the actors together, and ends them in the right order.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::claim::Claimer;
use super::execute::ExecutorContext;
use super::guests::Guests;
use super::in_flight::{InFlight, give_back_lost};
use super::journal::Journal;
use super::listen::Listener;
use super::precise_timer::PreciseTimer;
use super::reap::Reaper;
use super::record::Observer;
use super::settle::Settler;
use super::slots::Slots;
use super::store_retry::StoreRetry;
use super::sweep::Sweeper;
use super::tenants::Tenants;
use super::{lease_extender, migrate};
use crate::handlers::HandlerRegistry;
use gristmill_core::job::WorkerId;
use gristmill_metrics::MetricType::{Counter, Gauge};
use gristmill_metrics::Metrics;
use gristmill_store::Store;

/// Signals waiting to be heard; more than that and the store's side waits, too.
const SIGNALS: usize = 1024;
/// How long the last settlements may take once the guests have ended.
const LAST_SETTLE: Duration = Duration::from_secs(5);

/// How a runner runs.
#[derive(Clone)]
pub struct RunnerSettings {
    pub worker: WorkerId,
    /// Attempts at once, over all topics. At least 1.
    pub concurrency: usize,
    /// Threads that guests run on. At least 1.
    pub threads: usize,
    /// How long running attempts may go on once the runner is told to end.
    pub shutdown_grace: Duration,
    pub observer: Option<Observer>,
    /// Where attempts are counted and told.
    pub metrics: Arc<Metrics>,
    /// Who else has jobs than the registry's tenants: what the door tells, and what the store knows.
    pub tenants: Tenants,
}

impl std::fmt::Debug for RunnerSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { worker, concurrency, threads, shutdown_grace, observer: _, metrics: _, tenants: _ } = self;
        write!(f, "{worker}: {concurrency} at once on {threads} threads, grace {shutdown_grace:?}")
    }
}

/// A running runner. Dropping it without [`Runner::shutdown`] leaves its jobs to be reaped.
#[derive(Debug)]
pub struct Runner {
    store: Arc<dyn Store>,
    settings: RunnerSettings,
    retry: Arc<StoreRetry>,
    registry: watch::Receiver<Arc<HandlerRegistry>>,
    slots: Arc<Slots>,
    in_flight: Arc<InFlight>,
    context: Arc<ExecutorContext>,
    /// No new work.
    stop: CancellationToken,
    /// The store is given up.
    give_up: CancellationToken,
    /// Everything that brings new work; it owns the guests.
    bringing: JoinSet<()>,
    settling: JoinSet<()>,
    reaping: JoinSet<()>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Runner {
    /// Starts to work on what the registry offers. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(
        store: Arc<dyn Store>,
        registry: watch::Receiver<Arc<HandlerRegistry>>,
        settings: RunnerSettings,
    ) -> io::Result<Self> {
        Self::start_with_journal(store, registry, settings, None)
    }

    /// The same, and writes every attempt down. The journal stays the caller's: to be closed after [`Runner::shutdown`].
    ///
    /// # Errors
    /// Those of [`Runner::start`].
    pub fn start_with_journal(
        store: Arc<dyn Store>,
        registry: watch::Receiver<Arc<HandlerRegistry>>,
        settings: RunnerSettings,
        journal: Option<Journal>,
    ) -> io::Result<Self> {
        let (stop, give_up) = (CancellationToken::new(), CancellationToken::new());
        let retry = Arc::new(StoreRetry::new(give_up.clone()));
        let (slots, in_flight) = (Slots::new(settings.concurrency), Arc::new(InFlight::default()));

        let (finished, to_settle) = mpsc::unbounded_channel();
        let (checkpoints, to_save) = mpsc::channel(SIGNALS);
        let (extensions, to_extend) = mpsc::channel(SIGNALS);
        let (ending, abort) = (CancellationToken::new(), CancellationToken::new());
        let metrics = settings.metrics.clone();
        let running = slots.clone();
        let most = settings.concurrency as u64;
        metrics.register("gristmill_node_guests", Gauge, "Attempts in flight.", move || running.running() as u64);
        metrics.register("gristmill_node_guests_max", Gauge, "Attempts that may be in flight.", move || most);
        if let Some(journal) = &journal {
            let help = "Attempts that are missing in the journal because it did not keep up.";
            metrics.register("gristmill_node_journal_lost_total", Counter, help, journal.lost());
        }
        let context =
            Arc::new(ExecutorContext { finished, checkpoints, extensions, ending, abort, metrics: metrics.clone() });
        let (guests, threads) = Guests::start(settings.threads, &context)?;

        let mut settling = JoinSet::new();
        let settler = Settler {
            store: store.clone(),
            retry: retry.clone(),
            in_flight: in_flight.clone(),
            observer: settings.observer.clone(),
            journal: journal.clone(),
            metrics: metrics.clone(),
        };
        settling.spawn(settler.run(to_settle));
        settling.spawn(lease_extender::checkpoints(store.clone(), to_save));
        settling.spawn(lease_extender::extensions(store.clone(), retry.clone(), to_extend));

        let (ready, hear_ready) = mpsc::channel(SIGNALS);
        let (due, hear_due) = mpsc::channel(SIGNALS);
        let mut bringing = JoinSet::new();
        let listener = Listener {
            store: store.clone(),
            retry: retry.clone(),
            registry: registry.clone(),
            outside: settings.tenants.outside(),
            in_flight: in_flight.clone(),
            ready,
            due,
            stop: stop.clone(),
        };
        bringing.spawn(listener.run());
        bringing.spawn(migrate::run(store.clone(), retry.clone(), PreciseTimer::new()?, hear_due, stop.clone()));
        let sweeper = Sweeper { store: store.clone(), retry: retry.clone(), registry: registry.clone() };
        bringing.spawn(sweeper.run(stop.clone()));
        bringing.spawn(settings.tenants.clone().run(store.clone(), retry.clone(), stop.clone()));
        let claimer = Claimer {
            store: store.clone(),
            retry: retry.clone(),
            worker: settings.worker.clone(),
            registry: registry.clone(),
            slots: slots.clone(),
            in_flight: in_flight.clone(),
            guests,
            metrics: metrics.clone(),
            ready: hear_ready,
            stop: stop.clone(),
        };
        bringing.spawn(claimer.run());

        let mut reaping = JoinSet::new();
        let (worker, reap_store) = (settings.worker.clone(), store.clone());
        let (reap_lifeline, reap_fleet) = (retry.clone(), registry.clone());
        reaping.spawn(
            Reaper {
                store: reap_store,
                retry: reap_lifeline,
                worker,
                registry: reap_fleet,
                tenants: settings.tenants.clone(),
                journal,
                metrics,
                stop: give_up.clone(),
            }
            .run(),
        );
        Ok(Self {
            store,
            settings,
            retry,
            registry,
            slots,
            in_flight,
            context,
            stop,
            give_up,
            bringing,
            settling,
            reaping,
            threads,
        })
    }

    /// Attempts in flight.
    pub fn running(&self) -> usize {
        self.slots.running()
    }

    /// Waits until a part of the runner has ended although nobody asked it to: a fault, for which the process had better
    /// be started anew. Cancel-safe.
    pub async fn broken(&mut self) {
        tokio::select! {
            Some(_) = self.bringing.join_next() => {}
            Some(_) = self.settling.join_next() => {}
            Some(_) = self.reaping.join_next() => {}
        }
    }

    /// Ends in order: no new work; guests may finish within the grace; the rest is given back without using up an
    /// attempt; everything is settled; the worker is forgotten. `hurry` ends the grace early.
    pub async fn shutdown(mut self, hurry: CancellationToken) {
        self.stop.cancel();
        self.context.ending.cancel();
        let grace = self.settings.shutdown_grace;
        tokio::select! {
            () = self.finish() => {}
            () = tokio::time::sleep(grace) => {}
            () = hurry.cancelled() => {}
        }
        // A claim that is still on its way may have had its effect: then this worker must be found dead and reaped.
        let claim_lost = !self.bringing.is_empty();
        self.bringing.shutdown().await;
        let given_back = self.slots.running();
        if given_back > 0 {
            tracing::info!(
                attempts = given_back,
                "still running at the end of the grace: given back, no attempt used up"
            );
        }
        self.context.abort.cancel();
        self.end_guests().await;
        self.registry
            .borrow()
            .entries()
            .filter_map(|entry| entry.instances.as_ref())
            .for_each(|instances| instances.clear());
        let settled = self.end_settling().await;
        if settled {
            let registry = self.registry.borrow().clone();
            give_back_lost(&self.store, &self.retry, &self.settings.worker, registry.tenants(), &self.in_flight).await;
        }
        self.give_up.cancel();
        while self.reaping.join_next().await.is_some() {}
        if settled && !claim_lost {
            self.retire().await;
        }
    }

    async fn finish(&mut self) {
        while self.bringing.join_next().await.is_some() {}
        while self.slots.running() > 0 {
            self.slots.wait_for(self.slots.ended() + self.slots.running() as u64).await;
        }
    }

    async fn retire(&self) {
        if let Err(error) = self.store.retire(&self.settings.worker).await {
            tracing::warn!("left without saying so, it will be noticed: {:#}", anyhow::Error::from(error));
        }
    }

    /// The claimer owned the queues of the guest threads; with it gone they run dry.
    async fn end_guests(&mut self) {
        let threads = std::mem::take(&mut self.threads);
        let joined = tokio::task::spawn_blocking(move || {
            threads.into_iter().map(thread::JoinHandle::join).all(|end| end.is_ok())
        });
        if !joined.await.unwrap_or_default() {
            tracing::error!("a guest thread had panicked: its jobs come back when their leases run out");
        }
    }

    /// False: the store did not take everything. The context holds the last senders of what is to be settled.
    async fn end_settling(&mut self) -> bool {
        let (ending, abort) = (self.context.ending.clone(), self.context.abort.clone());
        let (finished, checkpoints, extensions) = (mpsc::unbounded_channel().0, mpsc::channel(1).0, mpsc::channel(1).0);
        let metrics = self.context.metrics.clone();
        self.context = Arc::new(ExecutorContext { finished, checkpoints, extensions, ending, abort, metrics });
        let settled = async { while self.settling.join_next().await.is_some() {} };
        let in_time = tokio::time::timeout(LAST_SETTLE, settled).await.is_ok();
        if !in_time {
            self.give_up.cancel();
            while self.settling.join_next().await.is_some() {}
        }
        in_time
    }
}
