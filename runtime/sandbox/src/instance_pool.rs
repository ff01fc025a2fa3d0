//! Attempts in fresh instances, and in instances that do more than one job, for guests whose start costs more than their
//! work.
//!
//! A job then finds what earlier jobs left in the guest's memory, but its outcome must not depend on them. Hence an instance
//! is kept only after it returned normally, and if a used instance fails in a way that earlier jobs may have caused, the
//! attempt is made again in a fresh one.

use std::fmt;
use std::sync::Arc;

use super::attempt::{Attempt, Report};
use super::component::Component;
use super::guest_instance::{GuestInstance, IdleInstances, PoolId};
use super::invoke::refuse;
use super::run::Run;

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
    /// traps or runs out of memory, the attempt is made again in a fresh one, within the rest of its time; fuel and
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
