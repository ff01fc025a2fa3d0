//! What a store is, said as plainly as can be: maps, queues and a clock. No store looks like this inside, and every one
//! must look like this from outside.

mod change;
mod key_rates;
mod keys;
mod states;
mod tokens;
mod topics;
mod transfer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use gristmill_core::deployment::Deployment;
use gristmill_core::job::{Claim, Due, Job, JobId, JobSpec, Lease, Name, NewJob, Priority, TopicId, Unique, WorkerId};
use gristmill_core::outcome::{Failure, Verdict};
use gristmill_core::time::Timestamp;
use gristmill_core::token::{Token, TokenId, TokenRequirement};
use gristmill_core::topic::{KeyLimits, OnDead};
use gristmill_store::{ClaimFrom, DeadLimits, JobState, Pushed, ResultView, Settled, Settlement, VersionedState};
use key_rates::KeyRates;

/// Ids are known per tenant.
pub(in crate::model) type Key = (Name, JobId);

#[derive(Debug, Clone)]
pub(in crate::model) struct Record {
    pub(in crate::model) job: Job,
    pub(in crate::model) place: JobState,
    /// It runs, and was killed.
    pub(in crate::model) killed: bool,
    pub(in crate::model) attempts: u32,
    pub(in crate::model) deliveries: u64,
    pub(in crate::model) failure: Option<Failure>,
    pub(in crate::model) checkpoint: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
pub(in crate::model) struct TopicState {
    pub(in crate::model) held_a_job: bool,
    pub(in crate::model) paused: bool,
    /// When it was paused last.
    pub(in crate::model) paused_at: Timestamp,
    /// Ready jobs in the order in which they became ready: high, normal, low.
    pub(in crate::model) ready: [VecDeque<JobId>; 3],
    turns: usize,
    /// What the last claim said.
    per_key: KeyLimits,
    /// The jobs that hold the slots of each key.
    pub(in crate::model) slots: BTreeMap<String, Vec<JobId>>,
    /// Ready jobs that wait for a slot of their key, in the order in which they became ready.
    pub(in crate::model) behind: BTreeMap<String, VecDeque<JobId>>,
    /// When the bucket of a key is full again, in microseconds.
    pub(in crate::model) key_full_at: BTreeMap<String, u64>,
    /// Jobs that the rate of their key held back, and that have not started since.
    pub(in crate::model) held_back: BTreeSet<JobId>,
    pub(in crate::model) totals: BTreeMap<String, u64>,
    /// Which job holds which unique value; none: until it is set free.
    pub(in crate::model) unique: BTreeMap<String, (JobId, Option<Timestamp>)>,
    /// Subscribers know that it has ready jobs, and no claim has found it empty since. Never of a paused topic.
    pub(in crate::model) perhaps_ready: bool,
    /// A claim has left jobs in line because as many ran as might, and no job has ended since.
    pub(in crate::model) at_limit: bool,
}

#[derive(Debug, Default)]
pub(in crate::model) struct Model {
    pub(in crate::model) now: Timestamp,
    pub(in crate::model) jobs: BTreeMap<Key, Record>,
    pub(in crate::model) topics: BTreeMap<TopicId, TopicState>,
    /// Results, and the attempts that were made.
    pub(in crate::model) results: BTreeMap<Key, (u32, ResultView)>,
    /// What the jobs of keys have left.
    pub(in crate::model) states: BTreeMap<(TopicId, String), VersionedState>,
    /// Ids that were pushed again while a result was kept: whether that is still shown is left open.
    pub(in crate::model) blurred: BTreeSet<Key>,
    heartbeats: BTreeMap<WorkerId, Timestamp>,
    /// Jobs that ended and whose producers wait for it, since this was last looked at.
    pub(in crate::model) finished: Vec<Key>,
    /// Running jobs that were cancelled or killed, since this was last looked at.
    pub(in crate::model) stopping: Vec<Key>,
    /// Jobs that came from another store, each with when it was enqueued.
    moved: BTreeMap<Key, Timestamp>,
    /// Recordings of attempts, each a byte; none of one that is gone.
    pub(in crate::model) recordings: BTreeMap<(TopicId, JobId), Option<u8>>,
    pub(in crate::model) deployments: BTreeMap<TopicId, Deployment>,
    pub(in crate::model) tokens: BTreeMap<TokenId, Token>,
    /// None: no token was ever added.
    pub(in crate::model) token_requirement: Option<TokenRequirement>,
}

impl Model {
    pub(in crate::model) fn new(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }

    fn topic(&mut self, id: &TopicId) -> &mut TopicState {
        self.topics.entry(id.clone()).or_default()
    }

    fn count(&mut self, topic: &TopicId, what: &str) {
        *self.topic(topic).totals.entry(what.to_owned()).or_default() += 1;
    }

    /// The job waits until `due`, which is now if it is past.
    fn wait(&mut self, key: &Key, due: Timestamp) {
        let ready = due <= self.now;
        let record = self.jobs.get_mut(key).unwrap();
        record.place = if ready { JobState::Ready } else { JobState::Delayed { until: due } };
        let spec = record.job.spec.clone();
        let topic = self.topic(&spec.topic);
        topic.held_a_job = true;
        if ready && spec.options.key.as_ref().is_none_or(|key| topic.take_slot(key, &spec.id)) {
            topic.line_up(spec.options.priority, &spec.id);
        }
    }

    pub(in crate::model) fn push(&mut self, new: &NewJob) -> Pushed {
        let spec = &new.spec;
        let key = (spec.topic.tenant.clone(), spec.id.clone());
        if self.jobs.contains_key(&key) {
            return Pushed::Exists;
        }
        if let Some(unique) = &spec.options.unique {
            if let Some(holder) = self.holder(&spec.topic, &unique.value) {
                self.count(&spec.topic, "duplicate");
                return Pushed::Duplicate(holder);
            }
            let until = unique.window.map(|window| self.now.plus(window));
            self.topic(&spec.topic).unique.insert(unique.value.clone(), (spec.id.clone(), until));
        }
        let due_at = self.due_at(new.due);
        let job = Job { spec: spec.clone(), enqueued_at: self.now, due_at };
        let (failure, checkpoint) = (None, None);
        let record =
            Record { job, place: JobState::Ready, killed: false, attempts: 0, deliveries: 0, failure, checkpoint };
        self.jobs.insert(key.clone(), record);
        self.topic(&spec.topic).held_back.remove(&spec.id);
        if self.results.contains_key(&key) {
            self.blurred.insert(key.clone());
        }
        self.wait(&key, due_at);
        self.count(&spec.topic, "pushed");
        Pushed::Stored
    }

    fn due_at(&self, due: Due) -> Timestamp {
        match due {
            Due::Now => self.now,
            Due::After(wait) => self.now.plus(wait),
            Due::At(at) => at.max(self.now),
        }
    }

    /// The job that holds the value.
    fn holder(&mut self, topic: &TopicId, value: &str) -> Option<JobId> {
        let now = self.now;
        let (holder, until) = self.topic(topic).unique.get(value)?;
        until.is_none_or(|until| now < until).then(|| holder.clone())
    }

    fn set_free(&mut self, topic: &TopicId, value: Option<&str>, id: &JobId) {
        let unique = &mut self.topic(topic).unique;
        let Some(value) = value else { return };
        if unique.get(value).is_some_and(|(holder, until)| holder == id && until.is_none()) {
            unique.remove(value);
        }
    }

    /// Delayed jobs of the tenant: topic, due time, id, in that order.
    pub(in crate::model) fn delayed(&self, tenant: &Name) -> Vec<(TopicId, Timestamp, JobId)> {
        let of_tenant = self.jobs.iter().filter(|((owner, _), _)| owner == tenant);
        let mut delayed: Vec<_> = of_tenant
            .filter_map(|((_, id), record)| match record.place {
                JobState::Delayed { until } => Some((record.job.spec.topic.clone(), until, id.clone())),
                _ => None,
            })
            .collect();
        delayed.sort();
        delayed
    }

    pub(in crate::model) fn delayed_in(&self, topic: &TopicId) -> usize {
        self.delayed(&topic.tenant).iter().filter(|(of, ..)| of == topic).count()
    }

    pub(in crate::model) fn due(&self, tenant: &Name) -> BTreeMap<TopicId, usize> {
        let mut due = BTreeMap::new();
        for (topic, ..) in self.delayed(tenant).into_iter().filter(|(_, until, _)| *until <= self.now) {
            *due.entry(topic).or_default() += 1;
        }
        due
    }

    /// Moves the first so many jobs of a topic.
    pub(in crate::model) fn migrate(&mut self, topic: &TopicId, moved: usize) {
        let delayed = self.delayed(&topic.tenant);
        for (_, until, id) in delayed.into_iter().filter(|(of, ..)| of == topic).take(moved) {
            assert!(until <= self.now);
            self.wait(&(topic.tenant.clone(), id), until);
        }
    }

    pub(in crate::model) fn next_due_in(&self, tenant: &Name) -> Option<Duration> {
        self.delayed(tenant).iter().map(|(_, until, _)| until.since(self.now)).min()
    }

    /// The claims of one line, and whether its topic is drained.
    pub(in crate::model) fn claim(&mut self, worker: &WorkerId, from: &ClaimFrom) -> (Vec<Claim>, bool) {
        let is_running =
            |record: &&Record| matches!(record.place, JobState::Running { .. }) && record.job.spec.topic == from.topic;
        let running = self.jobs.values().filter(is_running).count();
        let free = from.limits.max_running.map_or(usize::MAX, |most| (most as usize).saturating_sub(running));
        let max = from.max.min(free);
        let keys = self.keys_of(&from.topic);
        let (now, topic) = (self.now, self.topic(&from.topic));
        if from.max > 0 && from.limits.is_some() {
            topic.at_limit = false;
        }
        if topic.paused {
            return (Vec::new(), from.max > 0);
        }
        let (mut taken, mut held) = (Vec::new(), BTreeMap::new());
        let mut key_rates = KeyRates::new(from.limits.per_key, now, &keys);
        let in_turns =
            !topic.ready[Priority::High as usize].is_empty() || !topic.ready[Priority::Low as usize].is_empty();
        while taken.len() < max {
            let turn = if in_turns { Priority::TURNS[topic.turns % 8] } else { Priority::Normal };
            let highest = Priority::ALL.into_iter().find(|priority| !topic.ready[*priority as usize].is_empty());
            let Some(highest) = highest else { break };
            let whose = if topic.ready[turn as usize].is_empty() { highest } else { turn };
            let Some(id) = topic.ready[whose as usize].pop_front() else { break };
            if let Some(until) = key_rates.hold_back(topic, &id) {
                held.insert(id, until);
                continue;
            }
            taken.push(id);
            topic.turns += usize::from(in_turns);
        }
        if !taken.is_empty() || !held.is_empty() {
            topic.per_key = from.limits.per_key;
        }
        let is_held_back = max < from.max && taken.len() == max && topic.ready.iter().any(|line| !line.is_empty());
        let drained = taken.len() < from.max;
        topic.at_limit |= is_held_back;
        topic.perhaps_ready &= !drained || is_held_back;
        for (id, until) in held {
            self.jobs.get_mut(&(from.topic.tenant.clone(), id)).unwrap().place = JobState::Delayed { until };
        }
        let lease_until = now.plus(from.lease);
        let claims = taken.into_iter().map(|id| {
            let record = self.jobs.get_mut(&(from.topic.tenant.clone(), id)).unwrap();
            record.attempts += 1;
            record.deliveries += 1;
            record.place = JobState::Running {
                worker: worker.to_string(),
                delivery: record.deliveries,
                lease_until,
                cancelled: false,
            };
            record.claim(worker, now, lease_until)
        });
        (claims.collect(), drained)
    }

    /// The record that the lease is for, if it is good.
    fn leased(&mut self, lease: &Lease) -> Option<&mut Record> {
        let record = self.jobs.get_mut(&(lease.topic.tenant.clone(), lease.job.clone()))?;
        record.is_held_by(lease).then_some(record)
    }

    pub(in crate::model) fn holds(&self, lease: &Lease) -> bool {
        self.record_of(lease).is_some_and(|record| record.is_held_by(lease))
    }

    pub(in crate::model) fn has_job_of(&self, claim: &Claim) -> bool {
        self.record_of(&claim.lease).is_some()
    }

    fn record_of(&self, lease: &Lease) -> Option<&Record> {
        self.jobs.get(&(lease.topic.tenant.clone(), lease.job.clone()))
    }

    /// Whether no other job has had the id since.
    pub(in crate::model) fn is_of_this_life(&self, claim: &Claim) -> bool {
        self.record_of(&claim.lease).is_none_or(|record| record.job.spec == claim.job.spec)
    }

    fn is_dead(&self, worker: &str, dead_after: Duration) -> bool {
        let heartbeat = self.heartbeats.get(&WorkerId::new(worker));
        heartbeat.is_some_and(|heartbeat| heartbeat.plus(dead_after) <= self.now)
    }

    pub(in crate::model) fn settle(&mut self, settlement: &Settlement) -> Settled {
        let (now, lease) = (self.now, &settlement.lease);
        let Some(record) = self.leased(lease) else { return Settled::LeaseLost };
        let JobState::Running { lease_until, cancelled, .. } = record.place else { unreachable!() };
        if let Some(dead_after) = settlement.only_if_overdue
            && lease_until > now
            && !self.is_dead(lease.worker.as_str(), dead_after)
        {
            return Settled::LeaseLost;
        }
        self.topic(&lease.topic).at_limit = false;
        if cancelled && !matches!(settlement.verdict, Verdict::Ack(_) | Verdict::Expire) {
            self.finish(settlement, "cancelled", ResultView::Cancelled);
            self.forget_recording(&lease.topic, &lease.job);
            return Settled::Cancelled;
        }
        match &settlement.verdict {
            Verdict::Ack(payload) => {
                self.set_state(settlement);
                self.finish(settlement, "acked", ResultView::Complete(payload.clone()));
            }
            Verdict::Expire => self.finish(settlement, "expired", ResultView::Expired),
            Verdict::Bury(failure) => self.bury(settlement, failure),
            Verdict::Retry { after, failure } => {
                self.leased(lease).unwrap().failure = Some(failure.clone());
                self.put_back(lease, *after, "retried", 0);
            }
            Verdict::Snooze(after) => self.put_back(lease, *after, "snoozed", 1),
            Verdict::Release(after) => self.put_back(lease, *after, "released", 1),
        }
        if matches!(settlement.verdict, Verdict::Ack(_) | Verdict::Snooze(_)) {
            for follow_up in &settlement.follow_ups {
                self.push(follow_up);
            }
        }
        Settled::Done
    }

    fn put_back(&mut self, lease: &Lease, after: Duration, total: &str, given_back: u32) {
        self.leased(lease).unwrap().attempts -= given_back;
        let due = self.now.plus(after);
        self.wait(&(lease.topic.tenant.clone(), lease.job.clone()), due);
        self.count(&lease.topic, total);
    }

    fn bury(&mut self, settlement: &Settlement, failure: &Failure) {
        let (now, lease) = (self.now, &settlement.lease);
        let record = self.leased(lease).unwrap();
        record.failure = Some(failure.clone());
        record.place = JobState::Dead { since: now };
        let spec = record.job.spec.clone();
        if self.topic(&lease.topic).per_key.on_dead == OnDead::Continue {
            self.free_slot(&spec);
        }
        self.set_free(&lease.topic, settlement.unique.as_deref(), &lease.job);
        self.count(&lease.topic, &format!("dead-{}", failure.reason));
        self.keep(settlement, ResultView::Dead(failure.clone()));
    }

    fn finish(&mut self, settlement: &Settlement, total: &str, result: ResultView) {
        let lease = &settlement.lease;
        let record = self.jobs.remove(&(lease.topic.tenant.clone(), lease.job.clone())).unwrap();
        self.free_slot(&record.job.spec);
        self.set_free(&lease.topic, settlement.unique.as_deref(), &lease.job);
        self.count(&lease.topic, total);
        self.keep(settlement, result);
    }

    fn keep(&mut self, settlement: &Settlement, result: ResultView) {
        let key = (settlement.lease.topic.tenant.clone(), settlement.lease.job.clone());
        self.finished.extend(settlement.notify.then(|| key.clone()));
        if !settlement.keep_result.is_zero() {
            self.blurred.remove(&key);
            self.results.insert(key, (settlement.attempts, result));
        }
    }

    pub(in crate::model) fn extend(&mut self, lease: &Lease, by: Duration) -> bool {
        let until = self.now.plus(by);
        let Some(record) = self.leased(lease) else { return false };
        let JobState::Running { lease_until, .. } = &mut record.place else { unreachable!() };
        *lease_until = until;
        true
    }

    pub(in crate::model) fn checkpoint(&mut self, lease: &Lease, state: &[u8]) -> bool {
        self.leased(lease).map(|record| record.checkpoint = Some(state.to_vec())).is_some()
    }

    pub(in crate::model) fn heartbeat(&mut self, worker: &WorkerId) {
        self.heartbeats.insert(worker.clone(), self.now);
    }

    pub(in crate::model) fn retire(&mut self, worker: &WorkerId) {
        self.heartbeats.remove(worker);
    }

    /// Running jobs of the tenant by id, each with whether its worker died and whether it is overdue at all.
    pub(in crate::model) fn running(&self, tenant: &Name, dead_after: Duration) -> Vec<(Claim, bool, bool)> {
        let of_tenant = self.jobs.iter().filter(|((owner, _), _)| owner == tenant);
        let running = of_tenant.filter_map(|(_, record)| {
            let JobState::Running { worker, lease_until, .. } = &record.place else { return None };
            let died = self.is_dead(worker, dead_after);
            let claim = record.claim(&WorkerId::new(worker), self.now, *lease_until);
            Some((claim, died, died || *lease_until <= self.now))
        });
        running.collect()
    }

    /// Takes a job that is not running out of wherever it is.
    fn remove(&mut self, key: &Key) -> Record {
        let record = self.jobs.remove(key).unwrap();
        self.take_out(&record.job.spec);
        self.free_slot(&record.job.spec);
        record
    }

    /// Takes a job out of the line in which it stands.
    fn take_out(&mut self, spec: &JobSpec) {
        let topic = self.topic(&spec.topic);
        topic.ready.iter_mut().chain(topic.behind.values_mut()).for_each(|line| line.retain(|id| *id != spec.id));
    }

    pub(in crate::model) fn dead_since(&self, topic: &TopicId, id: &JobId) -> Option<Timestamp> {
        let record = self.jobs.get(&(topic.tenant.clone(), id.clone()))?;
        match record.place {
            JobState::Dead { since } if record.job.spec.topic == *topic => Some(since),
            _ => None,
        }
    }

    pub(in crate::model) fn respawn(&mut self, topic: &TopicId, id: &JobId) -> bool {
        if self.dead_since(topic, id).is_none() {
            return false;
        }
        let (now, key) = (self.now, (topic.tenant.clone(), id.clone()));
        let unique = self.jobs[&key].job.spec.options.unique.clone();
        if let Some(value) = unique.as_ref().and_then(Unique::held_until_done) {
            if self.holder(topic, value).is_some() {
                return false;
            }
            self.topic(topic).unique.insert(value.to_owned(), (id.clone(), None));
        }
        let record = self.jobs.get_mut(&key).unwrap();
        (record.attempts, record.failure, record.job.due_at) = (0, None, now);
        self.results.remove(&key);
        self.blurred.remove(&key);
        self.wait(&key, now);
        true
    }

    pub(in crate::model) fn delete_dead(&mut self, topic: &TopicId, id: &JobId) -> bool {
        let dead = self.dead_since(topic, id).is_some();
        if dead {
            self.remove(&(topic.tenant.clone(), id.clone()));
            self.forget_recording(topic, id);
        }
        dead
    }

    fn forget_recording(&mut self, topic: &TopicId, id: &JobId) {
        if let Some(recording) = self.recordings.get_mut(&(topic.clone(), id.clone())) {
            *recording = None;
        }
    }

    pub(in crate::model) fn sweep(&mut self, limits: &DeadLimits) -> u64 {
        let dead = self.dead(&limits.topic).into_iter().rev().enumerate();
        let is_over =
            |place: usize, since: Timestamp| place as u64 >= limits.keep || since.plus(limits.retention) <= self.now;
        let over: Vec<JobId> =
            dead.filter(|(place, (since, _))| is_over(*place, *since)).map(|(_, (_, id))| id).collect();
        for id in &over {
            self.delete_dead(&limits.topic, id);
            self.count(&limits.topic, "discarded");
        }
        over.len() as u64
    }
}

impl Record {
    fn is_held_by(&self, lease: &Lease) -> bool {
        let JobState::Running { worker, .. } = &self.place else { return false };
        worker == lease.worker.as_str() && self.deliveries == lease.delivery
    }

    fn claim(&self, worker: &WorkerId, claimed_at: Timestamp, lease_until: Timestamp) -> Claim {
        let (job, topic) = (self.job.spec.id.clone(), self.job.spec.topic.clone());
        Claim {
            job: self.job.clone().into(),
            lease: Lease { job, topic, worker: worker.clone(), delivery: self.deliveries, batch: None },
            attempt: self.attempts,
            claimed_at,
            lease_until,
            previous: self.failure.as_ref().map(|failure| failure.reason),
            checkpoint: self.checkpoint.clone(),
        }
    }
}
