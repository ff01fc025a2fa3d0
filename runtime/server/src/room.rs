//! What every route can reach.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::depths::Depths;
use super::door::{Door, DoorSettings};
use super::hub::Hub;
use super::problem::{Code, Problem};
use super::pull;
use super::rates::Rates;
use super::turns::Turns;
use gristmill_metrics::Metrics;
use gristmill_runner::Tenants;
use gristmill_runner::handlers::{HandlerRegistry, Intake};
use gristmill_store::Store;
use gristmill_store::sharded::TenantPlacements;

/// What the runner behind the door is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Starting,
    Ready,
    /// It takes no new jobs to run. Requests are still answered.
    Ending,
}

/// Every layer between the socket and a route clones it several times a request: one count, and not one for each part.
#[derive(Debug, Clone)]
pub(super) struct Room(Arc<Parts>);

#[derive(Debug)]
pub(super) struct Parts {
    pub(super) store: Arc<dyn Store>,
    /// The store's address, for people.
    pub(super) store_name: String,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) registry: OnceLock<watch::Receiver<Arc<HandlerRegistry>>>,
    pub(super) intake: OnceLock<Intake>,
    /// Set where there are several stores.
    pub(super) moves: OnceLock<Arc<dyn TenantPlacements>>,
    /// For requests that wait.
    pub(super) hub: Arc<Hub>,
    pub(super) turns: Turns,
    pub(super) rates: Rates,
    /// For those of them that wait for jobs.
    pub(super) pull: pull::Lines,
    /// Whose jobs are to be looked after, whether or not they have topics here.
    pub(super) tenants: Tenants,
    /// The server ends: so do the streams.
    pub(super) stop: CancellationToken,
    pub(super) door: Door,
    pub(super) metrics: Arc<Metrics>,
    /// For who scrapes.
    pub(super) depths: Depths,
}

impl Deref for Room {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Room {
    pub(super) fn new(store: Arc<dyn Store>, store_name: &str, door: Door, settings: &DoorSettings) -> Self {
        Self(Arc::new(Parts {
            hub: Arc::new(Hub::new(store.clone())),
            store,
            store_name: store_name.into(),
            phase: watch::Sender::new(Phase::Starting),
            registry: OnceLock::new(),
            intake: OnceLock::new(),
            moves: OnceLock::new(),
            turns: Turns::new(&settings.limits),
            rates: Rates::default(),
            pull: pull::Lines::default(),
            tenants: Tenants::default(),
            stop: CancellationToken::new(),
            door,
            metrics: settings.metrics.clone(),
            depths: Depths::default(),
        }))
    }

    pub(super) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// The topics by their settings, whoever does their jobs: who brings or takes jobs need not wait for handlers to be read.
    pub(super) fn topics(&self) -> Arc<HandlerRegistry> {
        self.registry.get().map_or_else(|| self.door.plan.clone(), |registry| registry.borrow().clone())
    }

    /// The topics and who does their jobs, as they are now.
    ///
    /// # Errors
    /// The handlers are still being compiled for the first time.
    pub(super) fn registry(&self) -> Result<Arc<HandlerRegistry>, Problem> {
        self.registry.get().map(|registry| registry.borrow().clone()).ok_or_else(starting)
    }

    /// The way into the handlers folder.
    ///
    /// # Errors
    /// The handlers are still being compiled for the first time.
    pub(super) fn intake(&self) -> Result<Intake, Problem> {
        self.intake.get().cloned().ok_or_else(starting)
    }
}

fn starting() -> Problem {
    Problem::new(Code::Starting, "the handlers are being read: ask again in a moment")
}
