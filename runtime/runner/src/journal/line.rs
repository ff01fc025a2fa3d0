//! One record as one line of JSON. Whoever changes it changes `docs/journal.md`.
//!
//! Put together from pieces: serde_json takes about three times the instructions, many of them to look for characters to
//! escape, in field names and in values that by their types have none.

use std::time::Duration;

use super::super::record::AttemptRecord;
use gristmill_core::time::Timestamp;
use gristmill_sandbox::Version;
use gristmill_store::Settled;

/// A worker's name, which may hold anything, as JSON.
pub(super) fn quoted(worker: &str) -> String {
    serde_json::Value::from(worker).to_string()
}

/// Appends the record's line, its end included. `worker`: whose journal it is, [`quoted`]. Every field is always there.
pub(super) fn write(lines: &mut Vec<u8>, worker: &str, record: &AttemptRecord) {
    let lost_worker = record.taken_from.as_ref().map(|worker| quoted(worker.as_str()));
    // The store's clock at the claim, and from there on the monotonic one: comparable, and never out of order.
    let claimed_us = micros_of(record.claimed_at);
    let started_us = claimed_us.saturating_add(micros(record.in_hand));
    let ended_us = started_us.saturating_add(micros(record.duration));
    let ours = lost_worker.is_none();
    let component = record.version.map(hex);
    let component = component.as_ref().and_then(|hex| std::str::from_utf8(hex).ok());

    let mut line = Line(lines);
    line.json(r#"{"worker":"#, lost_worker.as_deref().unwrap_or(worker));
    line.word(r#","tenant":"#, Some(record.topic.tenant.as_str()));
    line.word(r#","topic":"#, Some(record.topic.topic.as_str()));
    line.word(r#","job":"#, Some(record.job.as_str()));
    line.number(r#","attempt":"#, u64::from(record.attempt));
    line.number(r#","delivery":"#, record.delivery);
    line.word(r#","component":"#, component);
    line.number(r#","enqueued_us":"#, micros_of(record.enqueued_at));
    line.number(r#","due_us":"#, micros_of(record.due_at));
    line.number(r#","claimed_us":"#, claimed_us);
    line.number_if(ours, r#","started_us":"#, started_us);
    line.number_if(ours, r#","ended_us":"#, ended_us);
    line.word(r#","outcome":"#, Some(record.outcome));
    line.word(r#","verdict":"#, Some(record.verdict));
    line.word(r#","settled":"#, record.settled.map(Settled::as_str));
    line.word(r#","reason":"#, record.reason.map(|reason| reason.as_str()));
    line.number(r#","fuel":"#, record.fuel);
    line.number(r#","memory_peak_bytes":"#, record.memory_peak);
    line.number(r#","body_bytes":"#, record.body_bytes as u64);
    line.number(r#","result_bytes":"#, record.result_bytes as u64);
    line.number(r#","follow_ups":"#, record.follow_ups as u64);
    line.number(r#","follow_up_bytes":"#, record.follow_up_bytes as u64);
    line.end();
}

/// Appends the line that says that `dropped` records are missing here.
pub(super) fn write_gap(lines: &mut Vec<u8>, worker: &str, dropped: u64) {
    let mut line = Line(lines);
    line.json(r#"{"worker":"#, worker);
    line.number(r#","dropped":"#, dropped);
    line.end();
}

/// A line that is being put together. Each piece begins with what leads to the value: `,"field":`.
struct Line<'a>(&'a mut Vec<u8>);

impl Line<'_> {
    fn json(&mut self, start: &str, value: &str) {
        self.0.extend_from_slice(start.as_bytes());
        self.0.extend_from_slice(value.as_bytes());
    }

    /// A value that has nothing to escape: a [`Name`](gristmill_core::job::Name), a [`JobId`](gristmill_core::job::JobId), digits, or a
    /// word of ours.
    fn word(&mut self, start: &str, value: Option<&str>) {
        let Some(value) = value else { return self.json(start, "null") };
        self.json(start, "\"");
        self.json(value, "\"");
    }

    fn number(&mut self, start: &str, value: u64) {
        self.json(start, itoa::Buffer::new().format(value));
    }

    fn number_if(&mut self, known: bool, start: &str, value: u64) {
        if known { self.number(start, value) } else { self.json(start, "null") }
    }

    fn end(self) {
        self.0.extend_from_slice(b"}\n");
    }
}

fn micros_of(time: Timestamp) -> u64 {
    time.as_millis().saturating_mul(1000)
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
