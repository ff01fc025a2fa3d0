//! A clock that was set: in one transaction, what waits is moved by the step, so that it waits for as long as before. What was asked for at a
//! point in time waits for that.

use rusqlite::{Connection, OptionalExtension};

use crate::clock::NEVER;
use crate::clock_step::{Followed, Move};
use crate::embedded::fault::{Done, Fault};
use crate::embedded::row::ms;
use gristmill_core::time::Timestamp;

/// Every time that the store has made of a wait, or noted as past: ?1 is the step in ms, ?2 the time from now on, ?3 a time that never comes;
/// what is known to have been made at ?4 or earlier is moved by ?5 instead. That is known of jobs that were never claimed: what a job
/// waits for was made when it was pushed.
///
/// Not the time that a producer named for a job, as long as the job waits for that. `enqueued_at` is also moved: how long ago it was
/// stays true, and so does the time at which a job expires. What a limit keeps in line is looked at again: a budget starts anew with an hour or a day of
/// the new clock, and that may be now.
const MOVE: &[&str] = &[
    "UPDATE uniques SET until = until + CASE WHEN EXISTS (SELECT 1 FROM job_rows
             WHERE id = holder AND job_rows.number >> 43 = topic_number AND enqueued_at <= ?4) THEN ?5 ELSE ?1 END
         WHERE until IS NOT NULL",
    "UPDATE job_rows SET
         due_at = CASE WHEN fixed = 1 AND delayed_until IN (due_at, ?3) THEN due_at
                       ELSE max(due_at + CASE WHEN deliveries = 0 AND enqueued_at <= ?4 THEN ?5 ELSE ?1 END, 0) END,
         delayed_until = CASE WHEN delayed_until = ?3 OR (fixed = 1 AND delayed_until = due_at) THEN delayed_until
                              ELSE max(delayed_until + CASE WHEN deliveries = 0 AND enqueued_at <= ?4 THEN ?5 ELSE ?1 END, 0) END,
         enqueued_at = max(enqueued_at + CASE WHEN enqueued_at <= ?4 THEN ?5 ELSE ?1 END, 0),
         dead_since = max(dead_since + CASE WHEN dead_since <= ?4 THEN ?5 ELSE ?1 END, 0),
         lease_until = lease_until + ?1",
    "UPDATE batches SET lease_until = lease_until + ?1",
    "UPDATE topics SET rate_full_at = max(rate_full_at + 1000 * ?1, 0), changed_at = min(max(changed_at + ?1, 0), ?2),
         limited_until = CASE WHEN limited_until < 0 THEN limited_until ELSE min(max(limited_until + ?1, 0), ?2) END",
    "UPDATE topics SET next_due = (SELECT min(delayed_until) FROM job_rows
                                   WHERE job_rows.number >> 43 = topics.number AND delayed_until < ?3) WHERE delayed > 0",
    "UPDATE key_rates SET full_at = max(full_at + 1000 * ?1, 0)",
    "UPDATE results SET until = until + ?1",
    "UPDATE states SET until = until + ?1",
    "UPDATE ended SET at = max(at + CASE WHEN at <= ?4 THEN ?5 ELSE ?1 END, 0), until = until + CASE WHEN at <= ?4 THEN ?5 ELSE ?1 END",
    "UPDATE pauses SET since = max(since + CASE WHEN since <= ?4 THEN ?5 ELSE ?1 END, 0)",
    "UPDATE workers SET seen = min(max(seen + ?1, 0), ?2)",
    "UPDATE bill_entries SET until = until + ?1",
];

const LAST: &str = "SELECT value FROM installation WHERE name = 'clock'";
const NOTE: &str =
    "INSERT INTO installation (name, value) VALUES ('clock', ?1) ON CONFLICT DO UPDATE SET value = excluded.value";

/// Moves what waits, in a transaction that the caller has begun.
pub(in crate::embedded) fn move_waits(connection: &Connection, moves: Move, now: Timestamp) -> Done<()> {
    for sql in MOVE {
        let mut update = connection.prepare(sql)?;
        let values = [moves.ms, ms(now), ms(NEVER), ms(moves.earlier), moves.earlier_ms];
        let wanted = update.parameter_count();
        for (place, value) in values.into_iter().enumerate().take(wanted) {
            update.raw_bind_parameter(place + 1, value)?;
        }
        update.raw_execute()?;
    }
    Ok(())
}

/// The step that the clock made last. None also of one that cannot be read: then it is as if it were long ago.
pub(in crate::embedded) fn last_step(connection: &Connection) -> Done<Option<Followed>> {
    let text: Option<String> = connection.query_row(LAST, [], |row| row.get(0)).optional()?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Notes the step in the caller's transaction.
pub(in crate::embedded) fn note_step(connection: &Connection, step: &Followed) -> Done<()> {
    let text = serde_json::to_string(step).map_err(|error| Fault::Refused(error.to_string()))?;
    Ok(connection.execute(NOTE, [text]).map(drop)?)
}
