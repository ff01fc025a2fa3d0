//! The rules of keys that have a rate.

use std::collections::BTreeMap;
use std::time::Duration;

use gristmill_core::job::{JobId, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::KeyLimits;
use gristmill_store::JobState;

use super::{Model, Record, TopicState};

/// The key of each job that has one, and until when it is delayed.
pub(super) type Keys = BTreeMap<JobId, (String, Option<Timestamp>)>;

/// What a claim knows of the keys of a topic.
pub(super) struct KeyRates<'a> {
    limits: KeyLimits,
    now: Timestamp,
    keys: &'a Keys,
    /// Of each key: which jobs are held back, and until when.
    held: BTreeMap<String, BTreeMap<JobId, Timestamp>>,
}

impl Model {
    pub(super) fn keys_of(&self, topic: &TopicId) -> Keys {
        let of_topic = self.jobs.iter().filter(|(_, record)| record.job.spec.topic == *topic);
        let keyed = of_topic.filter_map(|((_, id), record)| {
            let until = if let JobState::Delayed { until } = record.place { Some(until) } else { None };
            Some((id.clone(), (record.job.spec.options.key.clone()?, until)))
        });
        keyed.collect()
    }

    pub(in crate::model) fn is_held_back(&self, record: &Record) -> bool {
        let topic = &self.topics[&record.job.spec.topic];
        matches!(record.place, JobState::Delayed { .. }) && topic.held_back.contains(&record.job.spec.id)
    }
}

impl<'a> KeyRates<'a> {
    pub(super) fn new(limits: KeyLimits, now: Timestamp, keys: &'a Keys) -> Self {
        Self { limits, now, keys, held: BTreeMap::new() }
    }

    /// Until when the rate of its key holds back a job that is next in line; none: the job starts.
    pub(super) fn hold_back(&mut self, topic: &mut TopicState, id: &JobId) -> Option<Timestamp> {
        let (key, _) = self.keys.get(id)?;
        let was_held_back = topic.held_back.contains(id);
        let Some(rate) = self.limits.rate else {
            topic.held_back.remove(id);
            return None;
        };
        let held = self.held.entry(key.clone()).or_insert_with(|| {
            let held = self.keys.iter().filter(|(id, (of, _))| of == key && topic.held_back.contains(*id));
            let held = held.filter(|_| self.limits.max_running > 1);
            held.map(|(id, (_, until))| (id.clone(), until.unwrap_or_default())).collect()
        });
        let (now, now_us) = (self.now, self.now.as_millis() * 1000);
        let full_at = topic.key_full_at.entry(key.clone()).or_default();
        *full_at = rate.full_again(*full_at, now_us, 0);
        let others = held.keys().any(|other| other != id);
        if rate.allowed(*full_at, now_us) > 0 && (was_held_back || !others) {
            *full_at = rate.full_again(*full_at, now_us, 1);
            topic.held_back.remove(id);
            held.remove(id);
            return None;
        }
        let (step, each) = (Duration::from_millis(1), Duration::from_millis(rate.time_of(1).div_ceil(1000)));
        let mut until = Timestamp::from_millis(rate.next_at(*full_at, now_us, 1).div_ceil(1000));
        let last = held.values().max().copied().filter(|_| !was_held_back).unwrap_or_default();
        if !was_held_back && !held.is_empty() {
            until = until.max(now.max(last).plus(each));
        }
        until = until.min(now.plus(KeyLimits::HELD_MAX)).max(last.plus(step)).max(now.plus(step));
        while held.values().any(|other| *other == until) {
            until = until.plus(step);
        }
        topic.held_back.insert(id.clone());
        held.insert(id.clone(), until);
        Some(until)
    }
}
