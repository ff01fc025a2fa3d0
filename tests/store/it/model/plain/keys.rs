//! The rules of jobs that share a key.

use gristmill_core::job::{JobId, JobSpec, Priority};

use super::{Model, TopicState};

impl Model {
    /// The job is gone or dead: the next ones of its key get its slot.
    pub(super) fn free_slot(&mut self, spec: &JobSpec) {
        let Some(key) = &spec.options.key else { return };
        let topic = self.topics.get_mut(&spec.topic).unwrap();
        let most = topic.per_key.max_running as usize;
        let holders = topic.slots.entry(key.clone()).or_default();
        let before = holders.len();
        holders.retain(|id| *id != spec.id);
        if holders.len() == before {
            return;
        }
        let behind = topic.behind.entry(key.clone()).or_default();
        let mut next = Vec::new();
        while holders.len() < most
            && let Some(id) = behind.pop_front()
        {
            holders.push(id.clone());
            next.push(id);
        }
        for id in next {
            let priority = self.jobs[&(spec.topic.tenant.clone(), id.clone())].job.spec.options.priority;
            topic.line_up(priority, &id);
        }
    }
}

impl TopicState {
    pub(super) fn line_up(&mut self, priority: Priority, id: &JobId) {
        self.ready[priority as usize].push_back(id.clone());
        self.perhaps_ready = !self.paused;
    }

    /// Whether the job holds a slot of its key or gets one; if not, it waits behind the others.
    pub(super) fn take_slot(&mut self, key: &str, id: &JobId) -> bool {
        let (holders, behind) =
            (self.slots.entry(key.to_owned()).or_default(), self.behind.entry(key.to_owned()).or_default());
        let is_free = holders.len() < self.per_key.max_running as usize && behind.is_empty() || holders.is_empty();
        if !holders.contains(id) && !is_free {
            behind.push_back(id.clone());
            return false;
        }
        if !holders.contains(id) {
            holders.push(id.clone());
        }
        true
    }
}
