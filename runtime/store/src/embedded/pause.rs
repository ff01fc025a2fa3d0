//! What is done to a topic as a whole: its jobs are no longer handed out, or are again; it is forgotten.

use rusqlite::params;

use super::fault::Done;
use super::memory::topics::FORGET_PAUSE;
use super::recordings;
use super::row::ms;
use super::work::Work;
use crate::Signal;
use gristmill_core::job::TopicId;

/// Notes who pauses a topic.
const NOTE_PAUSE: &str = "INSERT OR REPLACE INTO pauses (topic_number, since, actor) VALUES (?1, ?2, ?3)";

impl Work<'_> {
    pub(super) fn set_paused(&mut self, id: &TopicId, paused: bool, by: Option<&str>) -> Done<bool> {
        let found = self.topics.find(self.connection, id)?;
        if found.is_some_and(|topic| self.topics.get(topic).paused) == paused {
            return Ok(false);
        }
        let topic = self.topics.find_or_add(self.connection, id)?;
        let changed = self.topics.change(topic);
        changed.paused = paused;
        changed.active = !paused && changed.has_claimable();
        let number = changed.number;
        if changed.active {
            self.signals.push(Signal::Ready(id.clone()));
        }
        if paused {
            self.connection.prepare_cached(NOTE_PAUSE)?.execute(params![number, ms(self.now()), by])?;
        } else {
            self.connection.prepare_cached(FORGET_PAUSE)?.execute([number])?;
        }
        Ok(true)
    }

    /// Forgets a topic without jobs. Returns `false` if it has jobs.
    pub(super) fn forget_topic(&mut self, id: &TopicId) -> Done<bool> {
        let is_forgotten = match self.topics.find(self.connection, id)? {
            Some(topic) => self.topics.forget(self.connection, topic)?,
            None => true,
        };
        if is_forgotten {
            recordings::forget_all(self.connection, id)?;
        }
        Ok(is_forgotten)
    }
}
