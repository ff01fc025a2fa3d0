//! What a component is asked before it gets jobs: whether it starts, and its optional self-test.

use std::time::Instant;

use super::attempt::Attempt;
use super::classify::{self, Stopped};
use super::component::Component;
use super::invoke::{report, within};
use gristmill_core::job::{BadName, JobSpec, Payload};
use gristmill_core::outcome::Outcome;
use gristmill_core::topic::Limits;

/// What an instance has cost before it does anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    pub fuel: u64,
    /// Bytes, over all of its memories.
    pub memory_bytes: u64,
}

impl Component {
    /// Starts an instance and calls nothing. It runs like an attempt, with these limits, no grants and no topic to
    /// enqueue to. Cancel-safe, like [`Component::invoke`].
    ///
    /// # Errors
    /// In words for its author: how it ended instead.
    pub async fn try_start(&self, limits: &Limits) -> Result<Started, String> {
        let attempt = attempt(limits).map_err(|error| error.to_string())?;
        let mut store = self.store(&attempt);
        let start = async { self.start(&mut store).await.map_err(Stopped::Starting) };
        let started = within(limits.timeout, start).await;
        let report = report(&mut store, Instant::now(), |state| match started {
            Ok(_) => Outcome::Complete(None),
            Err(stopped) => classify::stopped(&stopped, state),
        });
        match report.outcome {
            Outcome::Complete(_) => Ok(Started { fuel: report.fuel, memory_bytes: store.data().memory.in_use() }),
            other => Err(format!("an instance does not start: it {}", in_words(&other))),
        }
    }

    /// Asks the component whether it is well; fine if it has no self-test. It runs like an attempt, with these limits,
    /// no grants and no topic to enqueue to. Cancel-safe, like [`Component::invoke`].
    ///
    /// # Errors
    /// In words for its author: what the component says, or how it ended instead.
    pub async fn self_test(&self, limits: &Limits) -> Result<(), String> {
        let Some(check) = &self.0.self_test else { return Ok(()) };
        let attempt = attempt(limits).map_err(|error| error.to_string())?;
        let mut store = self.store(&attempt);
        let answer = within(limits.timeout, self.call::<(), (Result<(), String>,)>(&mut store, check, ())).await;
        let mut said = Ok(());
        let report = report(&mut store, Instant::now(), |state| match answer {
            Ok((answer,)) => {
                said = answer;
                Outcome::Complete(None)
            }
            Err(stopped) => classify::stopped(&stopped, state),
        });
        match report.outcome {
            Outcome::Complete(_) => said.map_err(|problem| format!("the self-test says: {problem}")),
            other => Err(format!("the self-test {}", in_words(&other))),
        }
    }
}

/// An attempt at a job that does not exist.
fn attempt(limits: &Limits) -> Result<Attempt, BadName> {
    Ok(Attempt::at(JobSpec::new("self-test".parse()?, Payload::default()), *limits))
}

fn in_words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::OutOfFuel { limit } => format!("used up its fuel of {limit}"),
        Outcome::MemoryExceeded { limit, .. } => format!("needs more than its {limit} bytes of memory"),
        Outcome::TimedOut { limit } => format!("took longer than {limit:?}"),
        Outcome::Trapped { message, backtrace } => format!("trapped: {message}\n{backtrace}"),
        Outcome::LimitExceeded { limit, allowed } => format!("went over the {limit} limit of {allowed}"),
        Outcome::HostFault(fault) => format!("could not be run: host fault: {fault}"),
        Outcome::PoolFull | Outcome::HandlerMissing | Outcome::ShuttingDown => {
            format!("could not be run: {}", outcome.kind())
        }
        other => format!("ended as {other:?}"),
    }
}
