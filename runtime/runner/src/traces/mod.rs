//! Traces: a span for each attempt that is kept, and for each of its first requests, sent to an OpenTelemetry collector.
//!
//! A span is made of the attempt's record, after its end: only then it is known whether it is worth keeping. While an attempt runs,
//! nothing is kept but its context, which its log lines and follow-up jobs carry, and what [`RequestTrace`] writes down. The runner never waits for the collector.

mod choice;
mod client;
mod export;
mod request;
mod span;
#[cfg(test)]
mod tests;

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::choice::Choice;
pub use self::export::TracesError;
use self::export::{Collector, SpanData};
use super::record::AttemptRecord;
use gristmill_config::OtelSettings;
use gristmill_core::job::{Claim, WorkerId};
use gristmill_core::trace::TraceContext;
use gristmill_sandbox::RequestTrace;

/// Spans that wait for the collector, some 2 KiB each; while there are as many, further ones are dropped and counted.
const WAITING: usize = 4096;
/// How long [`Traces::close`] waits for a collector that does not answer.
const CLOSE: Duration = Duration::from_secs(5);

/// Where spans go. Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub struct Traces(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    choice: Choice,
    worker: WorkerId,
    waiting: Mutex<Option<mpsc::Sender<SpanData>>>,
    lost: Arc<AtomicU64>,
    exporting: Mutex<Option<JoinHandle<()>>>,
}

impl Traces {
    /// Starts to send; must be called within a tokio runtime. Connects when there are spans. `worker` names this process.
    ///
    /// # Errors
    /// The environment has an address that is none, or the machine trusts no certificate authority.
    pub fn open(settings: &OtelSettings, worker: &WorkerId) -> Result<Self, TracesError> {
        let lost = Arc::<AtomicU64>::default();
        let collector = Collector::new(settings.endpoint.as_ref(), worker, Arc::clone(&lost))?;
        let (waiting, spans) = mpsc::channel(WAITING);
        let exporting = tokio::spawn(collector.run(spans));
        Ok(Self(Arc::new(Inner {
            choice: Choice::of(settings),
            worker: worker.clone(),
            waiting: Mutex::new(Some(waiting)),
            lost,
            exporting: Mutex::new(Some(exporting)),
        })))
    }

    /// The context of an attempt that begins.
    pub(super) fn begin(&self, claim: &Claim) -> TraceContext {
        self.0.choice.span_ids(claim).context
    }

    /// The context of an attempt that a pull worker begins, whose spans are to be below it. If the context is sampled, sends the span `receive` that it
    /// names. Never waits: what the exporter has no room for is counted and dropped.
    pub fn receive(&self, claim: &Claim) -> TraceContext {
        let ids = self.0.choice.span_ids(claim);
        if ids.context.sampled {
            self.send(iter::once(span::of_claim(&ids, claim)));
        }
        ids.context
    }

    /// Sends the span of an attempt and those of its requests, if it is kept. Never waits: what there is no room for is dropped and
    /// counted.
    pub(super) fn record(&self, record: &AttemptRecord, requests: Option<&RequestTrace>) {
        let Some((run, context)) = record.run.and_then(|run| Some((run, run.trace?))) else { return };
        if !self.0.choice.keeps(context.sampled, record, &run) {
            return;
        }
        let ids = self.0.choice.span_ids(&record.claim);
        let mut attempt = span::of(&ids, record, &run, &self.0.worker);
        let requests = requests.map_or_else(Vec::new, |requests| request::spans(&mut attempt, &run, requests.take()));
        self.send(iter::once(attempt).chain(requests));
    }

    fn send(&self, spans: impl Iterator<Item = SpanData>) {
        let waiting = self.0.waiting.lock();
        for span in spans {
            if waiting.as_ref().is_none_or(|waiting| waiting.try_send(span).is_err()) {
                self.0.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// How to learn how many spans were dropped.
    pub fn lost(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        let lost = Arc::clone(&self.0.lost);
        move || lost.load(Ordering::Relaxed)
    }

    /// Sends what waits, and ends. Waits at most some seconds: then the collector does not answer, and what remains is lost.
    pub async fn close(self) {
        self.0.waiting.lock().take();
        let exporting = self.0.exporting.lock().take();
        let Some(exporting) = exporting else { return };
        let abort = exporting.abort_handle();
        if tokio::time::timeout(CLOSE, exporting).await.is_err() {
            abort.abort();
            tracing::warn!("the collector of [otel] did not take the last spans");
        }
    }
}
