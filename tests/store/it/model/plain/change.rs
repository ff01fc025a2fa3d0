//! The rules of changes and cancellations of jobs.

use gristmill_core::job::{JobChange, JobId, Name, Unique};
use gristmill_store::{Cancelled, JobChanged, JobState, ResultView};

use super::{Model, Record};

impl Model {
    pub(in crate::model) fn change(&mut self, tenant: &Name, id: &JobId, change: &JobChange) -> JobChanged {
        let key = (tenant.clone(), id.clone());
        let until = match self.jobs.get(&key).map(|record| &record.place) {
            Some(JobState::Ready) => self.now,
            Some(JobState::Delayed { until }) => *until,
            _ => return JobChanged::TooLate,
        };
        let due = change.due.map(|due| self.due_at(due)).filter(|due| *due != until);
        let (now, record) = (self.now, self.jobs.get_mut(&key).unwrap());
        let priority = change.priority.filter(|priority| *priority != record.job.spec.options.priority);
        if due.is_none() && priority.is_none() {
            return JobChanged::Unchanged;
        }
        record.job.spec.options.priority = priority.unwrap_or(record.job.spec.options.priority);
        record.job.due_at = due.unwrap_or(record.job.due_at);
        let (spec, has_run) = (record.job.spec.clone(), record.deliveries > 0);
        match due {
            Some(due) => {
                self.take_out(&spec);
                if due > now {
                    self.topic(&spec.topic).held_back.remove(id);
                    if !has_run {
                        self.free_slot(&spec);
                    }
                }
                self.wait(&key, due);
            }
            // A delayed one and one that waits for its key are in no line.
            None if self.topic(&spec.topic).ready.iter().any(|line| line.contains(id)) => {
                self.take_out(&spec);
                self.topic(&spec.topic).line_up(spec.options.priority, id);
            }
            None => {}
        }
        JobChanged::Changed
    }

    pub(in crate::model) fn cancel(&mut self, tenant: &Name, id: &JobId, kill: bool) -> Cancelled {
        let key = (tenant.clone(), id.clone());
        let Some(Record { place, killed, .. }) = self.jobs.get_mut(&key) else { return Cancelled::TooLate };
        match place {
            JobState::Dead { .. } | JobState::Finished => return Cancelled::TooLate,
            JobState::Running { cancelled, .. } => {
                *cancelled = true;
                *killed |= kill;
                // A kill is signalled as both.
                self.stopping.extend(kill.then(|| key.clone()));
                self.stopping.push(key);
                return Cancelled::Stopping;
            }
            JobState::Ready | JobState::Delayed { .. } | JobState::Waiting => {}
        }
        let record = self.remove(&key);
        let spec = record.job.spec;
        self.forget_recording(&spec.topic, id);
        self.set_free(&spec.topic, spec.options.unique.as_ref().and_then(Unique::held_until_done), id);
        self.count(&spec.topic, "cancelled");
        self.finished.extend(spec.options.keep_result.map(|_| key.clone()));
        if spec.options.keep_result.is_some_and(|keep| !keep.is_zero()) {
            self.blurred.remove(&key);
            self.results.insert(key, (record.attempts, ResultView::Cancelled));
        }
        Cancelled::Gone
    }
}
