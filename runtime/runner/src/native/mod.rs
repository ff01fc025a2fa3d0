//! Native handlers: async functions of the program that embeds the runner, which do jobs beside components.
//!
//! The rules are those of components: attempts, retries, leases, the timeout, and the limits of bodies, results, checkpoints
//! and follow-ups. They are not sandboxed: no fuel is counted, no memory bounded, nothing kept from them. They run on the
//! tokio runtime that the runner was started in, so they must not block its threads; a timeout and a kill take effect at an `await`.

#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use crate::tasks::{message_of, poll_once};
use gristmill_core::admission::{FollowUpRules, FollowUps};
use gristmill_core::job::{Job, JobId, JobSpec, NewJob, Payload};
use gristmill_core::outcome::{FailureDetail, Outcome};
use gristmill_core::time::Timestamp;
use gristmill_sandbox::{Attempt, GuestLog, KeyedState, Report};

pub use gristmill_core::admission::NoFollowUp;
pub use gristmill_sandbox::{LogLine, StateError};

type HandlerFuture = Pin<Box<dyn Future<Output = Result<Output, HandlerError>> + Send>>;

/// An async function that does jobs. Cheap to clone.
#[derive(Clone)]
pub struct NativeHandler(Arc<dyn Fn(NativeJob) -> HandlerFuture + Send + Sync>);

impl fmt::Debug for NativeHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NativeHandler")
    }
}

/// What a handler is done with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// The job is done; the payload, if any, is its result.
    Complete(Option<Payload>),
    /// The job is to be run again after this long; the attempt does not count.
    Snooze(Duration),
}

impl From<()> for Output {
    fn from((): ()) -> Self {
        Self::Complete(None)
    }
}

impl From<Payload> for Output {
    fn from(result: Payload) -> Self {
        Self::Complete(Some(result))
    }
}

impl From<Vec<u8>> for Output {
    fn from(data: Vec<u8>) -> Self {
        Payload { data, content_type: None }.into()
    }
}

/// Why a handler failed. Every [`std::error::Error`] becomes a [`HandlerError::Retry`] by `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the docs of the variants name their fields")]
pub enum HandlerError {
    /// Another try is worth it: after the topic's backoff, or after the time that is named.
    Retry { detail: FailureDetail, after: Option<Duration> },
    /// Another try would fail as well: the job goes to the dead letters.
    Reject(FailureDetail),
}

impl HandlerError {
    /// Fails for good, for this reason.
    pub fn reject(message: impl Into<String>) -> Self {
        Self::Reject(detail(message.into()))
    }

    /// Fails for now, for this reason.
    pub fn retry(message: impl Into<String>) -> Self {
        Self::Retry { detail: detail(message.into()), after: None }
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::retry(format!("{:#}", anyhow::Error::from(error)))
    }
}

fn detail(message: String) -> FailureDetail {
    FailureDetail { code: "failed".into(), message, context: None }
}

/// Why a checkpoint was not saved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum CheckpointError {
    #[error("a checkpoint of the topic has at most {0} bytes")]
    TooLarge(u64),
    #[error("failed to save a checkpoint: {0}")]
    NotSaved(String),
}

/// One attempt at a job, as a native handler gets it.
#[derive(Debug)]
pub struct NativeJob {
    attempt: Arc<Attempt>,
    effects: Arc<Mutex<Option<Effects>>>,
    deadline: Timestamp,
}

/// What a function has done beside its answer. The end of the attempt takes it away, so that a task that the function left behind can add nothing.
#[derive(Debug)]
struct Effects {
    follow_ups: FollowUps,
    /// None if the topic keeps no states.
    keyed: Option<KeyedState>,
    /// Made for the first line.
    log: Option<GuestLog>,
}

impl NativeJob {
    /// The job as the store holds it.
    pub fn job(&self) -> &Job {
        &self.attempt.job
    }

    /// What the producer pushed: id, topic, body, headers, key.
    pub fn spec(&self) -> &JobSpec {
        &self.attempt.job.spec
    }

    /// The bytes of the job's body.
    pub fn body(&self) -> &[u8] {
        &self.spec().body.data
    }

    /// Which attempt this is, beginning with 1.
    pub fn attempt(&self) -> u32 {
        self.attempt.attempt
    }

    /// How many attempts there are in all.
    pub fn max_attempts(&self) -> u32 {
        self.attempt.max_attempts
    }

    /// What an earlier attempt saved.
    pub fn checkpoint(&self) -> Option<&[u8]> {
        self.attempt.checkpoint.as_deref()
    }

    /// When the attempt ends at the latest, by the store's clock.
    pub fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// The store's clock.
    pub fn now(&self) -> Timestamp {
        self.attempt.now()
    }

    /// The settings that the topic grants, by name.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.attempt.grants.config
    }

    /// The secrets that the topic grants, by name; those with `hosts` too, since the handler sends its requests itself.
    pub fn secrets(&self) -> BTreeMap<&str, &[u8]> {
        self.attempt.grants.all_secrets()
    }

    /// Writes a line of the job's log, as components do: with the names of job and topic, and within the topic's `log-limit`. What is over the
    /// limit is dropped and counted, and what comes after the end of the attempt is dropped.
    pub fn log(&self, line: LogLine) {
        if let Some(effects) = &mut *self.effects.lock() {
            effects.log.get_or_insert_with(|| GuestLog::new(&self.attempt, None)).write(line);
        }
    }

    /// Returns `true` once the job is cancelled, its lease is lost, or the runner shuts down: finish early if you can.
    pub fn is_cancelled(&self) -> bool {
        self.attempt.cancellation.is_cancelled()
    }

    /// Saves `state` for a later attempt. Returns once it is durable.
    ///
    /// # Errors
    /// [`CheckpointError`]; what was saved before stays.
    pub async fn save_checkpoint(&self, state: &[u8]) -> Result<(), CheckpointError> {
        let limit = self.attempt.limits.checkpoint_bytes;
        if state.len() as u64 > limit {
            return Err(CheckpointError::TooLarge(limit));
        }
        let nowhere = || CheckpointError::NotSaved("nothing keeps checkpoints here".into());
        let sender = self.attempt.checkpoints.as_ref().ok_or_else(nowhere)?;
        sender.save(state.to_vec()).await.map_err(CheckpointError::NotSaved)
    }

    /// The state of the job's key; `None` if there is none. After [`NativeJob::set_state`], the state that it set.
    ///
    /// # Errors
    /// [`StateError`]: the topic keeps no states, the job has no key, the attempt has ended, or the store does not answer.
    pub async fn state(&self) -> Result<Option<Vec<u8>>, StateError> {
        let keyed = self.with_keyed(|keyed| Ok(keyed.clone()))?;
        keyed.get().await
    }

    fn with_keyed<T>(&self, act: impl FnOnce(&mut KeyedState) -> Result<T, StateError>) -> Result<T, StateError> {
        let ended =
            || StateError::Unavailable("the attempt has ended: use its state before its function returns".into());
        let mut effects = self.effects.lock();
        act(effects.as_mut().ok_or_else(ended)?.keyed.as_mut().ok_or_else(StateError::not_granted)?)
    }

    /// Has the state of the job's key be `value` once the attempt is settled as completed; `None` deletes it. The last call counts, and
    /// none does if the attempt ends in any other way.
    ///
    /// # Errors
    /// [`StateError`]: the topic keeps no states, the job has no key, the attempt has ended, or `value` is over the topic's `state-limit`.
    pub fn set_state(&self, value: Option<&[u8]>) -> Result<(), StateError> {
        self.with_keyed(|keyed| keyed.set(value.map(<[u8]>::to_vec)))
    }

    /// Enqueues a follow-up. It is pushed with the settlement if the attempt completes or snoozes, and dropped otherwise.
    /// The topic's `ttl` holds for a job that brings none.
    ///
    /// # Errors
    /// [`NoFollowUp`]: the target does not exist, is of another tenant, or is not granted; its links contradict those of other follow-ups;
    /// a limit is reached; or the attempt has ended.
    pub fn enqueue(&self, job: NewJob) -> Result<JobId, NoFollowUp> {
        let Attempt { grants, targets, limits, .. } = &*self.attempt;
        // A program's own function may name any job of the tenant.
        let (tenant, count) = (&self.spec().topic.tenant, limits.follow_ups);
        let rules = FollowUpRules { tenant, grants, targets, count, near: None };
        let id = job.spec.id.clone();
        self.effects.lock().as_mut().ok_or(NoFollowUp::Ended)?.follow_ups.add(job, &rules)?;
        Ok(id)
    }
}

impl NativeHandler {
    /// A handler that calls `function` for every attempt at a job.
    pub fn new<F, T, O>(function: F) -> Self
    where
        F: Fn(NativeJob) -> T + Send + Sync + 'static,
        T: Future<Output = Result<O, HandlerError>> + Send + 'static,
        O: Into<Output>,
    {
        let function = Arc::new(function);
        Self(Arc::new(move |job| {
            let function = Arc::clone(&function);
            // The call itself is made in the future, so that a panic in it is caught like any other.
            Box::pin(async move { function(job).await.map(Into::into) })
        }))
    }

    /// Does one attempt, in a task of its own so that a panic ends nothing else, and a function that keeps its thread holds up no timeout. Dropping
    /// it aborts the task.
    pub async fn invoke(&self, attempt: impl Into<Arc<Attempt>>) -> Report {
        self.attempt(attempt.into(), false).await
    }

    /// The same of an attempt that is expected to end at once: it gets a task only where it first waits.
    pub(crate) async fn invoke_brief(&self, attempt: Arc<Attempt>) -> Report {
        self.attempt(attempt, true).await
    }

    async fn attempt(&self, attempt: Arc<Attempt>, is_brief: bool) -> Report {
        let (begun, limits) = (Instant::now(), attempt.limits);
        let control = Arc::clone(&attempt.cancellation.control);
        let deadline = attempt.now().plus(limits.timeout);
        let nothing = Effects { follow_ups: FollowUps::default(), keyed: KeyedState::of(&attempt), log: None };
        let effects = Arc::new(Mutex::new(Some(nothing)));
        let job = NativeJob { attempt, effects: Arc::clone(&effects), deadline };
        let mut answer = (self.0)(job);
        let first = match is_brief {
            true => poll_once(answer.as_mut()).await,
            false => Ok(Poll::Pending),
        };
        let outcome = match first {
            Ok(Poll::Ready(answer)) => outcome(answer).within(limits.output_bytes),
            Ok(Poll::Pending) => {
                let task = AbortOnDropHandle::new(tokio::spawn(answer));
                match control.until_killed(pin!(tokio::time::timeout(limits.timeout, task))).await {
                    None => Outcome::Killed,
                    Some(Err(_)) => Outcome::TimedOut { limit: limits.timeout },
                    Some(Ok(Err(ended))) => match ended.try_into_panic() {
                        Ok(panic) => trapped(&*panic),
                        Err(cancelled) => Outcome::HostFault(cancelled.to_string()),
                    },
                    Some(Ok(Ok(answer))) => outcome(answer).within(limits.output_bytes),
                }
            }
            Err(panic) => trapped(&*panic),
        };
        let ended = effects.lock().take();
        let (mut follow_ups, mut change, mut log_lines_dropped) = (Vec::new(), None, 0);
        if let Some(mut ended) = ended {
            follow_ups = ended.follow_ups.take();
            change = ended.keyed.as_mut().and_then(KeyedState::take_change);
            log_lines_dropped = ended.log.as_mut().map_or(0, GuestLog::close);
        }
        let kept = matches!(outcome, Outcome::Complete(_) | Outcome::Snooze(_));
        Report {
            follow_ups: if kept { follow_ups } else { Vec::new() },
            state: change.filter(|_| matches!(outcome, Outcome::Complete(_))),
            // By this the runner knows that a function ran.
            duration: begun.elapsed().max(Duration::from_nanos(1)),
            log_lines_dropped,
            ..Report::without_running(outcome)
        }
    }
}

fn trapped(panic: &(dyn Any + Send)) -> Outcome {
    Outcome::Trapped { message: message_of(panic), backtrace: String::new() }
}

/// What an answer is to the runner, before limits.
pub fn outcome(answer: Result<Output, HandlerError>) -> Outcome {
    match answer {
        Ok(Output::Complete(result)) => Outcome::Complete(result),
        Ok(Output::Snooze(after)) => Outcome::Snooze(after),
        Err(HandlerError::Retry { detail, after }) => Outcome::Retry { detail, after },
        Err(HandlerError::Reject(detail)) => Outcome::Reject(detail),
    }
}
