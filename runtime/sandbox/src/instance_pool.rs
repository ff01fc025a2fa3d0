//! Attempts in fresh instances, and in instances that do more than one job, for guests whose start costs more than their
//! work.
//!
//! A job then finds what earlier jobs left in the guest's memory, but its outcome must not depend on them. Hence an instance
//! is kept only after it returned normally, and if a used instance fails in a way that earlier jobs may have caused, the
//! attempt is made again in a fresh one.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use wasmtime::Store;
use wasmtime::component::Instance;

use super::adapters::Entry;
use super::attempt::{Attempt, Report};
use super::attempt_time::{AttemptTime, within};
use super::classify::{self, Stopped};
use super::code::Code;
use super::component::Component;
use super::engine::FUEL_PER_YIELD;
use super::idle::IdleItems;
use super::invoke::{limit_calls, refuse};
use super::meter;
use super::recording::Record;
use super::report::report;
use super::state::State;
use super::tried::BegunAttempt;
use gristmill_core::outcome::Outcome;
use gristmill_core::time::Timestamp;

/// The idle instances of a sandbox, over all topics. Their bytes are those of their linear memories.
pub(super) type IdleInstances = IdleItems<PoolId, GuestInstance>;

/// What the host may keep for the handles of an instance between jobs: to streams, clocks and pollables, but to no bodies.
const KEPT_FOR_HANDLES: usize = 32 << 10;

/// A pool takes out only the instances that it put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PoolId(u64);

impl PoolId {
    /// Another than any before.
    pub(super) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The instances that one topic keeps of one version of its component, while they wait for jobs. Freed with it.
pub struct InstancePool {
    idle: Arc<IdleInstances>,
    id: PoolId,
    /// Jobs that an instance may do.
    reuse: u32,
}

impl Component {
    /// Runs one attempt to its end in a fresh instance. Never fails: a guest's and a host's faults alike are outcomes.
    ///
    /// Ends at the timeout of the attempt's limits, [without what it waited](super::AttemptControl::note_wait); until then it yields about every 0.1 ms while the guest computes.
    /// Needs a tokio runtime with time enabled. Cancel-safe: dropping the future stops the guest and frees everything.
    pub async fn invoke(&self, attempt: impl Into<Arc<Attempt>>) -> Report {
        let attempt = attempt.into();
        if let Some(outcome) = refuse(&attempt) {
            return Report::without_running(outcome);
        }
        // What mapping the code takes is not the job's time.
        let code = match self.code().await {
            Ok(code) => code,
            Err(outcome) => return Report::without_running(outcome),
        };
        let run = Run::begin(&code, &attempt);
        if let Some(report) = code.direct.attempt(&run.begun()) {
            return report;
        }
        let mut instance = run.fresh();
        let report = instance.attempt(&run).await;
        instance.teach(&code, &report);
        report
    }

    /// A pool for instances of this component, each of which does at most `reuse` jobs.
    pub fn instance_pool(&self, reuse: u32) -> InstancePool {
        let idle = Arc::clone(&self.0.idle);
        InstancePool { id: PoolId::next(), idle, reuse }
    }
}

impl InstancePool {
    /// Runs one attempt to its end, like [`Component::invoke`], in an instance that is kept here if there is one; and
    /// keeps the instance if it can do another job. `component` is always the one that the pool was made for.
    ///
    /// Second and later attempts begin in a fresh instance: what spoilt the first may be in the old one. If a used instance
    /// traps or runs out of memory, the attempt is made again in a fresh one, within what is left of its time; fuel and
    /// dropped log lines of both are added up.
    ///
    /// Cancel-safe: dropping the future frees the instance.
    pub async fn invoke(&self, component: &Component, attempt: impl Into<Arc<Attempt>>) -> Report {
        let attempt = attempt.into();
        if let Some(outcome) = refuse(&attempt) {
            return Report::without_running(outcome);
        }
        let code = match component.code().await {
            Ok(code) => code,
            Err(outcome) => return Report::without_running(outcome),
        };
        let run = Run::begin(&code, &attempt);
        let Some(used) = self.used_for(&run) else { return self.end(run.fresh(), &run).await.0 };
        let (report, suspect) = self.end(used, &run).await;
        if !suspect {
            return report;
        }
        run.warn(&report.outcome);
        let (again, _) = self.end(run.fresh(), &run).await;
        added(&report, again)
    }

    fn used_for(&self, run: &Run<'_>) -> Option<GuestInstance> {
        let mut instance = if run.attempt.attempt == 1 { self.idle.take(&self.id) } else { None }?;
        instance.renew(run).ok()?;
        Some(instance)
    }

    /// Runs the attempt in this instance, and keeps it or frees it. True: the instance is to blame, not the job.
    async fn end(&self, mut instance: GuestInstance, run: &Run<'_>) -> (Report, bool) {
        let used = instance.jobs > 0;
        let report = instance.attempt(run).await;
        let suspect = used && instance.may_have_caused(&report.outcome);
        if instance.jobs < self.reuse && instance.is_sound_after(&report.outcome) {
            let bytes = instance.memory_bytes();
            self.idle.put(self.id, instance, bytes);
        }
        (report, suspect)
    }

    /// Frees what is kept.
    pub fn clear(&self) {
        self.idle.clear(&self.id);
    }
}

impl Drop for InstancePool {
    fn drop(&mut self) {
        self.clear();
    }
}

/// One attempt, in whatever instances.
pub(super) struct Run<'a> {
    code: &'a Code,
    attempt: &'a Arc<Attempt>,
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

    fn begun(&self) -> BegunAttempt<'_> {
        let Self { code, attempt, started, deadline, .. } = *self;
        BegunAttempt { attempt, version: code.version, started, deadline }
    }

    pub(super) fn time(&self) -> &AttemptTime<'a> {
        &self.time
    }

    fn warn(&self, outcome: &Outcome) {
        let spec = &self.attempt.job.spec;
        let (topic, job, attempt, version) = (&spec.topic, &spec.id, self.attempt.attempt, self.code.version);
        let how = match outcome {
            Outcome::Trapped { message, .. } => message,
            _ => "out of memory",
        };
        tracing::warn!(%topic, %job, attempt, %version, how, "a used instance failed: the job begins again in a fresh one");
    }
}

/// An instance that can be called again.
pub(super) struct GuestInstance {
    store: Store<State>,
    /// What is called, and of what; `None` until it is started.
    started: Option<(Entry, Instance)>,
    /// That it has begun.
    jobs: u32,
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
    pub(super) async fn start(&mut self, run: &Run<'_>) -> Result<Entry, Stopped> {
        if let Some((entry, _)) = self.started {
            return Ok(entry);
        }
        let instance = run.code.start(&mut self.store).await.map_err(Stopped::Starting)?;
        let entry = run.code.entries.of(&run.attempt.adapter, &instance, &mut self.store).map_err(Stopped::Starting)?;
        self.started = Some((entry, instance));
        Ok(entry)
    }

    /// Has later attempts of the component tried without it, if that would have done for this one.
    fn teach(&mut self, code: &Code, report: &Report) {
        if let Some((_, instance)) = self.started {
            code.direct.learn(code.pre.component(), &mut self.store, instance, report);
        }
    }

    /// Bytes of its linear memories.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.store.data().memory.in_use()
    }

    /// Fuel used since it was started or renewed.
    pub(super) fn fuel(&self) -> u64 {
        self.store.data().attempt.limits.fuel.saturating_sub(self.store.get_fuel().unwrap_or(0))
    }

    /// Whether an end could be due to what earlier jobs left behind. Not so fuel, time and numbers of calls, which count anew
    /// for each job.
    fn may_have_caused(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Trapped { .. } | Outcome::MemoryExceeded { .. } => true,
            // The guest got no more memory, and returned that as a failure.
            Outcome::Retry { .. } | Outcome::Reject(_) => self.store.data().memory.denied(),
            _ => false,
        }
    }

    /// Whether it returned normally, holds no requests or answers, and the next job finds at least half of its memory unused.
    fn is_sound_after(&mut self, outcome: &Outcome) -> bool {
        let state = self.store.data_mut();
        let State { memory, attempt, .. } = &*state;
        let is_sound = outcome.is_decided() && !memory.denied() && memory.in_use() <= attempt.limits.memory_bytes / 2;
        is_sound && state.held_by_handles() <= KEPT_FOR_HANDLES
    }
}

/// The report of an attempt that was made twice.
fn added(first: &Report, second: Report) -> Report {
    Report {
        fuel: first.fuel.saturating_add(second.fuel),
        memory_peak: first.memory_peak.max(second.memory_peak),
        requests: first.requests.saturating_add(second.requests),
        host_calls: first.host_calls.saturating_add(second.host_calls),
        log_bytes: first.log_bytes.saturating_add(second.log_bytes),
        log_lines_dropped: first.log_lines_dropped.saturating_add(second.log_lines_dropped),
        recording: second.recording.map(|mut recording| {
            recording.incomplete =
                Some("it ran twice, first in an instance that an earlier job had used (`reuse`)".to_owned());
            recording
        }),
        ..second
    }
}

impl fmt::Debug for InstancePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { idle, id, reuse } = self;
        f.debug_struct("InstancePool").field("idle", idle).field("id", id).field("reuse", reuse).finish()
    }
}
