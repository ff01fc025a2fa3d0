//! How a server answers, and what it answers for besides its store.

use std::sync::Arc;

use tokio::sync::watch;

use crate::audit::AuditLog;
use crate::limits::HttpLimits;
use gristmill_config::{LmstfySettings, PageSettings, TlsSettings};
use gristmill_metrics::Metrics;
use gristmill_runner::handlers::{ComponentUploads, HandlerRegistry};
use gristmill_runner::{RecentAttempts, Tenants, Traces};
use gristmill_store::{BillSums, TenantPlacements};

/// Everything that a server is started with. What is known later comes through `runner`.
#[derive(Debug, Clone)]
pub struct HttpServerSettings {
    /// How much clients may hold of the server.
    pub limits: HttpLimits,
    /// Whether any client that can reach the server may do everything as long as there are no tokens. On loopback it may
    /// anyway.
    pub insecure: bool,
    /// `None`: plain HTTP.
    pub tls: Option<TlsSettings>,
    /// Whether lmstfy's API is there, and where its admin API listens.
    pub lmstfy: LmstfySettings,
    /// Whether the page for people is there, and what it is called.
    pub page: PageSettings,
    /// Where spans go. `Some`: a push keeps the trace context of its request with the job, and claims of pull workers begin a span.
    pub traces: Option<Traces>,
    /// The topics and tenants as the manifest has them, without handlers: what is known while those are being compiled.
    pub plan: Arc<HandlerRegistry>,
    /// The runner's phase and handlers. A closed channel keeps its last value.
    pub runner: watch::Receiver<RunnerStatus>,
    /// The tenants whose jobs come and go over HTTP, for the runner to look after.
    pub tenants: Tenants,
    /// Moves tenants between the stores that the store is made of; `None` if it is one store.
    pub moves: Option<Arc<dyn TenantPlacements>>,
    /// Where changes and refusals are written down; `None` if they are not.
    pub audit: Option<AuditLog>,
    /// Where the costs of pull workers' attempts are added up.
    pub bill: BillSums,
    /// The attempts that the runner has settled last.
    pub recent: RecentAttempts,
    /// Counts what comes in.
    pub metrics: Arc<Metrics>,
}

/// What the runner in this process is doing.
#[derive(Debug, Clone, Default)]
pub struct RunnerStatus {
    /// How far it is.
    pub phase: Phase,
    /// `None` while the handlers are compiled for the first time.
    pub handlers: Option<Handlers>,
}

/// How far a runner in this process is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// It reads and compiles its handlers.
    #[default]
    Starting,
    /// It runs jobs.
    Ready,
    /// It takes no new jobs to run. Requests are still answered.
    Ending,
}

/// The handlers that a runner works with.
#[derive(Debug, Clone)]
pub struct Handlers {
    /// The topics and their handlers, as they are now.
    pub registry: watch::Receiver<Arc<HandlerRegistry>>,
    /// Takes components over HTTP.
    pub uploads: ComponentUploads,
}

impl Default for HttpServerSettings {
    /// Plain HTTP for a store without a runner.
    fn default() -> Self {
        Self {
            limits: HttpLimits::default(),
            insecure: false,
            tls: None,
            lmstfy: LmstfySettings::default(),
            page: PageSettings::default(),
            traces: None,
            plan: Arc::default(),
            runner: watch::Sender::default().subscribe(),
            tenants: Tenants::default(),
            moves: None,
            audit: None,
            bill: BillSums::default(),
            recent: RecentAttempts::default(),
            metrics: Arc::default(),
        }
    }
}
