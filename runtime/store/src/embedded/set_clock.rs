//! A clock that was set: in one transaction, what waits is moved by the step, so that it waits for as long as before. What was asked for at a
//! point in time waits for that.

use rusqlite::Connection;

use super::fault::Done;
use super::row::ms;
use crate::clock::{ClockStep, NEVER};
use gristmill_core::time::Timestamp;

/// Every time that the store has made of a wait, or noted as past: ?1 is the step in ms, ?2 the time from now on, ?3 a time that never comes.
///
/// Of jobs, not the time that a producer named, as long as the job waits for that. `enqueued_at` is moved, too: how long ago it was
/// stays true, and so does the time at which a job expires.
const MOVE: &[&str] = &[
    "UPDATE job_rows SET enqueued_at = max(enqueued_at + ?1, 0), dead_since = max(dead_since + ?1, 0), lease_until = lease_until + ?1,
         due_at = CASE WHEN fixed = 1 AND delayed_until IN (due_at, ?3) THEN due_at ELSE max(due_at + ?1, 0) END,
         delayed_until = CASE WHEN delayed_until = ?3 OR (fixed = 1 AND delayed_until = due_at) THEN delayed_until
                              ELSE max(delayed_until + ?1, 0) END",
    "UPDATE batches SET lease_until = lease_until + ?1",
    "UPDATE topics SET rate_full_at = max(rate_full_at + 1000 * ?1, 0), changed_at = min(max(changed_at + ?1, 0), ?2),
         limited_until = CASE WHEN limited_until < 0 THEN limited_until ELSE max(limited_until + ?1, 0) END",
    "UPDATE topics SET next_due = (SELECT min(delayed_until) FROM job_rows
                                   WHERE job_rows.number >> 43 = topics.number AND delayed_until < ?3) WHERE delayed > 0",
    "UPDATE key_rates SET full_at = max(full_at + 1000 * ?1, 0)",
    "UPDATE uniques SET until = until + ?1",
    "UPDATE results SET until = until + ?1",
    "UPDATE states SET until = until + ?1",
    "UPDATE ended SET at = max(at + ?1, 0), until = until + ?1",
    "UPDATE pauses SET since = max(since + ?1, 0)",
    "UPDATE workers SET seen = min(max(seen + ?1, 0), ?2)",
    "UPDATE bill_entries SET until = until + ?1",
];

/// Moves what waits, in a transaction that the caller has begun.
pub(super) fn move_waits(connection: &Connection, step: ClockStep, now: Timestamp) -> Done<()> {
    for sql in MOVE {
        let mut update = connection.prepare(sql)?;
        let values = [step.signed_ms(), ms(now), ms(NEVER)];
        let wanted = update.parameter_count();
        for (place, value) in values.into_iter().enumerate().take(wanted) {
            update.raw_bind_parameter(place + 1, value)?;
        }
        update.raw_execute()?;
    }
    Ok(())
}
