//! What goes into a sandbox and what comes out of it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::keyed_state::StateReader;
use super::log_tail::LogTail;
use super::recording::{Record, Recording};
use super::request_trace::RequestTrace;
use gristmill_core::admission::Targets;
use gristmill_core::job::{Claim, Job, JobSpec, Lease, NewJob, Progress};
use gristmill_core::outcome::{Outcome, StateChange};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::{Adapter, Grants, Limits};
use gristmill_core::trace::TraceContext;
pub use gristmill_core::version::Version;

/// One attempt, as the sandbox needs to know it.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The job.
    pub job: Arc<Job>,
    /// 1 on the first try.
    pub attempt: u32,
    /// Attempts that the job may have.
    pub max_attempts: u32,
    /// What an earlier attempt saved last, if it saved anything.
    pub checkpoint: Option<Vec<u8>>,
    /// How the handler is called.
    pub adapter: Adapter,
    /// What the attempt may use.
    pub limits: Limits,
    /// What the handler may reach.
    pub grants: Arc<Grants>,
    /// The topics of the tenant that exist, and what they accept.
    pub targets: Arc<Targets>,
    /// The store's clock minus this host's, in milliseconds: the guest's `now` and `deadline` are the store's.
    pub clock_offset_ms: i64,
    /// Ends the attempt early.
    pub cancellation: Cancellation,
    /// Where checkpoints go. Without it, the guest gets `unavailable`.
    pub checkpoints: Option<CheckpointSender>,
    /// Where the state of the job's key is read. Without it there is none.
    pub states: Option<StateReader>,
    /// Where log lines go.
    pub logs: LogSink,
    /// What log lines of the attempt carry, if attempts are traced.
    pub trace: Option<TraceContext>,
    /// Where its requests are written down, if attempts are traced.
    pub requests: Option<RequestTrace>,
    /// Whether the answers of the host are recorded.
    pub record: Record,
}

impl Attempt {
    /// The only attempt at a job that is due now, by a component that is called as a handler. It has no grants, no topic to enqueue to and nowhere to keep checkpoints;
    /// its log lines go to `tracing`.
    pub fn at(spec: JobSpec, limits: Limits) -> Self {
        let now = Timestamp::now();
        Self {
            job: Arc::new(Job { spec, enqueued_at: now, due_at: now }),
            attempt: 1,
            max_attempts: 1,
            checkpoint: None,
            adapter: Adapter::default(),
            limits,
            grants: Arc::default(),
            targets: Arc::default(),
            clock_offset_ms: 0,
            cancellation: Cancellation::default(),
            checkpoints: None,
            states: None,
            logs: LogSink::Trace,
            trace: None,
            requests: None,
            record: Record::Off,
        }
    }

    /// The store's clock.
    pub fn now(&self) -> Timestamp {
        store_time(self.clock_offset_ms)
    }
}

/// The store's clock, from this host's and the difference between them.
pub(super) fn store_time(offset_ms: i64) -> Timestamp {
    Timestamp::from_millis(Timestamp::now().as_millis().saturating_add_signed(offset_ms))
}

/// Whether an attempt is still wanted, for a guest that asks.
#[derive(Debug, Clone, Default)]
pub struct Cancellation {
    /// The runner is shutting down. Shared by all attempts; a clone of the token itself would take its lock.
    pub ending: Arc<CancellationToken>,
    /// What the runner asks of this attempt.
    pub control: Arc<AttemptControl>,
}

impl Cancellation {
    /// Whether the job was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.control.is_unwanted() || self.ending.is_cancelled()
    }
}

/// What a runner asks of a running attempt: nothing, to end early, or to end now.
#[derive(Debug, Default)]
pub struct AttemptControl {
    asked: AtomicU8,
    killed: Notify,
    lost: Notify,
    /// Nanoseconds.
    waited: AtomicU64,
    /// What the handler has said since it was taken.
    progress: Mutex<Option<Progress>>,
    has_progress: AtomicBool,
    /// Notified of progress. `None`: the runner does not need it.
    listener: Option<Arc<Notify>>,
}

impl AttemptControl {
    const UNWANTED: u8 = 1;
    const KILLED: u8 = 2;
    const LOST: u8 = 4;

    /// Notifies `listener` when the attempt has made progress.
    pub fn notifying(listener: Arc<Notify>) -> Self {
        Self { listener: Some(listener), ..Self::default() }
    }

    /// The handler says how far it is.
    pub(crate) fn report(&self, progress: Progress) {
        if let Some(listener) = &self.listener {
            *self.progress.lock() = Some(progress);
            self.has_progress.store(true, Ordering::Release);
            listener.notify_one();
        }
    }

    /// How far the attempt is, if that is news.
    pub fn take_progress(&self) -> Option<Progress> {
        let has_news = self.has_progress.load(Ordering::Relaxed) && self.has_progress.swap(false, Ordering::Acquire);
        if has_news { self.progress.lock().take() } else { None }
    }

    /// The job was cancelled, or its lease is lost: a guest that asks sees it.
    pub fn cancel(&self) {
        self.asked.fetch_or(Self::UNWANTED, Ordering::Relaxed);
    }

    /// The job was cancelled, and the attempt ends now, with [`Outcome::Killed`].
    pub fn kill(&self) {
        self.asked.fetch_or(Self::UNWANTED | Self::KILLED, Ordering::Release);
        self.killed.notify_one();
    }

    /// The attempt's lease is lost, and it ends now, with [`Outcome::LeaseExpired`].
    pub fn lose_lease(&self) {
        self.asked.fetch_or(Self::UNWANTED | Self::LOST, Ordering::Release);
        self.lost.notify_one();
    }

    /// Waits until the attempt's lease is lost. For one caller at a time. Cancel-safe.
    pub async fn lease_lost(&self) {
        while self.asked.load(Ordering::Acquire) & Self::LOST == 0 {
            self.lost.notified().await;
        }
    }

    /// The attempt could have gone on for this long, and others had the thread or the processor.
    pub fn note_wait(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.waited.fetch_add(nanos, Ordering::Relaxed);
    }

    /// How long it has waited so. That does not count towards its timeout.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Ordering::Relaxed))
    }

    /// Whether the attempt is no longer wanted.
    pub fn is_unwanted(&self) -> bool {
        self.asked.load(Ordering::Relaxed) != 0
    }

    /// Whether the attempt has been killed.
    pub fn is_killed(&self) -> bool {
        self.asked.load(Ordering::Acquire) & Self::KILLED != 0
    }

    /// Waits until the attempt is killed. For one caller at a time. Cancel-safe.
    async fn killed(&self) {
        while !self.is_killed() {
            self.killed.notified().await;
        }
    }

    /// What the call comes to, or `None` if the attempt is killed before that; the caller drops the call then. For one caller at a time.
    pub async fn until_killed<T>(&self, call: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        // In this order, so that a call that ends at once costs nothing more.
        tokio::select! {
            biased;
            ended = call => Some(ended),
            () = self.killed() => None,
        }
    }
}

/// Carries checkpoints of one attempt to the task that stores them.
#[derive(Debug, Clone)]
pub struct CheckpointSender {
    /// The claim that may save.
    pub claim: Arc<Claim>,
    /// Where requests go.
    pub requests: Arc<mpsc::Sender<CheckpointRequest>>,
}

impl CheckpointSender {
    /// Returns once `state` is durable, or with the reason why it is not.
    pub async fn save(&self, state: Vec<u8>) -> Result<(), String> {
        let (reply, saved) = oneshot::channel();
        let request = CheckpointRequest { lease: self.claim.lease.clone(), state, reply };
        let ending = || "the runner is shutting down".to_owned();
        self.requests.send(request).await.map_err(|_| ending())?;
        saved.await.unwrap_or_else(|_| Err(ending()))
    }
}

/// A guest asks to save `state`; the answer is an error text, or nothing once it is durable.
#[derive(Debug)]
pub struct CheckpointRequest {
    /// The claim that saves.
    pub lease: Lease,
    /// What to save; it replaces what was saved before.
    pub state: Vec<u8>,
    /// Answers once the store has it, or says why it has not.
    pub reply: oneshot::Sender<Result<(), String>>,
}

/// Where a job's log lines go.
#[derive(Debug, Clone)]
pub enum LogSink {
    /// To `tracing`, with tenant, topic, job, attempt and version.
    Trace,
    /// To `tracing`, and the last lines into this memory as well: those of level INFO and above, and those below that `tracing` takes.
    TraceAndKeep(Arc<Mutex<LogTail>>),
    /// The last lines of level INFO and above into this memory, and nowhere else.
    Keep(Arc<Mutex<LogTail>>),
    /// Into this list and nowhere else, for a single job that a person runs by hand.
    Collect(Arc<Mutex<Vec<LogLine>>>),
}

/// A line that a guest logged or printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// How severe it is.
    pub level: tracing::Level,
    /// `log`, `stdout`, `stderr` or `progress`.
    pub source: &'static str,
    /// The text.
    pub message: String,
    /// Names and values beside the text.
    pub fields: Vec<(String, String)>,
}

/// What came of an attempt.
#[derive(Debug)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// Empty unless the outcome is complete or snooze.
    pub follow_ups: Vec<NewJob>,
    /// What becomes of the state of the job's key; none unless the outcome is complete.
    pub state: Option<StateChange>,
    /// Fuel used, instantiation included; known for failed attempts too.
    pub fuel: u64,
    /// Most memory at any time, in bytes: the guest's own, and what the host kept for it.
    pub memory_peak: u64,
    /// HTTP requests that it sent.
    pub requests: u64,
    /// Calls of the host.
    pub host_calls: u64,
    /// Bytes of its log.
    pub log_bytes: u64,
    /// From its begin to its end.
    pub duration: Duration,
    /// Log lines dropped for the log limit.
    pub log_lines_dropped: u64,
    /// What the host answered, if that is kept.
    pub recording: Option<Box<Recording>>,
}

impl Report {
    /// The report of an attempt for which no handler ran.
    pub fn without_running(outcome: Outcome) -> Self {
        Self {
            outcome,
            follow_ups: Vec::new(),
            state: None,
            fuel: 0,
            memory_peak: 0,
            requests: 0,
            host_calls: 0,
            log_bytes: 0,
            duration: Duration::ZERO,
            log_lines_dropped: 0,
            recording: None,
        }
    }
}
