//! A record as one line of JSON. Its fields are documented in `docs/reference/journal.md`.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::super::line_file::LineKind;
use super::super::record::{AttemptRecord, micros_of};
use gristmill_core::job::{JobId, Name, TopicId, WorkerId};
use gristmill_core::outcome::{OutcomeKind, Reason, Settled};
use gristmill_sandbox::Version;

/// What a line says. Names and figures only: while it waits to be written it keeps no body and no result in memory.
///
/// Times begin with the store's clock at the claim and go on with the monotonic one: comparable, and never out of order.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct AttemptLine {
    /// The runner that made the attempt.
    #[schemars(with = "String")]
    worker: WorkerId,
    tenant: Name,
    topic: Name,
    job: JobId,
    /// 1 on the first.
    attempt: u32,
    /// Claims of the job so far, this one included.
    delivery: u64,
    /// SHA-256 of the component that ran. Null: the topic had none.
    #[serde(serialize_with = "all_digits")]
    #[schemars(with = "Option<String>")]
    component: Option<Version>,
    enqueued_us: u64,
    due_us: u64,
    claimed_us: u64,
    /// Null: its worker was lost.
    started_us: Option<u64>,
    /// Null likewise.
    ended_us: Option<u64>,
    /// From the start to the end, without what the attempt waited for a thread or a processor; as in the bill. Null likewise.
    run_us: Option<u64>,
    /// How the attempt ended: `complete`, `timed-out`, and so on; docs/reference/journal.md lists them.
    #[schemars(with = "String")]
    outcome: OutcomeKind,
    /// What follows for the job.
    #[schemars(extend("enum" = ["ack", "retry", "snooze", "release", "bury", "expire"]))]
    verdict: &'static str,
    /// What the store answered. Null: it refused, or did not answer.
    settled: Option<Settled>,
    /// Of a failure.
    reason: Option<Reason>,
    fuel: u64,
    memory_peak_bytes: u64,
    memory_kib_ms: u64,
    requests: u64,
    body_bytes: usize,
    result_bytes: usize,
    follow_ups: usize,
    follow_up_bytes: usize,
}

impl AttemptLine {
    pub(crate) const fn topic(&self) -> &Name {
        &self.topic
    }

    /// How long the attempt ran, in microseconds. `None`: its worker was lost.
    pub(crate) const fn took_us(&self) -> Option<u64> {
        self.run_us
    }

    pub(crate) const fn job(&self) -> &JobId {
        &self.job
    }
}

impl LineKind for AttemptLine {
    const FILE: &'static str = "journal";
    const SECTION: &'static str = "journal";
    const SUBJECTS: &'static str = "attempts";
    const MODE: u32 = 0o640;
}

impl From<&AttemptRecord> for AttemptLine {
    fn from(record: &AttemptRecord) -> Self {
        let AttemptRecord { claim, run, outcome, verdict, settled } = record;
        let TopicId { tenant, topic } = claim.lease.topic.clone();
        let (times, cost) = (record.times_us(), record.cost());
        Self {
            worker: claim.lease.worker.clone(),
            tenant,
            topic,
            job: claim.lease.job.clone(),
            attempt: claim.attempt,
            delivery: claim.lease.delivery,
            component: run.and_then(|run| run.version),
            enqueued_us: micros_of(claim.job.enqueued_at),
            due_us: micros_of(claim.job.due_at),
            claimed_us: micros_of(claim.claimed_at),
            started_us: times.map(|(started, _)| started),
            ended_us: times.map(|(_, ended)| ended),
            run_us: times.map(|_| cost.run_us),
            outcome: *outcome,
            verdict: verdict.name(),
            settled: *settled,
            reason: verdict.failure().map(|failure| failure.reason),
            fuel: run.map_or(0, |run| run.fuel),
            memory_peak_bytes: run.map_or(0, |run| run.memory_peak),
            memory_kib_ms: cost.memory_kib_ms,
            requests: cost.requests,
            body_bytes: claim.job.spec.body.data.len(),
            result_bytes: verdict.result().map_or(0, |result| result.data.len()),
            follow_ups: run.map_or(0, |run| run.follow_ups),
            follow_up_bytes: run.map_or(0, |run| run.follow_up_bytes),
        }
    }
}

/// As `sha256sum` prints them.
fn all_digits<S: Serializer>(version: &Option<Version>, to: S) -> Result<S::Ok, S::Error> {
    version.map(|version| hex::encode(version.0)).serialize(to)
}
