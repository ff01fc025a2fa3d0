//! What is to be seen of the model.

use super::{Link, Links, Model, Record};
use gristmill_core::job::{AfterFailed, Ended, JobId, JobSpec, TopicId};
use gristmill_store::{JobState, JobView, Predecessor, TopicCounts, WaitsFor};

impl Model {
    pub(in super::super) fn waits_for(&self, id: &JobId, limit: usize) -> Option<WaitsFor> {
        let links = self.links.get(id)?;
        let jobs = links.jobs.iter().map(|(id, link)| Predecessor { id: id.clone(), ended: link.ended() });
        let mut jobs: Vec<Predecessor> = jobs.collect();
        let count =
            |counts: &dyn Fn(Ended) -> bool| jobs.iter().filter(|job| job.ended.is_some_and(counts)).count() as u64;
        let (ended, failed) = (count(&|_| true), count(&|ended| ended != Ended::Complete));
        let total = jobs.len() as u64;
        jobs.sort_by_key(|job| (job.ended.is_some(), job.ended == Some(Ended::Complete), job.id.clone()));
        jobs.truncate(limit);
        Some(WaitsFor { open: links.open, total, ended, failed, jobs })
    }

    pub(in super::super) fn waiters(&self, id: &JobId) -> Vec<JobId> {
        let waits = |links: &Links| matches!(links.jobs.get(id), Some(Link::Open | Link::Dead));
        self.links.iter().filter(|(_, links)| waits(links)).map(|(waiter, _)| waiter.clone()).collect()
    }

    /// How a claimed job ends before it runs because of the jobs that it waited for: the first of these that was not done.
    pub(in super::super) fn failed_before(&self, spec: &JobSpec) -> Option<(JobId, Ended)> {
        let waited = self.waits_for(&spec.id, usize::MAX).filter(|_| spec.options.after_failed == AfterFailed::Dead)?;
        waited.first_failed().map(|(job, ended)| (job.clone(), ended))
    }

    pub(in super::super) fn view(&self, id: &JobId) -> Option<JobView> {
        let result = self.results.get(id).cloned();
        let Some(record) = self.jobs.get(id) else {
            let (attempts, result) = result?;
            return Some(JobView { result: Some(result), ..JobView::over(id.clone(), attempts, None) });
        };
        let Record { job, state, attempts, failure, .. } = record.clone();
        Some(JobView {
            state,
            job: Some(job),
            last_failure: failure,
            result: result.map(|(_, result)| result),
            waits_for: self.waits_for(id, 10),
            ..JobView::over(id.clone(), attempts, None)
        })
    }

    pub(in super::super) fn counts(&self) -> Vec<TopicCounts> {
        let counts = self.totals.iter().map(|(topic, totals)| {
            let mut counts = TopicCounts { totals: totals.clone(), ..TopicCounts::none(topic.clone()) };
            let first = self.ready.get(topic).and_then(|line| line.first());
            counts.oldest_ready = first.map(|id| self.jobs[id].job.due_at);
            for record in self.jobs.values().filter(|record| record.job.spec.topic == *topic) {
                counts.waiting += u64::from(record.state == JobState::Waiting);
                *match record.state {
                    JobState::Ready => &mut counts.ready,
                    JobState::Delayed { .. } | JobState::Waiting => &mut counts.delayed,
                    JobState::Running { .. } => &mut counts.running,
                    JobState::Dead { .. } => &mut counts.dead,
                    JobState::Finished => unreachable!("a finished job has no record"),
                } += 1;
            }
            counts
        });
        counts.collect()
    }

    /// As lists have them: those that wait for others come last.
    pub(in super::super) fn delayed(&self, topic: &TopicId) -> Vec<JobId> {
        let of_topic = |id: &JobId| self.jobs[id].job.spec.topic == *topic;
        let waiting = self.jobs.keys().filter(|id| self.is_waiting(id)).cloned();
        self.due().into_iter().map(|(_, id)| id).chain(waiting).filter(of_topic).collect()
    }
}
