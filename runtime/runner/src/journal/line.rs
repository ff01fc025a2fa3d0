//! A record as one line of JSON. Its fields are documented in `docs/journal.md`.

use serde::Serialize;

use super::super::line_file::Line;
use super::super::record::{AttemptRecord, micros_of};
use gristmill_core::job::{JobId, Name, TopicId, WorkerId};
use gristmill_core::outcome::{OutcomeKind, Reason, Settled};

/// What a line says. Names and figures only: while it waits to be written it keeps no body and no result in memory.
///
/// Times begin with the store's clock at the claim and go on with the monotonic one: comparable, and never out of order.
#[derive(Debug, Serialize)]
pub struct AttemptLine {
    worker: WorkerId,
    tenant: Name,
    topic: Name,
    job: JobId,
    attempt: u32,
    delivery: u64,
    component: Option<String>,
    enqueued_us: u64,
    due_us: u64,
    claimed_us: u64,
    started_us: Option<u64>,
    ended_us: Option<u64>,
    outcome: OutcomeKind,
    verdict: &'static str,
    settled: Option<Settled>,
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

impl Line for AttemptLine {
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
            // All 64 digits, as `sha256sum` prints them.
            component: run.and_then(|run| run.version).map(|version| hex::encode(version.0)),
            enqueued_us: micros_of(claim.job.enqueued_at),
            due_us: micros_of(claim.job.due_at),
            claimed_us: micros_of(claim.claimed_at),
            started_us: times.map(|(started, _)| started),
            ended_us: times.map(|(_, ended)| ended),
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
