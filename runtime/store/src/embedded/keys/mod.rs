//! Jobs that share a key: which of them hold its slots, and which wait for one.

pub(super) mod key_rates;
pub(super) mod slot;

use rusqlite::{OptionalExtension, params};

use super::fault::Done;
use super::memory::topics::Number;
use super::row::{limit as limited, priority};
use super::work::{Waiting, Work};
use gristmill_core::job::Priority;
use gristmill_core::topic::{KeyLimits, OnDead};

/// How many jobs hold a slot of a key, and whether others wait for one.
const HELD: &str = "SELECT count(*) FROM job_rows WHERE number >> 43 = ?1 AND key = ?2 AND slot > 0";

/// The jobs that have waited for a slot of a key for the longest.
const WAITING: &str = "SELECT number, priority FROM job_rows WHERE number >> 43 = ?1 AND key = ?2 AND slot = 0
                       ORDER BY number LIMIT ?3";

/// A job that waited for a slot goes to the tail of its line.
const LINE_UP: &str = "UPDATE job_rows SET number = ?2, slot = 1 WHERE number = ?1";

impl Work<'_> {
    /// The place of a job that is due and has a key: the tail of its line if it gets a slot of the key, and that before others wait for one.
    pub(super) fn wait_for_key(&mut self, topic: Number, priority: Priority, key: &str) -> Done<Waiting> {
        let slots = self.topics.get(topic).per_key.max_running;
        let held = self.slots_held(topic, key)?;
        if held == 0 || held < slots && !self.some_wait(topic, key)? {
            return Ok(Waiting { slot: Some(true), ..self.line_up(topic, priority)? });
        }
        let number = self.place_beside(topic)?;
        let changed = self.topics.change(topic);
        changed.ready += 1;
        changed.waiting_for_key += 1;
        changed.used = true;
        Ok(Waiting { number, until: None, slot: Some(false) })
    }

    /// The row of a job that held a slot of the key is gone, or holds it no longer: those that have waited for the longest line up.
    pub(super) fn free_slot(&mut self, topic: Number, key: &str) -> Done<()> {
        let slots = self.topics.get(topic).per_key.max_running;
        let held = self.slots_held(topic, key)?;
        let mut waiting = self.connection.prepare_cached(WAITING)?;
        let free = limited(slots.saturating_sub(held) as usize);
        let next = waiting
            .query_map(params![self.topics.get(topic).number, key, free], |row| {
                Ok((row.get("number")?, priority(row)))
            })?
            .collect::<Result<Vec<(i64, _)>, _>>()?;
        for (number, priority) in next {
            let place = self.line_up(topic, priority?)?;
            self.statements.get(LINE_UP)?.execute([number, place.number])?;
            self.leave_key(topic);
            let changed = self.topics.change(topic);
            changed.ready = changed.ready.saturating_sub(1);
        }
        Ok(())
    }

    /// A job waits for its key no longer.
    pub(super) fn leave_key(&mut self, topic: Number) {
        let changed = self.topics.change(topic);
        changed.waiting_for_key = changed.waiting_for_key.saturating_sub(1);
    }

    /// Notes what a claim says of the keys of the topic.
    pub(super) fn set_key_limits(&mut self, topic: Number, limits: KeyLimits) {
        let limits = KeyLimits { rate: None, ..limits };
        if self.topics.get(topic).per_key != limits {
            self.topics.change(topic).per_key = limits;
        }
    }

    /// Whether dead jobs of the topic keep their slots.
    pub(super) fn dead_halt(&self, topic: Number) -> bool {
        self.topics.get(topic).per_key.on_dead == OnDead::Halt
    }

    fn slots_held(&mut self, topic: Number, key: &str) -> Done<u32> {
        let number = self.topics.get(topic).number;
        Ok(self.statements.get(HELD)?.query_row(params![number, key], |row| row.get(0))?)
    }

    fn some_wait(&self, topic: Number, key: &str) -> Done<bool> {
        let mut waiting = self.connection.prepare_cached(WAITING)?;
        Ok(waiting.query_row(params![self.topics.get(topic).number, key, 1], |_| Ok(())).optional()?.is_some())
    }
}
