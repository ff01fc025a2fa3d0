//! Jobs that wait for each other, said as plainly as can be.

mod views;

use std::collections::BTreeMap;
use std::time::Duration;

use gristmill_core::job::{Claim, Due, Ended, Job, JobId, JobSpec, Lease, NewJob, NoLink, TopicId, WorkerId};
use gristmill_core::outcome::{Failure, Verdict};
use gristmill_core::time::Timestamp;
use gristmill_store::{BatchSealed, Cancelled, JobState, Pushed, ResultView, Settled, Settlement};

#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) job: Job,
    pub(super) state: JobState,
    attempts: u32,
    deliveries: u64,
    failure: Option<Failure>,
}

/// What a job waits for, or has waited for.
#[derive(Debug, Default)]
struct Links {
    /// It is a batch that is not sealed.
    open: bool,
    jobs: BTreeMap<JobId, Link>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Open,
    /// The job is dead, and may be respawned.
    Dead,
    Ended(Ended),
}

impl Link {
    const fn of(ended: Ended) -> Self {
        match ended {
            Ended::Dead => Self::Dead,
            ended => Self::Ended(ended),
        }
    }

    const fn ended(self) -> Option<Ended> {
        match self {
            Self::Open => None,
            Self::Dead => Some(Ended::Dead),
            Self::Ended(ended) => Some(ended),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) now: Timestamp,
    pub(super) jobs: BTreeMap<JobId, Record>,
    /// The ready jobs of each topic, as they became ready.
    pub(super) ready: BTreeMap<TopicId, Vec<JobId>>,
    /// Results that are kept, and the attempts that were made.
    pub(super) results: BTreeMap<JobId, (u32, ResultView)>,
    /// Of the jobs that said when they were pushed that they wait.
    links: BTreeMap<JobId, Links>,
    totals: BTreeMap<TopicId, BTreeMap<String, u64>>,
}

impl Model {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }

    fn count(&mut self, topic: &TopicId, what: &str) {
        *self.totals.entry(topic.clone()).or_default().entry(what.to_owned()).or_default() += 1;
    }

    fn is_waiting(&self, id: &JobId) -> bool {
        self.jobs.get(id).is_some_and(|record| record.state == JobState::Waiting)
    }

    fn waits_for_some(&self, id: &JobId) -> bool {
        self.links.get(id).is_some_and(|links| links.open || links.jobs.values().any(|link| *link == Link::Open))
    }

    /// The job waits until `due`, which is now if it is past.
    fn wait(&mut self, id: &JobId, due: Timestamp) {
        let record = self.jobs.get_mut(id).unwrap();
        if due <= self.now {
            record.state = JobState::Ready;
            self.ready.entry(record.job.spec.topic.clone()).or_default().push(id.clone());
        } else {
            record.state = JobState::Delayed { until: due };
        }
    }

    pub(super) fn push(&mut self, new: &NewJob) -> Pushed {
        self.store(new, None)
    }

    /// `enqueuer`: the job whose attempt enqueues this one.
    fn store(&mut self, new: &NewJob, enqueuer: Option<&JobId>) -> Pushed {
        let (spec, id) = (&new.spec, &new.spec.id);
        if self.jobs.contains_key(id) {
            return Pushed::Exists;
        }
        let (batch, jobs) = match self.find_links(spec, enqueuer) {
            Ok(found) => found,
            Err(no) => return Pushed::Refused(no),
        };
        if let Some(batch) = batch {
            self.links.get_mut(&batch).unwrap().jobs.insert(id.clone(), Link::Open);
        }
        if spec.options.waits() {
            self.links.insert(id.clone(), Links { open: spec.options.open, jobs });
        }
        let due_at = match new.due {
            Due::Now => self.now,
            Due::After(wait) => self.now.plus(wait),
            Due::At(at) => at.max(self.now),
        };
        let job = Job { spec: spec.clone(), enqueued_at: self.now, due_at };
        let record = Record { job, state: JobState::Waiting, attempts: 0, deliveries: 0, failure: None };
        self.jobs.insert(id.clone(), record);
        if !self.waits_for_some(id) {
            self.wait(id, due_at);
        }
        self.count(&spec.topic, "pushed");
        Pushed::Stored
    }

    /// The batch of a new job, and what it waits for. Of a follow-up job nothing is refused.
    fn find_links(
        &self,
        spec: &JobSpec,
        enqueuer: Option<&JobId>,
    ) -> Result<(Option<JobId>, BTreeMap<JobId, Link>), NoLink> {
        let follows = enqueuer.is_some();
        let mut batch = spec.options.batch.clone();
        if let Some(no) = batch.as_ref().and_then(|batch| self.no_batch(batch, follows)) {
            if !follows {
                return Err(no);
            }
            batch = None;
        }
        let mut jobs = BTreeMap::new();
        for job in &spec.options.after {
            let link = match self.find_predecessor(job, batch.as_ref(), enqueuer) {
                Err(_) if follows => Link::Ended(Ended::Unknown),
                found => found?,
            };
            jobs.insert(job.clone(), link);
        }
        Ok((batch, jobs))
    }

    fn no_batch(&self, batch: &JobId, follows: bool) -> Option<NoLink> {
        if !self.jobs.contains_key(batch) {
            return Some(NoLink::Unknown(batch.clone()));
        }
        let takes = self.is_waiting(batch) && (follows || self.links[batch].open);
        (!takes).then(|| NoLink::NotOpen(batch.clone()))
    }

    fn find_predecessor(&self, job: &JobId, batch: Option<&JobId>, enqueuer: Option<&JobId>) -> Result<Link, NoLink> {
        let link = match (self.jobs.get(job).map(|record| &record.state), self.results.get(job)) {
            // Its end is reported once its follow-up jobs are stored.
            _ if enqueuer == Some(job) => Link::Open,
            (Some(JobState::Dead { .. }), _) => Link::Dead,
            (Some(_), _) => Link::Open,
            (None, Some((_, result))) => Link::of(ended_as(result)),
            (None, None) => return Err(NoLink::Unknown(job.clone())),
        };
        if let Some(batch) = batch
            && link == Link::Open
            && self.waits_for_some(job)
            && self.links[batch].jobs.get(job) != Some(&Link::Open)
        {
            return Err(NoLink::Tangled(job.clone()));
        }
        Ok(link)
    }

    /// Notes in the jobs that wait for a job that it has ended.
    fn carry_end(&mut self, job: &JobId, ended: Ended) {
        let waiters = self.links.iter_mut().filter_map(|(waiter, links)| {
            let link = links.jobs.get_mut(job).filter(|link| **link == Link::Open)?;
            *link = Link::of(ended);
            Some(waiter.clone())
        });
        for waiter in waiters.collect::<Vec<_>>() {
            self.release(&waiter);
        }
    }

    /// Lets a job start that waits for no other any more, when it is due.
    fn release(&mut self, id: &JobId) {
        if self.is_waiting(id) && !self.waits_for_some(id) {
            let job = &mut self.jobs.get_mut(id).unwrap().job;
            job.due_at = job.due_at.max(self.now);
            let due = job.due_at;
            self.wait(id, due);
        }
    }

    pub(super) fn seal(&mut self, id: &JobId) -> BatchSealed {
        if !self.is_waiting(id) {
            return BatchSealed::NotWaiting;
        }
        if !std::mem::take(&mut self.links.get_mut(id).unwrap().open) {
            return BatchSealed::Before;
        }
        self.release(id);
        BatchSealed::Sealed
    }

    pub(super) fn due(&self) -> Vec<(Timestamp, JobId)> {
        let until = |(id, record): (&JobId, &Record)| match record.state {
            JobState::Delayed { until } => Some((until, id.clone())),
            _ => None,
        };
        let mut delayed: Vec<_> = self.jobs.iter().filter_map(until).collect();
        delayed.sort();
        delayed
    }

    /// Returns how many jobs became ready.
    pub(super) fn migrate(&mut self) -> usize {
        let mut due = self.due();
        due.retain(|(until, _)| *until <= self.now);
        for (until, id) in &due {
            self.wait(id, *until);
        }
        due.len()
    }

    pub(super) fn claim(&mut self, topic: &TopicId, max: usize, worker: &WorkerId, lease: Duration) -> Vec<Claim> {
        let line = self.ready.entry(topic.clone()).or_default();
        let taken: Vec<JobId> = line.drain(..max.min(line.len())).collect();
        let (claimed_at, lease_until) = (self.now, self.now.plus(lease));
        let claims = taken.into_iter().map(|id| {
            let record = self.jobs.get_mut(&id).unwrap();
            record.attempts += 1;
            record.deliveries += 1;
            let delivery = record.deliveries;
            record.state = JobState::Running { worker: worker.to_string(), delivery, lease_until, cancelled: false };
            Claim {
                job: record.job.clone().into(),
                lease: Lease { job: id, topic: topic.clone(), worker: worker.clone(), delivery, batch: None },
                attempt: record.attempts,
                claimed_at,
                lease_until,
                previous: record.failure.as_ref().map(|failure| failure.reason),
                checkpoint: None,
            }
        });
        claims.collect()
    }

    pub(super) fn holds(&self, lease: &Lease) -> bool {
        let state = self.jobs.get(&lease.job).map(|record| &record.state);
        matches!(state, Some(JobState::Running { delivery, .. }) if *delivery == lease.delivery)
    }

    pub(super) fn settle(&mut self, settlement: &Settlement) -> Settled {
        let Settlement { lease: Lease { job, topic, .. }, verdict, .. } = settlement;
        if !self.holds(&settlement.lease) {
            return Settled::LeaseLost;
        }
        let is_cancelled = matches!(self.jobs[job].state, JobState::Running { cancelled: true, .. });
        if is_cancelled && !matches!(verdict, Verdict::Ack(_) | Verdict::Expire) {
            self.finish(job, "cancelled", settlement.keep_result, ResultView::Cancelled);
            self.carry_end(job, Ended::Cancelled);
            return Settled::Cancelled;
        }
        let (now, record) = (self.now, self.jobs.get_mut(job).unwrap());
        let ended = match verdict {
            Verdict::Ack(payload) => {
                self.finish(job, "acked", settlement.keep_result, ResultView::Complete(payload.clone()));
                Some(Ended::Complete)
            }
            Verdict::Expire => {
                self.finish(job, "expired", settlement.keep_result, ResultView::Expired);
                Some(Ended::Expired)
            }
            Verdict::Bury(failure) => {
                (record.failure, record.state) = (Some(failure.clone()), JobState::Dead { since: now });
                let attempts = record.attempts;
                self.count(topic, &format!("dead-{}", failure.reason));
                self.keep(job, settlement.keep_result, attempts, ResultView::Dead(failure.clone()));
                Some(Ended::Dead)
            }
            Verdict::Retry { after, failure } => {
                record.failure = Some(failure.clone());
                self.put_back(job, topic, *after, "retried");
                None
            }
            Verdict::Snooze(after) | Verdict::Release(after) => {
                record.attempts -= 1;
                let total = if matches!(verdict, Verdict::Snooze(_)) { "snoozed" } else { "released" };
                self.put_back(job, topic, *after, total);
                None
            }
        };
        if matches!(verdict, Verdict::Ack(_) | Verdict::Snooze(_)) {
            for follow_up in &settlement.follow_ups {
                self.store(follow_up, Some(job));
            }
        }
        if let Some(ended) = ended {
            self.carry_end(job, ended);
        }
        Settled::Done
    }

    fn put_back(&mut self, job: &JobId, topic: &TopicId, after: Duration, total: &str) {
        self.wait(job, self.now.plus(after));
        self.count(topic, total);
    }

    /// The job is gone. Its waiters are updated by [`Model::carry_end`].
    fn finish(&mut self, job: &JobId, total: &str, keep: Duration, result: ResultView) {
        let record = self.jobs.remove(job).unwrap();
        self.links.remove(job);
        self.count(&record.job.spec.topic, total);
        self.keep(job, keep, record.attempts, result);
    }

    fn keep(&mut self, job: &JobId, keep: Duration, attempts: u32, result: ResultView) {
        if !keep.is_zero() {
            self.results.insert(job.clone(), (attempts, result));
        }
    }

    pub(super) fn cancel(&mut self, id: &JobId) -> Cancelled {
        match self.jobs.get_mut(id).map(|record| &mut record.state) {
            None | Some(JobState::Dead { .. } | JobState::Finished) => return Cancelled::TooLate,
            Some(JobState::Running { cancelled, .. }) => {
                *cancelled = true;
                return Cancelled::Stopping;
            }
            Some(JobState::Ready | JobState::Delayed { .. } | JobState::Waiting) => {}
        }
        self.ready.values_mut().for_each(|line| line.retain(|ready| ready != id));
        let keep = self.jobs[id].job.spec.options.keep_result.unwrap_or_default();
        self.finish(id, "cancelled", keep, ResultView::Cancelled);
        self.carry_end(id, Ended::Cancelled);
        Cancelled::Gone
    }

    /// The dead jobs of a topic, those that died first in front.
    pub(super) fn dead(&self, topic: &TopicId) -> Vec<JobId> {
        let dead = self.jobs.iter().filter_map(|(id, record)| match record.state {
            JobState::Dead { since } if record.job.spec.topic == *topic => Some((since, id.clone())),
            _ => None,
        });
        let mut dead: Vec<_> = dead.collect();
        dead.sort();
        dead.into_iter().map(|(_, id)| id).collect()
    }

    /// Those that wait count it anew.
    pub(super) fn respawn(&mut self, topic: &TopicId, id: &JobId) -> bool {
        if !self.dead(topic).contains(id) {
            return false;
        }
        let (now, record) = (self.now, self.jobs.get_mut(id).unwrap());
        (record.attempts, record.failure, record.job.due_at, record.state) = (0, None, now, JobState::Waiting);
        self.results.remove(id);
        self.change_links_to(id, Link::Dead, Link::Open);
        if !self.waits_for_some(id) {
            self.wait(id, now);
        }
        true
    }

    fn change_links_to(&mut self, job: &JobId, from: Link, to: Link) {
        for links in self.links.values_mut() {
            links.jobs.get_mut(job).into_iter().filter(|link| **link == from).for_each(|link| *link = to);
        }
    }

    /// It has ended for good.
    pub(super) fn delete_dead(&mut self, topic: &TopicId, id: &JobId) -> bool {
        let is_dead = self.dead(topic).contains(id);
        if is_dead {
            self.jobs.remove(id);
            self.links.remove(id);
            self.change_links_to(id, Link::Dead, Link::Ended(Ended::Dead));
        }
        is_dead
    }

    pub(super) fn sweep(&mut self, topic: &TopicId, keep: u64) -> u64 {
        let dead = self.dead(topic);
        let over = dead.len().saturating_sub(keep as usize);
        for id in &dead[..over] {
            self.delete_dead(topic, id);
            self.count(topic, "discarded");
        }
        over as u64
    }
}

fn ended_as(result: &ResultView) -> Ended {
    match result {
        ResultView::Complete(_) => Ended::Complete,
        ResultView::Dead(_) => Ended::Dead,
        ResultView::Expired => Ended::Expired,
        ResultView::Cancelled => Ended::Cancelled,
    }
}
