//! The rules of topics that are paused or forgotten.

use gristmill_core::job::TopicId;

use super::{Model, TopicState};

impl Model {
    pub(in crate::model) fn set_paused(&mut self, topic: &TopicId, paused: bool) -> bool {
        let now = self.now;
        let topic = self.topic(topic);
        let changed = std::mem::replace(&mut topic.paused, paused) != paused;
        if changed {
            topic.paused_at = now;
            topic.perhaps_ready = !paused && topic.ready.iter().any(|line| !line.is_empty());
        }
        changed
    }

    /// Unique values that are held for a time outlive the topic, and so does what is used of the rates of keys.
    pub(in crate::model) fn forget_topic(&mut self, topic: &TopicId) -> bool {
        if self.jobs.values().any(|record| record.job.spec.topic == *topic) {
            return false;
        }
        for (_, recording) in self.recordings.iter_mut().filter(|((of, _), _)| of == topic) {
            *recording = None;
        }
        let TopicState { unique, key_full_at, .. } = std::mem::take(self.topic(topic));
        *self.topic(topic) = TopicState { unique, key_full_at, ..TopicState::default() };
        true
    }
}
