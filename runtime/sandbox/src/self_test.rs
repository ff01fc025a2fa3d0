//! What a component is asked before it gets jobs: whether it starts, and its optional self-test.
//!
//! Both run its code, which may do anything that a guest does: on a thread of its own, since the caller's has others to serve.

use std::sync::Arc;
use std::time::Instant;

use tokio::runtime;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use wasmtime::Store;

use super::attempt::{Attempt, AttemptControl, Report};
use super::attempt_time::{AttemptTime, within};
use super::classify::{self, Stopped};
use super::code::Code;
use super::component::Component;
use super::report::report;
use super::state::State;
use gristmill_core::job::{BadName, JobSpec, Payload};
use gristmill_core::outcome::Outcome;
use gristmill_core::topic::Limits;
use gristmill_core::units;

/// Fuel of a trial, where the topics allow more: a start or a self-test that computes for seconds is broken, and a trial of it
/// must not keep a thread until the topic's timeout.
const TRIAL_FUEL_MAX: u64 = 20_000_000_000;

/// What a self-test may say.
const SAID_BYTES_MAX: usize = 4 << 10;

/// What an instance has cost before it does anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// Fuel that the start used.
    pub fuel: u64,
    /// Bytes, over all of its memories.
    pub memory_bytes: u64,
}

impl Component {
    /// Starts an instance and asks the component whether it is well, both with the limits that a topic has by default. That this passed is
    /// remembered with the component. A start that needs more memory than that is not refused: its topic may allow more. Cancel-safe.
    ///
    /// # Errors
    /// In words for its author: how the start or the self-test ended instead.
    pub async fn try_out(&self) -> Result<(), String> {
        let limits = Limits::default();
        let was_started = match self.started(&limits).await? {
            Ok(_) | Err(Outcome::MemoryExceeded { .. }) => true,
            // No fault of the component's: it is tried again when it is next loaded.
            Err(Outcome::HostFault(_) | Outcome::PoolFull) => false,
            Err(outcome) => return Err(no_start(&outcome)),
        };
        self.self_test(&limits).await.map_err(|reason| format!("its self-test failed: {reason}"))?;
        if was_started {
            self.note_passed();
        }
        Ok(())
    }

    /// Starts an instance and calls nothing. It runs like an attempt, with these limits, no grants and no topic to
    /// enqueue to, on a thread of its own. Cancel-safe, like [`Component::invoke`].
    ///
    /// # Errors
    /// In words for its author: how it ended instead.
    pub async fn try_start(&self, limits: &Limits) -> Result<Started, String> {
        self.started(limits).await?.map_err(|outcome| no_start(&outcome))
    }

    async fn started(&self, limits: &Limits) -> Result<Result<Started, Outcome>, String> {
        let (component, limits) = (self.clone(), *limits);
        apart(async move { component.start_here(&limits).await }).await
    }

    /// Asks the component whether it is well; fine if it has no self-test. It runs like an attempt, with these limits,
    /// no grants and no topic to enqueue to, on a thread of its own. Cancel-safe, like [`Component::invoke`].
    ///
    /// # Errors
    /// In words for its author: what the component says, or how it ended instead.
    pub async fn self_test(&self, limits: &Limits) -> Result<(), String> {
        if !self.has_self_test() {
            return Ok(());
        }
        let (component, limits) = (self.clone(), *limits);
        match apart(async move { component.check_here(&limits).await }).await? {
            Ok(said) => said.map_err(|problem| format!("the self-test says: {}", cut(problem))),
            Err(outcome) => Err(format!("the self-test {}", in_words(&outcome))),
        }
    }

    async fn start_here(&self, limits: &Limits) -> Result<Started, Outcome> {
        let code = self.code().await?;
        let mut store = store(&code, limits)?;
        let control = AttemptControl::default();
        let time = AttemptTime::start(&control, limits.timeout);
        let start = async { code.start(&mut store).await.map_err(Stopped::Starting) };
        let started = within(&time, start).await.map(drop);
        let (report, ()) = ended(&code, &mut store, started)?;
        Ok(Started { fuel: report.fuel, memory_bytes: store.data().memory.in_use() })
    }

    async fn check_here(&self, limits: &Limits) -> Result<Result<(), String>, Outcome> {
        let code = self.code().await?;
        let Some(check) = &code.self_test else { return Ok(Ok(())) };
        let mut store = store(&code, limits)?;
        let control = AttemptControl::default();
        let time = AttemptTime::start(&control, limits.timeout);
        let answer = within(&time, code.call::<(), (Result<(), String>,)>(&mut store, check, ())).await;
        let (_, (said,)) = ended(&code, &mut store, answer)?;
        Ok(said)
    }
}

/// The report of a trial and what came of it, or how it was stopped.
fn ended<T>(code: &Code, store: &mut Store<State>, answer: Result<T, Stopped>) -> Result<(Report, T), Outcome> {
    let report = |store, outcome: &dyn Fn(&State) -> Outcome| report(store, Instant::now(), outcome);
    match answer {
        Ok(answer) => Ok((report(store, &|_| Outcome::Complete(None)), answer)),
        Err(stopped) => Err(report(store, &|state| classify::stopped(&stopped, state, code.lines.as_ref())).outcome),
    }
}

/// Runs a trial on a thread of its own. It ends with the caller's interest.
async fn apart<T: Send + 'static>(trial: impl Future<Output = T> + Send + 'static) -> Result<T, String> {
    let stop = CancellationToken::new();
    let _stop_with_caller = stop.clone().drop_guard();
    let run = move || {
        let runtime =
            runtime::Builder::new_current_thread().enable_time().build().map_err(|error| error.to_string())?;
        let ended = runtime.block_on(stop.run_until_cancelled(trial));
        ended.ok_or_else(|| "it was cancelled".to_owned())
    };
    let ended = spawn_blocking(run).await.unwrap_or_else(|error| Err(error.to_string()));
    ended.map_err(|problem| format!("the component could not be run: {problem}"))
}

fn store(code: &Code, limits: &Limits) -> Result<Store<State>, Outcome> {
    let attempt = attempt(limits)?;
    let deadline = attempt.now().plus(limits.timeout);
    Ok(code.store(&Arc::new(attempt), Instant::now(), deadline))
}

/// An attempt at a job that does not exist.
fn attempt(limits: &Limits) -> Result<Attempt, Outcome> {
    let limits = Limits { fuel: limits.fuel.min(TRIAL_FUEL_MAX), ..*limits };
    let topic = "self-test".parse().map_err(|error: BadName| Outcome::HostFault(error.to_string()))?;
    Ok(Attempt::at(JobSpec::new(topic, Payload::default()), limits))
}

/// A guest's text may be as long as its output limit. This one goes to the log and to each client that asks for the handler.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(SAID_BYTES_MAX));
    text
}

fn no_start(outcome: &Outcome) -> String {
    format!("an instance does not start: it {}", in_words(outcome))
}

fn in_words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::OutOfFuel { limit } => format!("used up its fuel of {}", units::COUNT.about(*limit)),
        Outcome::MemoryExceeded { limit, .. } => format!("needs more than its {} of memory", units::SIZE.about(*limit)),
        Outcome::TimedOut { limit } => format!("took longer than {}", units::about_duration(*limit)),
        Outcome::Trapped { message, backtrace } => format!("trapped: {message}\n{backtrace}"),
        Outcome::LimitExceeded { limit, allowed } => format!("went over {}", limit.in_words(*allowed)),
        Outcome::HostFault(fault) => format!("could not be run: host fault: {fault}"),
        Outcome::PoolFull | Outcome::HandlerMissing | Outcome::ShuttingDown | Outcome::Killed => {
            format!("could not be run: {}", outcome.kind())
        }
        other => format!("ended as {other:?}"),
    }
}
