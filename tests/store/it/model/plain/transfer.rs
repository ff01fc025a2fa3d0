//! The rules of moves from one store to another.

use gristmill_core::job::{Job, JobId, TopicId, Unique};
use gristmill_store::{Imported, JobState, StoredJob, StoredPlace};

use super::{Key, Model, Record};

impl Model {
    /// Stores a job of another store as it is there.
    pub(in crate::model) fn import(&mut self, stored: &StoredJob) -> Imported {
        let spec = &stored.job.spec;
        let key = (spec.topic.tenant.clone(), spec.id.clone());
        if self.moved.get(&key) == Some(&stored.job.enqueued_at) {
            return Imported::Before;
        }
        if self.jobs.contains_key(&key) {
            return Imported::IdTaken;
        }
        self.moved.insert(key.clone(), stored.job.enqueued_at);
        self.take_unique(stored);
        let record = Record {
            job: stored.job.clone(),
            place: match stored.place {
                StoredPlace::Ready => JobState::Ready,
                StoredPlace::Delayed { until } => JobState::Delayed { until },
                StoredPlace::Dead { since } => JobState::Dead { since },
            },
            killed: false,
            attempts: stored.attempts,
            deliveries: stored.deliveries,
            failure: stored.last_failure.clone(),
            checkpoint: stored.checkpoint.clone(),
        };
        self.jobs.insert(key.clone(), record);
        self.topic(&spec.topic).held_a_job = true;
        self.topic(&spec.topic).held_back.remove(&spec.id);
        if let Some(key) = spec.options.key.as_ref().filter(|_| stored.holds_slot) {
            self.topic(&spec.topic).slots.entry(key.clone()).or_default().push(spec.id.clone());
        }
        if self.results.contains_key(&key) {
            self.blurred.insert(key.clone());
        }
        if stored.place == StoredPlace::Ready {
            self.wait(&key, self.now);
        }
        Imported::Stored
    }

    /// A value that is free goes to the job, if the job held it where it comes from.
    fn take_unique(&mut self, stored: &StoredJob) {
        let Job { spec, .. } = &stored.job;
        let Some(Unique { value, window }) = &spec.options.unique else { return };
        let until = stored.unique_for.map(|left| self.now.plus(left));
        let held = if window.is_some() { until.is_some() } else { !matches!(stored.place, StoredPlace::Dead { .. }) };
        if held && self.holder(&spec.topic, value).is_none() {
            self.topic(&spec.topic).unique.insert(value.clone(), (spec.id.clone(), until));
        }
    }

    pub(in crate::model) fn remove_exported(&mut self, topic: &TopicId, id: &JobId) -> bool {
        let key = (topic.tenant.clone(), id.clone());
        let there =
            |record: &Record| record.job.spec.topic == *topic && !matches!(record.place, JobState::Running { .. });
        if !self.jobs.get(&key).is_some_and(there) {
            return false;
        }
        if let Some(unique) = self.remove(&key).job.spec.options.unique
            && self.topic(topic).unique.get(&unique.value).is_some_and(|(holder, _)| holder == id)
        {
            self.topic(topic).unique.remove(&unique.value);
        }
        self.moved.remove(&key);
        true
    }

    pub(in crate::model) fn clear_move_mark(&mut self, key: &Key) {
        self.moved.remove(key);
    }
}
