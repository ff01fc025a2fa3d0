//! The end of a job: every job that ends does so in [`Work::finish`].

pub(in crate::embedded) mod how;

use std::time::Duration;

use rusqlite::params;

use crate::Signal;
use crate::clock::wait_ms;
use crate::embedded::fault::Done;
use crate::embedded::look::ended::EndRecord;
use crate::embedded::memory::topics::Number;
use crate::embedded::recordings;
use crate::embedded::results;
use crate::embedded::row::{ms, write_failure};
use crate::embedded::work::Work;
use gristmill_core::job::Ended;
use gristmill_core::outcome::Failure;
use how::{EndOptions, How};

/// A running job goes to the dead. Its count of deliveries stays with it: a respawned job is fenced by it.
const BURY: &str =
    "UPDATE job_rows SET number = ?2, dead_since = ?3, failure = ?4, lease_until = NULL, cancelled = 0, slot = ?5,
                        attempts = attempts + 1, deliveries = deliveries + 1
                    WHERE number = ?1";

impl Work<'_> {
    /// Ends a job that was counted out of its place: its row is deleted or dead, it is counted, its unique value is free,
    /// its result is kept, and clients that wait for it get a signal.
    ///
    /// `row`: `None` if it is deleted already. `key`: the key of which it held a slot, which the next job of the key gets, unless the job is dead
    /// and halts it. `options`: `None` of a dead job, which got what it asked for when it died.
    pub(in crate::embedded) fn finish(
        &mut self,
        topic: Number,
        row: Option<i64>,
        how: &How<'_>,
        key: Option<&str>,
        options: Option<&EndOptions<'_>>,
    ) -> Done<()> {
        let halts = matches!(how, How::Dead(_)) && key.is_some() && self.dead_halt(topic);
        match (how, row) {
            (How::Dead(failure), Some(row)) => self.bury(row, topic, failure, halts)?,
            (_, Some(row)) => self.delete(row)?,
            (_, None) => {}
        }
        if let Some(total) = how.total() {
            self.topics.count(topic, total, 1);
        }
        if let Some(key) = key.filter(|_| !halts) {
            self.free_slot(topic, key)?;
        }
        let Some(options) = options else { return Ok(()) };
        if matches!(how, How::Cancelled) {
            recordings::forget(self.connection, &self.topics.get(topic).id, options.job)?;
        }
        if let Some(outcome) = how.remembered() {
            self.topics.remember(
                topic,
                options.job,
                EndRecord { outcome, attempts: options.attempts, keep: options.remember },
            );
        }
        if let Some(ended) = how.ended().filter(|_| self.topics.some_links || self.links_follow) {
            let tenant = self.topics.get(topic).id.tenant.clone();
            self.note_end(&tenant, options.job, ended);
            if ended != Ended::Dead {
                self.forget_links(&tenant, options.job)?;
            }
        }
        if let Some(value) = options.unique {
            self.free(topic, value, options.job)?;
        }
        if options.keep_result.is_zero() && !options.notify {
            return Ok(());
        }
        let id = self.topics.get(topic).id.clone();
        if !options.keep_result.is_zero() {
            let until = self.now().plus(Duration::from_millis(wait_ms(options.keep_result)));
            results::keep(self.connection, &id, options, how, until)?;
        }
        if options.notify {
            self.signals.push(Signal::Finished { tenant: id.tenant, id: options.job.clone() });
        }
        Ok(())
    }

    fn bury(&mut self, row: i64, topic: Number, failure: &Failure, halts: bool) -> Done<()> {
        let stored = write_failure(failure)?;
        let place = self.place_beside(topic)?;
        self.connection.prepare_cached(BURY)?.execute(params![
            row,
            place,
            ms(self.now()),
            stored,
            halts.then_some(true)
        ])?;
        self.topics.change(topic).dead += 1;
        Ok(())
    }
}
