//! The state that every route shares.

use std::ops::Deref;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::api::minutes::Minutes;
use crate::api::queue_depths::QueueDepths;
use crate::api::readiness::Readiness;
use crate::api::topic_rates::Rates;
use crate::audit::RecentActions;
use crate::auth::Auth;
use crate::bulk::BulkActions;
use crate::claims::ClaimService;
use crate::limits::pace::Pacer;
use crate::limits::requests::RequestLimiter;
use crate::limits::{StorageUse, TenantLimiter};
use crate::problem::{Code, Problem};
use crate::settings::{Handlers, HttpServerSettings, Phase, RunnerStatus};
use crate::stream::signal_hub::SignalHub;
use gristmill_config::PageSettings;
use gristmill_metrics::Metrics;
use gristmill_runner::handlers::{ComponentUploads, HandlerRegistry};
use gristmill_runner::{RecentAttempts, Tenants, Traces};
use gristmill_store::{ServerName, Store, TenantPlacements};

/// Every layer between the socket and a route clones it several times a request: one count, and not one for each part.
#[derive(Debug, Clone)]
pub(crate) struct AppState(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    /// The store's address, for people.
    pub(crate) store_name: String,
    /// Which server this is, and of which store.
    pub(crate) server: ServerName,
    runner: watch::Receiver<RunnerStatus>,
    /// `None`: there is one store only.
    pub(crate) moves: Option<Arc<dyn TenantPlacements>>,
    /// For requests that wait.
    pub(crate) signal_hub: Arc<SignalHub>,
    pub(crate) request_limiter: RequestLimiter,
    /// Of the server's threads.
    pub(crate) pacer: Pacer,
    pub(crate) rates: Rates,
    pub(crate) bulk: BulkActions,
    pub(crate) actions: RecentActions,
    pub(crate) recent: RecentAttempts,
    pub(crate) minutes: Minutes,
    /// For clients that claim jobs.
    pub(crate) claims: ClaimService,
    /// Whose jobs are to be looked after, whether or not they have topics here.
    pub(crate) tenants: Tenants,
    /// Ends the streams with the server.
    pub(crate) stop: CancellationToken,
    pub(crate) auth: Auth,
    pub(crate) tenant_limiter: TenantLimiter,
    pub(crate) storage: StorageUse,
    /// The topics and tenants as the manifest has them, without handlers.
    plan: Arc<HandlerRegistry>,
    pub(crate) metrics: Arc<Metrics>,
    /// For the metrics.
    pub(crate) queue_depths: QueueDepths,
    pub(crate) readiness: Readiness,
    pub(crate) page: PageSettings,
    pub(crate) traces: Option<Traces>,
}

impl Deref for AppState {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl AppState {
    /// Within a runtime, whose threads are shared out.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        (store_name, server): (&str, ServerName),
        auth: Auth,
        settings: &HttpServerSettings,
    ) -> Self {
        Self(Arc::new(Inner {
            signal_hub: Arc::new(SignalHub::new(store.clone())),
            store,
            store_name: store_name.into(),
            server,
            runner: settings.runner.clone(),
            moves: settings.moves.clone(),
            request_limiter: RequestLimiter::new(&settings.limits),
            pacer: Pacer::new(Handle::current().metrics().num_workers()),
            rates: Rates::default(),
            bulk: BulkActions::default(),
            actions: RecentActions::default(),
            recent: settings.recent.clone(),
            minutes: Minutes::default(),
            claims: ClaimService::default(),
            tenants: settings.tenants.clone(),
            stop: CancellationToken::new(),
            auth,
            tenant_limiter: TenantLimiter::default(),
            storage: StorageUse::default(),
            plan: settings.plan.clone(),
            metrics: settings.metrics.clone(),
            queue_depths: QueueDepths::default(),
            readiness: Readiness::default(),
            traces: settings.traces.clone(),
            page: settings.page.clone(),
        }))
    }

    pub(crate) fn phase(&self) -> Phase {
        self.runner.borrow().phase
    }

    /// The topics with their settings, also while the handlers are compiled: pushes and claims need not wait for that.
    pub(crate) fn topics(&self) -> Arc<HandlerRegistry> {
        self.registry().unwrap_or_else(|_| self.plan.clone())
    }

    /// Changes with the topics; `None` while the handlers are compiled for the first time.
    pub(crate) fn topic_changes(&self) -> Option<watch::Receiver<Arc<HandlerRegistry>>> {
        self.handlers().ok().map(|handlers| handlers.registry)
    }

    /// The topics and their handlers, as they are now.
    ///
    /// # Errors
    /// The handlers are still being compiled for the first time.
    pub(crate) fn registry(&self) -> Result<Arc<HandlerRegistry>, Problem> {
        Ok(self.handlers()?.registry.borrow().clone())
    }

    /// The way into the handlers folder.
    ///
    /// # Errors
    /// The handlers are still being compiled for the first time.
    pub(crate) fn uploads(&self) -> Result<ComponentUploads, Problem> {
        Ok(self.handlers()?.uploads)
    }

    fn handlers(&self) -> Result<Handlers, Problem> {
        let starting = || Problem::new(Code::Starting, "the handlers are being read: ask again in a moment");
        self.runner.borrow().handlers.clone().ok_or_else(starting)
    }
}
