//! A whole Gristmill in this process, from its start to its end.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::background::Background;
use crate::builder::Builder;
use crate::open::Opened;
use gristmill_core::admission::Refused;
use gristmill_core::job::{JobId, NewJob, NoLink};
use gristmill_runner::handlers::HandlerRegistry;
use gristmill_runner::{Broken, Journal, Runner, Tenants, Traces};
use gristmill_server::{AuditLog, HttpServer, Phase, RunnerStatus};
use gristmill_store::{Pushed, Store, StoreError};

/// What the server leaves of the time of a shutdown to the last entries of the bill.
const LAST_ENTRIES: Duration = Duration::from_millis(250);

/// A running Gristmill: a store, handlers, a runner, and an HTTP server if the settings ask for one.
///
/// Dropped without [`Self::shutdown`], it stops at once: other runners take its jobs over when their leases end.
#[derive(Debug)]
pub struct Gristmill {
    /// Counts and announces what is pushed.
    pub(crate) store: Arc<dyn Store>,
    /// Whose jobs the runner looks after.
    pub(crate) tenants: Tenants,
    pub(crate) registry: watch::Receiver<Arc<HandlerRegistry>>,
    pub(crate) server: Option<HttpServer>,
    /// What the server knows of the runner.
    pub(crate) status: watch::Sender<RunnerStatus>,
    pub(crate) runner: Runner,
    pub(crate) journal: Option<Journal>,
    pub(crate) traces: Option<Traces>,
    pub(crate) audit: Option<AuditLog>,
    /// Puts what attempts cost into the store.
    pub(crate) bill: Background,
    pub(crate) reloader: Background,
    /// Moves tenants between stores. Only where there are several.
    pub(crate) tenant_mover: Option<Background>,
    /// Spreads topics over the partitions of a Redis.
    pub(crate) spreader: Option<Background>,
    /// What commands need to find a store in memory as long as it lives.
    pub(crate) _opened: Opened,
}

/// Why a job was not pushed.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The job breaks a rule of its topic.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The job cannot wait for a job that it names, or be a member of its batch.
    #[error(transparent)]
    NoLink(#[from] NoLink),
    /// The store is unavailable or refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Gristmill {
    /// Begins with the settings of an empty manifest in the current folder.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Where the HTTP server listens, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(HttpServer::address)
    }

    /// The store, for everything that this type has no method for. Jobs that are pushed into it pass no admission: use
    /// [`Self::push`] for them.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Stores a job by the rules of its topic, and returns its id. Idempotent by [`JobSpec::id`](gristmill_core::job::JobSpec::id): a job with an id
    /// that is stored already, or with a unique value that another job holds, changes nothing and returns the id of that job.
    /// A job of a topic that has no handler is stored and logged as a warning, and waits until there is one.
    ///
    /// # Errors
    /// The job breaks a rule of its topic, which the error names; or the store is unavailable or refuses. Nothing is stored.
    pub async fn push(&self, job: NewJob) -> Result<JobId, PushError> {
        let (job, unknown) = self.registry.borrow().known_topics().admit(job)?;
        if let Some(unknown) = unknown {
            tracing::warn!("{unknown}");
        }
        self.tenants.note(&job.spec.topic.tenant);
        let id = job.spec.id.clone();
        Ok(match self.store.push(&[job]).await?.into_iter().next() {
            Some(Pushed::Duplicate(holder)) => holder,
            Some(Pushed::Refused(no)) => return Err(no.into()),
            _ => id,
        })
    }

    /// Waits until a task of the runner, the HTTP server or the reloading of handlers has ended without being stopped, and returns which.
    /// Part of the work is not done any more then: end the process with an error. Cancel-safe.
    pub async fn broken(&mut self) -> Broken {
        let server = async {
            match &mut self.server {
                Some(server) => server.broken().await,
                None => pending().await,
            }
        };
        tokio::select! {
            broken = self.runner.broken() => broken,
            broken = self.reloader.task.broken() => broken,
            broken = self.bill.task.broken() => broken,
            broken = broken(&mut self.spreader) => broken,
            broken = server => broken,
            broken = broken(&mut self.tenant_mover) => broken,
        }
    }

    /// Ends in order: no new jobs; running attempts may end within the grace of the settings, the rest is released without
    /// using up an attempt; the journal is written to its end, and the last spans are sent; the HTTP server ends, so that clients that wait for a job
    /// see its end; after it the bill is complete, and the audit log ends. `hurry` ends the grace early. All this takes at most some two seconds
    /// longer than the grace, whether store, disk and clients answer or not.
    pub async fn shutdown(self, hurry: CancellationToken) {
        self.status.send_modify(|status| status.phase = Phase::Ending);
        tracing::info!(running = self.runner.running(), "ending: no new jobs; what runs may finish");
        let until = self.runner.shutdown(hurry).await;
        // Pull workers settle until the server has ended.
        let server_until = until - LAST_ENTRIES;
        let serving = async {
            by(server_until, "HTTP server", self.server.map(HttpServer::shutdown)).await;
            let bill = by(until, "bill", Some(self.bill.end()));
            tokio::join!(bill, by(until, "audit log", self.audit.map(AuditLog::close)));
        };
        tokio::join!(
            serving,
            by(until, "journal", self.journal.map(Journal::close)),
            by(until, "traces", self.traces.map(Traces::close)),
            by(until, "reloading of handlers", Some(self.reloader.end())),
            by(until, "spreading of topics", self.spreader.map(Background::end)),
            by(until, "moves of tenants", self.tenant_mover.map(Background::end)),
        );
        tracing::info!("ended");
    }
}

/// Waits until a task that may not be there has ended without being stopped.
async fn broken(task: &mut Option<Background>) -> Broken {
    match task {
        Some(task) => task.task.broken().await,
        None => pending().await,
    }
}

/// Ends a part of the process, if there is one, and gives up when the time is over.
async fn by(until: Instant, part: &'static str, end: Option<impl Future<Output = ()>>) {
    let Some(end) = end else { return };
    if timeout_at(until, end).await.is_err() {
        tracing::error!(
            "ended without an orderly end of the {part}: the store, the disk or a client did not answer in time"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_config::Listen;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_task_that_panics_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let builder = Gristmill::builder().store("sqlite::memory:").unwrap().listen(Listen::Off);
        let mut gristmill = builder.handlers(folder.path()).start().await.unwrap();
        gristmill.reloader.task.spawn("fall", async { panic!("over a stone") });
        let broken = gristmill.broken().await;
        assert_eq!(broken.task, "fall");
        assert!(broken.to_string().contains("over a stone"), "{broken}");
        gristmill.shutdown(CancellationToken::new()).await;
    }
}
