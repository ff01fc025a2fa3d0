//! What an instance costs step by step, for `bench`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::attempt::{Attempt, Report};
use super::attempt_time::within;
use super::component::Component;
use super::guest_instance::GuestInstance;
use super::run::Run;
use gristmill_core::outcome::Outcome;

/// One instance from its start on, with the same job again and again.
#[derive(Debug)]
pub struct Steps {
    /// To make an instance.
    pub start: Duration,
    /// Fuel that the start used.
    pub start_fuel: u64,
    /// Bytes of its memories once it has started.
    pub start_memory_bytes: u64,
    /// The first call of the handler.
    pub first_call: Duration,
    /// Of the first job alone.
    pub job_fuel: u64,
    /// How the handler decided on the first job.
    pub outcome: Outcome,
    /// Each call after the first.
    pub kept_calls: Vec<Duration>,
    /// Fuel of the last of them.
    pub kept_fuel: u64,
    /// Bytes of its memories after the last call.
    pub memory_bytes: u64,
}

impl Component {
    /// Starts an instance, and has it do the attempt's job once and `again` times more, but a program only once. Every call has the attempt's limits.
    /// Needs a tokio runtime with time enabled.
    ///
    /// # Errors
    /// How the instance ended, if it did not return normally.
    pub async fn step_through(&self, attempt: &Attempt, again: usize) -> Result<Steps, Outcome> {
        let again = if attempt.adapter.can_call_again() { again } else { 0 };
        let (code, attempt) = (self.code().await?, &Arc::new(attempt.clone()));
        let begun = Instant::now();
        let run = Run::begin(&code, attempt);
        let mut instance = run.fresh();
        instance.start_in_time(&run).await?;
        let start = begun.elapsed();
        let (start_fuel, start_memory_bytes) = (instance.fuel(), instance.memory_bytes());
        let (first_call, first) = instance.timed_call(&run).await?;
        let mut steps = Steps {
            start,
            start_fuel,
            start_memory_bytes,
            first_call,
            job_fuel: first.fuel.saturating_sub(start_fuel),
            outcome: first.outcome,
            kept_calls: Vec::with_capacity(again),
            kept_fuel: 0,
            memory_bytes: 0,
        };
        for _ in 0..again {
            let (took, report) = instance.timed_again(&Run::begin(&code, attempt)).await?;
            steps.kept_calls.push(took);
            steps.kept_fuel = report.fuel;
        }
        steps.memory_bytes = instance.memory_bytes();
        Ok(steps)
    }
}

impl GuestInstance {
    async fn start_in_time(&mut self, run: &Run<'_>) -> Result<(), Outcome> {
        let started = within(run.time(), self.start(run)).await;
        started.map(drop).map_err(|stopped| self.report(run, Err(stopped)).outcome)
    }

    async fn timed_call(&mut self, run: &Run<'_>) -> Result<(Duration, Report), Outcome> {
        let begun = Instant::now();
        let report = self.attempt(run).await;
        let took = begun.elapsed();
        if report.outcome.is_decided() { Ok((took, report)) } else { Err(report.outcome) }
    }

    /// What a job costs that finds an instance: making it ready is part of it.
    async fn timed_again(&mut self, run: &Run<'_>) -> Result<(Duration, Report), Outcome> {
        let begun = Instant::now();
        self.renew(run).map_err(|stopped| self.report(run, Err(stopped)).outcome)?;
        let (_, report) = self.timed_call(run).await?;
        Ok((begun.elapsed(), report))
    }
}
