//! One attempt from its start to its report, in a fresh instance or in one that has done other jobs.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use super::adapters::EntryPoint;
use super::attempt::{Attempt, Report};
use super::attempt_time::{AttemptTime, within};
use super::classify::{self, Stopped};
use super::code::Code;
use super::engine::FUEL_PER_YIELD;
use super::guest_instance::GuestInstance;
use super::invoke::limit_calls;
use super::meter;
use super::recording::Record;
use super::report::report;
use super::tried::BegunAttempt;
use gristmill_core::outcome::Outcome;
use gristmill_core::time::Timestamp;

/// One attempt, in whatever instances.
pub(super) struct Run<'a> {
    code: &'a Code,
    pub(super) attempt: &'a Arc<Attempt>,
    started: Instant,
    time: AttemptTime<'a>,
    /// By the store's clock. The attempt may go on for longer, by what it waits for a thread.
    deadline: Timestamp,
}

impl<'a> Run<'a> {
    pub(super) fn begin(code: &'a Code, attempt: &'a Arc<Attempt>) -> Self {
        let deadline = match &attempt.record {
            Record::Replay(recording) => recording.deadline(),
            _ => attempt.now().plus(attempt.limits.timeout),
        };
        let time = AttemptTime::start(&attempt.cancellation.control, attempt.limits.timeout);
        Self { code, attempt, started: time.started(), time, deadline }
    }

    pub(super) fn fresh(&self) -> GuestInstance {
        let store = self.code.store(self.attempt, self.started, self.deadline);
        GuestInstance { store, started: None, jobs: 0 }
    }

    pub(super) fn begun(&self) -> BegunAttempt<'_> {
        let Self { code, attempt, started, deadline, .. } = *self;
        BegunAttempt { attempt, version: code.version, started, deadline }
    }

    pub(super) fn time(&self) -> &AttemptTime<'a> {
        &self.time
    }

    pub(super) fn warn(&self, outcome: &Outcome) {
        let spec = &self.attempt.job.spec;
        let (topic, job, attempt, version) = (&spec.topic, &spec.id, self.attempt.attempt, self.code.version);
        let how = match outcome {
            Outcome::Trapped { message, .. } => message,
            _ => "out of memory",
        };
        tracing::warn!(%topic, %job, attempt, %version, how, "a used instance failed: the job begins again in a fresh one");
    }
}

impl GuestInstance {
    /// Makes it ready for another attempt.
    pub(super) fn renew(&mut self, run: &Run<'_>) -> Result<(), Stopped> {
        self.store.data_mut().renew(run.attempt, run.code.version, run.started, run.deadline);
        limit_calls(&mut self.store, &run.attempt.limits, &run.attempt.grants);
        meter::set_fuel(&mut self.store, run.attempt.limits.fuel, FUEL_PER_YIELD).map_err(Stopped::Starting)
    }

    /// Runs the attempt to its end, or for as long as it may.
    pub(super) async fn attempt(&mut self, run: &Run<'_>) -> Report {
        self.jobs = self.jobs.saturating_add(1);
        let control = &run.attempt.cancellation.control;
        let ended = control.until_killed(pin!(within(run.time(), self.call(run)))).await;
        self.report(run, ended.unwrap_or(Err(Stopped::Killed)))
    }

    pub(super) fn report(&mut self, run: &Run<'_>, ended: Result<Outcome, Stopped>) -> Report {
        let mut report = report(&mut self.store, run.started, |state| match ended {
            Ok(outcome) => outcome.within(run.attempt.limits.output_bytes),
            Err(stopped) => classify::stopped(&stopped, state, run.code.lines.as_ref()),
        });
        let state = self.store.data();
        let mut guest_log = state.guest_log();
        if self.jobs > 1 {
            guest_log.boundary.note_gap("an earlier job had used its instance (`reuse`)");
        }
        report.recording =
            guest_log.boundary.finish(run.attempt, state.placeholders(), run.code.version, run.deadline, &report);
        drop(guest_log);
        report
    }

    async fn call(&mut self, run: &Run<'_>) -> Result<Outcome, Stopped> {
        let entry = self.start(run).await?;
        entry.call(&mut self.store, run.attempt, run.deadline).await
    }

    /// Starts it, if it is not started yet.
    pub(super) async fn start(&mut self, run: &Run<'_>) -> Result<EntryPoint, Stopped> {
        if let Some((entry, _)) = self.started {
            return Ok(entry);
        }
        let instance = run.code.start(&mut self.store).await.map_err(Stopped::Starting)?;
        let entry =
            run.code.entry_points.of(&run.attempt.adapter, &instance, &mut self.store).map_err(Stopped::Starting)?;
        self.started = Some((entry, instance));
        Ok(entry)
    }

    /// Has later attempts of the component tried without it, if that would have done for this one.
    pub(super) fn teach(&mut self, code: &Code, report: &Report) {
        if let Some((_, instance)) = self.started {
            code.direct.learn(code.pre.component(), &mut self.store, instance, report);
        }
    }
}
