//! Wires the actors together, and ends them in the right order.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::context::{Context, ExecutorContext};
use super::deployments::trap_streaks::TrapStreaks;
use super::deployments::{self, parked, trial};
use super::journal::Journal;
use super::limits::full;
use super::limits::storage::StorageUse;
use super::listen::Listener;
use super::path::claim::Claimer;
use super::path::claim::lost::give_back_lost;
use super::path::execute::guests::Guests;
use super::path::reap::Reaper;
use super::path::settle::Settler;
use super::path::{lease_extender, migrate, sweep};
use super::precise_timer::PreciseTimer;
use super::recent::RecentAttempts;
use super::record::Observer;
use super::recordings::RecordingSender;
use super::slots::Slots;
use super::slots::fleet_use::Shares;
use super::store_retry::StoreRetry;
use super::tasks::{Broken, Tasks};
use super::tenants::Tenants;
use super::traces::Traces;
use super::{progress, schedules};
use crate::handlers::{DeploymentRecords, HandlerRegistry};
use gristmill_core::job::WorkerId;
use gristmill_metrics::MetricType::{Counter, Gauge};
use gristmill_metrics::Metrics;
use gristmill_sandbox::StateReader;
use gristmill_store::{BillSums, Store};

/// Signals that wait for the runner. With more than that the store's side also waits.
const SIGNALS: usize = 1024;
/// How long after the grace the runner may go on settling what ended. A store that answers takes milliseconds.
const LAST_SETTLE: Duration = Duration::from_millis(1500);
/// How long it then takes to note what was not settled.
const LAST_LINES: Duration = Duration::from_millis(100);
/// How long after the grace the rest of the process may take, whatever hangs.
const LAST: Duration = Duration::from_millis(2250);

/// How a runner runs.
#[derive(Clone)]
pub struct RunnerSettings {
    /// The id by which the store knows this runner.
    pub worker: WorkerId,
    /// Attempts at once, over all topics. At least 1.
    pub concurrency: usize,
    /// Threads that guests run on. At least 1.
    pub threads: usize,
    /// How long running attempts may go on once the runner shuts down.
    pub shutdown_grace: Duration,
    /// What is called with each attempt's record, if anything.
    pub observer: Option<Observer>,
    /// Where attempts are counted and their events emitted.
    pub metrics: Arc<Metrics>,
    /// The tenants that have jobs besides those of the registry: the HTTP server and the store name them.
    pub tenants: Tenants,
    /// Where every attempt is written down.
    pub journal: Option<Journal>,
    /// Where the costs of attempts are added up. A [`BillWriter`](crate::BillWriter) of the caller's puts them into the store.
    pub bill: BillSums,
    /// What tenants use of this runner and of others. The same [`BillWriter`](crate::BillWriter) exchanges it with the store.
    pub shares: Shares,
    /// Where the last attempts are kept with the lines of their guests, for a server that shows them.
    pub recent: Option<RecentAttempts>,
    /// Where spans of attempts go. The caller's, as the journal is.
    pub traces: Option<Traces>,
    /// Where the runner puts what the store says of versions of handlers: [`Reloader::follow`](crate::handlers::Reloader::follow).
    pub deployments: DeploymentRecords,
}

impl RunnerSettings {
    /// 64 attempts at once, one thread for guests, 5 s of grace, and no observer.
    pub fn new(worker: WorkerId) -> Self {
        Self {
            worker,
            concurrency: 64,
            threads: 1,
            shutdown_grace: Duration::from_secs(5),
            observer: None,
            metrics: Arc::default(),
            tenants: Tenants::default(),
            journal: None,
            bill: BillSums::default(),
            shares: Shares::default(),
            recent: None,
            traces: None,
            deployments: DeploymentRecords::default(),
        }
    }
}

impl std::fmt::Debug for RunnerSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { worker, concurrency, threads, shutdown_grace, .. } = self;
        write!(f, "{worker}: {concurrency} at once on {threads} threads, grace {shutdown_grace:?}")
    }
}

/// A running runner. Dropping it without [`Runner::shutdown`] stops its attempts and leaves its jobs to be reaped.
#[derive(Debug)]
pub struct Runner {
    context: Context,
    shutdown_grace: Duration,
    slots: Arc<Slots>,
    /// The runner is shutting down: handlers may ask and finish early.
    ending: CancellationToken,
    /// The grace is over: what still runs is given back.
    abort: CancellationToken,
    /// The store is given up.
    give_up: CancellationToken,
    /// The loops that bring new work; one of them owns the guests.
    bringing: Tasks,
    settling: Tasks,
    reaping: Tasks,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Drop for Runner {
    /// Without this, guests and native handlers would run on beside the runner that takes their jobs over.
    fn drop(&mut self) {
        self.context.stop.cancel();
        self.abort.cancel();
        self.give_up.cancel();
    }
}

impl Runner {
    /// Starts to work on what the registry offers. Must be called within a tokio runtime. The journal, if there is one,
    /// stays the caller's: to be closed after [`Runner::shutdown`].
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(
        store: Arc<dyn Store>,
        registry: watch::Receiver<Arc<HandlerRegistry>>,
        settings: RunnerSettings,
    ) -> io::Result<Self> {
        let RunnerSettings {
            worker,
            concurrency,
            threads,
            shutdown_grace,
            observer,
            metrics,
            tenants,
            journal,
            bill,
            shares,
            recent,
            traces,
            deployments,
        } = settings;
        let give_up = CancellationToken::new();
        let retry = Arc::new(StoreRetry::new(give_up.clone()));
        let (in_flight, stop) = (Arc::default(), CancellationToken::new());
        let context = Context { store, retry, worker, registry, tenants, in_flight, metrics, bill, recent, stop };
        let slots = Slots::new(concurrency, threads);
        measure(&context.metrics, &slots, concurrency, journal.as_ref(), traces.as_ref());

        let (finished, to_settle) = mpsc::unbounded_channel();
        let (checkpoints, to_save) = mpsc::channel(SIGNALS);
        let (states, to_read) = mpsc::channel(SIGNALS);
        let mut settling = Tasks::default();
        let (recordings, keep_recordings) = RecordingSender::new(Arc::clone(&context.store));
        settling.spawn("recordings", keep_recordings);
        let help = "Recordings of attempts that the store did not take, or not fast enough.";
        context.metrics.register("gristmill_node_recordings_lost_total", Counter, help, recordings.lost());
        let (parked_late, parked_receiver) = mpsc::unbounded_channel();
        let settler = Settler {
            context: context.clone(),
            observer,
            journal: journal.clone(),
            traces: traces.clone(),
            recordings,
            trap_streaks: TrapStreaks::default(),
            parked_late,
        };
        settling.spawn("settle", settler.run(to_settle));
        let (ending, abort) = (CancellationToken::new(), CancellationToken::new());
        let storage = Arc::<StorageUse>::default();
        let (saving, counts) = (context.clone(), Arc::clone(&storage));
        let save = move |asked| lease_extender::save_checkpoint(saving.clone(), Arc::clone(&counts), asked);
        settling.spawn("checkpoint", lease_extender::answer(save, to_save, abort.clone()));
        let store = context.store.clone();
        let read = move |question| lease_extender::read_state(store.clone(), question);
        settling.spawn("state", lease_extender::answer(read, to_read, abort.clone()));

        let executor = Arc::new(ExecutorContext {
            store: Arc::clone(&context.store),
            storage: Arc::clone(&storage),
            registry: context.registry.clone(),
            finished,
            checkpoints: Arc::new(checkpoints),
            states: StateReader(states),
            ending: Arc::new(ending.clone()),
            abort: abort.clone(),
            metrics: context.metrics.clone(),
            keeps_logs: context.recent.is_some(),
            traces,
        });
        let (guests, threads) = Guests::start(threads, &executor)?;
        let watchdog = guests.watchdog(Arc::clone(&slots), executor.finished.downgrade(), give_up.clone());
        let (ready, ready_receiver) = mpsc::channel(SIGNALS);
        let (due, due_receiver) = mpsc::channel(SIGNALS);
        let mut bringing = Tasks::default();
        bringing.spawn(
            "listen",
            Listener {
                outside: context.tenants.outside(),
                context: context.clone(),
                ready,
                due,
                deployments: deployments.clone(),
            }
            .run(),
        );
        let (fired, fired_receiver) = mpsc::channel(SIGNALS);
        bringing.spawn("migrate", migrate::run(context.clone(), PreciseTimer::new()?, due_receiver, fired));
        bringing.spawn("full", full::run(context.clone(), storage, fired_receiver));
        bringing.spawn("deployments", deployments::follow(context.clone(), deployments));
        bringing.spawn("trial", trial::run(context.clone()));
        bringing.spawn("parked", parked::run(context.clone(), parked_receiver));
        bringing.spawn("progress", progress::run(context.clone()));
        bringing.spawn("schedules", schedules::run(context.clone()));
        bringing.spawn("sweep", sweep::run(context.clone()));
        let (store, retry, stop) = (Arc::clone(&context.store), Arc::clone(&context.retry), context.stop.clone());
        bringing.spawn("tenants", context.tenants.clone().run(store, retry, stop));
        let claimer = Claimer {
            slots: slots.clone(),
            guests,
            executor,
            ready: ready_receiver,
            shares,
            returns: context.retry.returns(),
            shard_returns: context.store.returns(),
            context: context.clone(),
        };
        bringing.spawn("claim", claimer.run());

        // Goes on until everything else has ended: this worker must not be found dead meanwhile.
        let mut reaping = Tasks::default();
        let until_the_end = Context { stop: give_up.clone(), ..context.clone() };
        reaping.spawn("extend", lease_extender::keep(until_the_end.clone()));
        let reaper = Reaper { context: until_the_end, journal };
        reaping.spawn("reap", reaper.run());
        reaping.spawn("watchdog", watchdog);
        Ok(Self { context, shutdown_grace, slots, ending, abort, give_up, bringing, settling, reaping, threads })
    }

    /// Attempts in flight.
    pub fn running(&self) -> usize {
        self.slots.attempts.count()
    }

    /// Waits until a task of the runner has ended without being stopped, and returns which. Cancel-safe.
    pub async fn broken(&mut self) -> Broken {
        tokio::select! {
            broken = self.bringing.broken() => broken,
            broken = self.settling.broken() => broken,
            broken = self.reaping.broken() => broken,
        }
    }

    /// Ends in order: no new work; guests may finish within the grace; the rest is given back without using up an
    /// attempt; everything is settled; the worker is forgotten. `hurry` ends the grace early. Returns when the rest of the process ought to
    /// also have ended: some two seconds after the grace, whatever hangs.
    pub async fn shutdown(mut self, hurry: CancellationToken) -> Instant {
        self.context.stop.cancel();
        self.ending.cancel();
        let mut grace_end = Instant::now() + self.shutdown_grace;
        tokio::select! {
            () = self.finish() => {}
            () = tokio::time::sleep_until(grace_end) => {}
            () = hurry.cancelled() => grace_end = Instant::now(),
        }
        // An early end of the guests leaves the rest of the grace to a slow store.
        if timeout_at(grace_end + LAST_SETTLE, self.end()).await.is_err() {
            tracing::error!(
                "ended while the store or a guest hung: jobs that are not settled come back when their leases run out"
            );
            self.give_up.cancel();
            // They are written into the journal as unsettled.
            drop(timeout(LAST_LINES, self.settling.end()).await);
        }
        grace_end + LAST
    }

    async fn end(&mut self) {
        // A claim that is still on its way may have had its effect: then this worker must be found dead and reaped.
        let claim_lost = !self.bringing.is_empty();
        self.bringing.abort().await;
        let given_back = self.slots.attempts.count();
        if given_back > 0 {
            tracing::info!(attempts = given_back, "still running: given back, no attempt used up");
        }
        self.abort.cancel();
        self.end_guests().await;
        let registry = self.context.registry.borrow().clone();
        registry.entries().filter_map(|entry| entry.instances.as_ref()).for_each(|instances| instances.clear());
        // The last senders of what is to be settled have ended with the guests and the claimer.
        self.settling.end().await;
        give_back_lost(&self.context, registry.tenants()).await;
        self.give_up.cancel();
        self.reaping.end().await;
        if !claim_lost {
            self.retire().await;
        }
    }

    async fn finish(&mut self) {
        self.bringing.end().await;
        let unsettled = &self.slots.unsettled;
        while unsettled.count() > 0 {
            unsettled.wait_for(unsettled.ended() + unsettled.count() as u64).await;
        }
    }

    async fn retire(&self) {
        if let Err(error) = self.context.store.retire(&self.context.worker).await {
            tracing::warn!(
                "failed to remove this runner from the store, its heartbeat runs out instead: {:#}",
                anyhow::Error::from(error)
            );
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
}

fn measure(
    metrics: &Metrics,
    slots: &Arc<Slots>,
    concurrency: usize,
    journal: Option<&Journal>,
    traces: Option<&Traces>,
) {
    let (running, most) = (Arc::clone(slots), concurrency as u64);
    metrics.register("gristmill_node_guests", Gauge, "Attempts in flight.", move || running.attempts.count() as u64);
    metrics.register("gristmill_node_guests_max", Gauge, "Attempts that may be in flight.", move || most);
    if let Some(journal) = journal {
        let help = "Attempts that are missing in the journal because it did not keep up.";
        metrics.register("gristmill_node_journal_lost_total", Counter, help, journal.lost());
    }
    if let Some(traces) = traces {
        let help = "Spans that the collector did not take, or not fast enough.";
        metrics.register("gristmill_node_spans_lost_total", Counter, help, traces.lost());
    }
}
