//! Wires the actors together, and ends them in the right order.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::alarm::Alarm;
use super::claim::Claimer;
use super::execute::Desk;
use super::gate::Gate;
use super::guests::Guests;
use super::hand::{Hand, give_back_lost};
use super::journal::Journal;
use super::lifeline::Lifeline;
use super::listen::Listener;
use super::reap::Reaper;
use super::record::Observer;
use super::settle::Settler;
use super::sweep::Sweeper;
use super::tenants::Tenants;
use super::{keep, migrate};
use crate::handlers::Fleet;
use gristmill_core::job::WorkerId;
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
    /// Who else has jobs than the fleet's tenants: what the door tells, and what the store knows.
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
    lifeline: Arc<Lifeline>,
    fleet: watch::Receiver<Arc<Fleet>>,
    gate: Arc<Gate>,
    hand: Arc<Hand>,
    desk: Arc<Desk>,
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
    /// Starts to work on what the fleet offers. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(
        store: Arc<dyn Store>,
        fleet: watch::Receiver<Arc<Fleet>>,
        settings: RunnerSettings,
    ) -> io::Result<Self> {
        Self::start_with_journal(store, fleet, settings, None)
    }

    /// The same, and writes every attempt down. The journal stays the caller's: to be closed after [`Runner::shutdown`].
    ///
    /// # Errors
    /// Those of [`Runner::start`].
    pub fn start_with_journal(
        store: Arc<dyn Store>,
        fleet: watch::Receiver<Arc<Fleet>>,
        settings: RunnerSettings,
        journal: Option<Journal>,
    ) -> io::Result<Self> {
        let (stop, give_up) = (CancellationToken::new(), CancellationToken::new());
        let lifeline = Arc::new(Lifeline::new(give_up.clone()));
        let (gate, hand) = (Gate::new(settings.concurrency), Arc::new(Hand::default()));

        let (finished, to_settle) = mpsc::unbounded_channel();
        let (checkpoints, to_save) = mpsc::channel(SIGNALS);
        let (extensions, to_extend) = mpsc::channel(SIGNALS);
        let (ending, abort) = (CancellationToken::new(), CancellationToken::new());
        let metrics = settings.metrics.clone();
        let running = gate.clone();
        metrics.set_guests(settings.concurrency, move || running.running());
        if let Some(journal) = &journal {
            metrics.set_journal(journal.lost());
        }
        let desk = Arc::new(Desk { finished, checkpoints, extensions, ending, abort, metrics: metrics.clone() });
        let (guests, threads) = Guests::start(settings.threads, &desk)?;

        let mut settling = JoinSet::new();
        let settler = Settler {
            store: store.clone(),
            lifeline: lifeline.clone(),
            hand: hand.clone(),
            observer: settings.observer.clone(),
            journal: journal.clone(),
            metrics: metrics.clone(),
        };
        settling.spawn(settler.run(to_settle));
        settling.spawn(keep::checkpoints(store.clone(), to_save));
        settling.spawn(keep::extensions(store.clone(), lifeline.clone(), to_extend));

        let (ready, hear_ready) = mpsc::channel(SIGNALS);
        let (due, hear_due) = mpsc::channel(SIGNALS);
        let mut bringing = JoinSet::new();
        let listener = Listener {
            store: store.clone(),
            lifeline: lifeline.clone(),
            fleet: fleet.clone(),
            outside: settings.tenants.outside(),
            hand: hand.clone(),
            ready,
            due,
            stop: stop.clone(),
        };
        bringing.spawn(listener.run());
        bringing.spawn(migrate::run(store.clone(), lifeline.clone(), Alarm::new()?, hear_due, stop.clone()));
        let sweeper = Sweeper { store: store.clone(), lifeline: lifeline.clone(), fleet: fleet.clone() };
        bringing.spawn(sweeper.run(stop.clone()));
        bringing.spawn(settings.tenants.clone().run(store.clone(), lifeline.clone(), stop.clone()));
        let claimer = Claimer {
            store: store.clone(),
            lifeline: lifeline.clone(),
            worker: settings.worker.clone(),
            fleet: fleet.clone(),
            gate: gate.clone(),
            hand: hand.clone(),
            guests,
            metrics: metrics.clone(),
            ready: hear_ready,
            stop: stop.clone(),
        };
        bringing.spawn(claimer.run());

        let mut reaping = JoinSet::new();
        let (worker, reap_store) = (settings.worker.clone(), store.clone());
        let (reap_lifeline, reap_fleet) = (lifeline.clone(), fleet.clone());
        reaping.spawn(
            Reaper {
                store: reap_store,
                lifeline: reap_lifeline,
                worker,
                fleet: reap_fleet,
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
            lifeline,
            fleet,
            gate,
            hand,
            desk,
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
        self.gate.running()
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
        self.desk.ending.cancel();
        let grace = self.settings.shutdown_grace;
        tokio::select! {
            () = self.finish() => {}
            () = tokio::time::sleep(grace) => {}
            () = hurry.cancelled() => {}
        }
        // A claim that is still on its way may have had its effect: then this worker must be found dead and reaped.
        let claim_lost = !self.bringing.is_empty();
        self.bringing.shutdown().await;
        let given_back = self.gate.running();
        if given_back > 0 {
            tracing::info!(
                attempts = given_back,
                "still running at the end of the grace: given back, no attempt used up"
            );
        }
        self.desk.abort.cancel();
        self.end_guests().await;
        self.fleet.borrow().seats().filter_map(|seat| seat.stash.as_ref()).for_each(|stash| stash.clear());
        let settled = self.end_settling().await;
        if settled {
            let fleet = self.fleet.borrow().clone();
            give_back_lost(&self.store, &self.lifeline, &self.settings.worker, fleet.tenants(), &self.hand).await;
        }
        self.give_up.cancel();
        while self.reaping.join_next().await.is_some() {}
        if settled && !claim_lost {
            self.retire().await;
        }
    }

    async fn finish(&mut self) {
        while self.bringing.join_next().await.is_some() {}
        while self.gate.running() > 0 {
            self.gate.wait_for(self.gate.ended() + self.gate.running() as u64).await;
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

    /// False: the store did not take everything. The desk holds the last senders of what is to be settled.
    async fn end_settling(&mut self) -> bool {
        let (ending, abort) = (self.desk.ending.clone(), self.desk.abort.clone());
        let (finished, checkpoints, extensions) = (mpsc::unbounded_channel().0, mpsc::channel(1).0, mpsc::channel(1).0);
        let metrics = self.desk.metrics.clone();
        self.desk = Arc::new(Desk { finished, checkpoints, extensions, ending, abort, metrics });
        let settled = async { while self.settling.join_next().await.is_some() {} };
        let in_time = tokio::time::timeout(LAST_SETTLE, settled).await.is_ok();
        if !in_time {
            self.give_up.cancel();
            while self.settling.join_next().await.is_some() {}
        }
        in_time
    }
}
