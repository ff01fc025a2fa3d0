//! One record as one line of JSON. Whoever changes it changes `docs/journal.md`.

use std::time::Duration;

use serde::Serialize;

use super::super::record::AttemptRecord;
use crate::job::WorkerId;
use crate::store::Settled;
use crate::wasm::Version;

/// Every field is always there, in this order.
#[derive(Serialize)]
struct Line<'a> {
    worker: &'a str,
    tenant: &'a str,
    topic: &'a str,
    job: &'a str,
    attempt: u32,
    delivery: u64,
    component: Option<&'a str>,
    enqueued_us: u64,
    due_us: u64,
    claimed_us: u64,
    started_us: Option<u64>,
    ended_us: Option<u64>,
    outcome: &'static str,
    verdict: &'static str,
    settled: Option<&'static str>,
    reason: Option<&'static str>,
    fuel: u64,
    memory_peak_bytes: u64,
    body_bytes: usize,
    result_bytes: usize,
    follow_ups: usize,
    follow_up_bytes: usize,
}

/// In the place of records that were not written.
#[derive(Serialize)]
struct Gap<'a> {
    worker: &'a str,
    dropped: u64,
}

/// Appends the record's line, its end included. `worker`: whose journal it is.
pub(super) fn write(lines: &mut Vec<u8>, worker: &str, record: &AttemptRecord) {
    // The store's clock at the claim, and from there on the monotonic one: comparable, and never out of order.
    let claimed_us = record.claimed_at.as_millis().saturating_mul(1000);
    let started_us = claimed_us.saturating_add(micros(record.in_hand));
    let ended_us = started_us.saturating_add(micros(record.duration));
    let ours = record.taken_from.is_none();
    let component = record.version.map(hex);
    push(
        lines,
        &Line {
            worker: record.taken_from.as_ref().map_or(worker, WorkerId::as_str),
            tenant: record.topic.tenant.as_str(),
            topic: record.topic.topic.as_str(),
            job: record.job.as_str(),
            attempt: record.attempt,
            delivery: record.delivery,
            component: component.as_ref().and_then(|hex| std::str::from_utf8(hex).ok()),
            enqueued_us: record.enqueued_at.as_millis().saturating_mul(1000),
            due_us: record.due_at.as_millis().saturating_mul(1000),
            claimed_us,
            started_us: ours.then_some(started_us),
            ended_us: ours.then_some(ended_us),
            outcome: record.outcome,
            verdict: record.verdict,
            settled: record.settled.map(Settled::as_str),
            reason: record.reason.map(|reason| reason.as_str()),
            fuel: record.fuel,
            memory_peak_bytes: record.memory_peak,
            body_bytes: record.body_bytes,
            result_bytes: record.result_bytes,
            follow_ups: record.follow_ups,
            follow_up_bytes: record.follow_up_bytes,
        },
    );
}

/// Appends the line that says that `dropped` records are missing here.
pub(super) fn write_gap(lines: &mut Vec<u8>, worker: &str, dropped: u64) {
    push(lines, &Gap { worker, dropped });
}

fn push(lines: &mut Vec<u8>, line: &impl Serialize) {
    let start = lines.len();
    match serde_json::to_writer(&mut *lines, line) {
        Ok(()) => lines.push(b'\n'),
        // Plain fields and a buffer in memory have no way to fail; half a line would be worse than none.
        Err(_) => lines.truncate(start),
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// All of it, as `sha256sum` prints it.
fn hex(version: Version) -> [u8; 64] {
    let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
    let mut text = [0; 64];
    for (pair, byte) in text.chunks_exact_mut(2).zip(version.0) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
    text
}
