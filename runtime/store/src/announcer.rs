//! What other processes do through an HTTP server: the jobs are counted and billed, and events are emitted.

use std::sync::Arc;

use super::answers::{ClaimFrom, Claimed, Pushed};
use super::bill::BillSums;
use super::contract::Settled;
use super::inspect::{Cancelled, JobChanged};
use super::settlement::Settlement;
use gristmill_core::bill::{Cost, Day};
use gristmill_core::job::{JobChange, JobId, Name, NewJob, TopicId, WorkerId};
use gristmill_core::time::{Timestamp, millis};
use gristmill_metrics::{AttemptEnd, Event, EventKind, Metrics, TopicMeter};

/// Counts jobs, emits events, and adds up what attempts cost. Each method takes the arguments of a store operation, and its answer.
#[derive(Debug)]
pub(super) struct Announcer {
    metrics: Arc<Metrics>,
    bill: BillSums,
}

impl Announcer {
    pub(super) fn new(metrics: Arc<Metrics>, bill: BillSums) -> Self {
        Self { metrics, bill }
    }

    /// Emits an event for each of some jobs.
    fn emit_each<'a>(&self, kind: EventKind, jobs: impl Iterator<Item = (&'a TopicId, &'a JobId)>) {
        if self.metrics.events().has_subscribers() {
            jobs.for_each(|(topic, job)| self.metrics.emit(|| Event::of_job(kind, topic, job)));
        }
    }

    pub(super) fn pushed(&self, jobs: &[NewJob], pushed: &[Pushed]) {
        let stored = || {
            let stored = jobs.iter().zip(pushed).filter(|(_, pushed)| **pushed == Pushed::Stored);
            stored.map(|(job, _)| (&job.spec.topic, &job.spec.id))
        };
        // A batch is hardly ever of more than one topic.
        let mut meter: Option<(&TopicId, Arc<TopicMeter>)> = None;
        for (topic, _) in stored() {
            let known = meter.take().filter(|(known, _)| *known == topic);
            let (_, meter) = meter.insert(known.unwrap_or_else(|| (topic, self.metrics.topic(topic))));
            meter.pushed(1);
        }
        self.emit_each(EventKind::JobPushed, stored());
    }

    pub(super) fn claimed(&self, worker: &WorkerId, _from: &[ClaimFrom], claimed: &Claimed) {
        for claim in &claimed.claims {
            // The call that settles the job no longer has its body.
            let bytes_in = claim.job.spec.body.data.len() as u64;
            let cost = Cost { attempts: 1, bytes_in, ..Cost::default() };
            self.bill.add(&claim.lease.topic, Day::of(claim.claimed_at), cost);
            self.metrics.emit(|| Event {
                attempt: Some(claim.attempt),
                delivery: Some(claim.lease.delivery),
                worker: Some(worker.as_str().to_owned()),
                ..Event::of_job(EventKind::JobStarted, &claim.lease.topic, &claim.lease.job)
            });
        }
    }

    pub(super) fn settled(&self, settlements: &[Settlement], answers: &[Settled]) {
        for (settlement, settled) in settlements.iter().zip(answers) {
            let Settlement { lease, verdict, attempts, .. } = settlement;
            let bytes_out = settlement.bytes_out() as u64;
            if *settled == Settled::Done && bytes_out > 0 {
                let day = Day::of(Timestamp::now());
                self.bill.add(&lease.topic, day, Cost { bytes_out, ..Cost::default() });
            }
            self.metrics.topic(&lease.topic).ended(verdict, Some(*settled));
            let Some(kind) = EventKind::of_end(AttemptEnd::of(verdict, Some(*settled))) else { continue };
            self.metrics.emit(|| Event {
                attempt: Some(*attempts),
                delivery: Some(lease.delivery),
                worker: Some(lease.worker.as_str().to_owned()),
                reason: verdict.failure().map(|failure| failure.reason.to_string()),
                again_in_ms: verdict.again_in().map(millis),
                ..Event::of_job(kind, &lease.topic, &lease.job)
            });
        }
    }

    pub(super) fn respawned(&self, topic: &TopicId, ids: &[JobId], respawned: &[bool]) {
        let alive = ids.iter().zip(respawned).filter(|(_, respawned)| **respawned);
        self.emit_each(EventKind::JobRespawned, alive.map(|(id, _)| (topic, id)));
    }

    pub(super) fn deleted(&self, topic: &TopicId, ids: &[JobId], deleted: &[bool]) {
        let gone = ids.iter().zip(deleted).filter(|(_, deleted)| **deleted);
        self.emit_each(EventKind::JobDeleted, gone.map(|(id, _)| (topic, id)));
    }

    /// That a running job has stopped is emitted by the process that settles it.
    pub(super) fn cancelled(&self, tenant: &Name, ids: &[JobId], cancelled: &[Cancelled]) {
        self.end(tenant, ids, cancelled, "cancelled");
    }

    pub(super) fn killed(&self, tenant: &Name, ids: &[JobId], killed: &[Cancelled]) {
        self.end(tenant, ids, killed, "killed");
    }

    fn end(&self, tenant: &Name, ids: &[JobId], ended: &[Cancelled], how: &str) {
        for (id, ended) in ids.iter().zip(ended) {
            let (kind, reason) = match ended {
                Cancelled::Gone => (EventKind::JobCancelled, None),
                Cancelled::Stopping => (EventKind::JobStopping, Some(how)),
                Cancelled::TooLate => continue,
            };
            let reason = || reason.map(str::to_owned);
            self.metrics.emit(|| Event { reason: reason(), ..of_tenant(kind, tenant, id) });
        }
    }

    pub(super) fn changed(&self, tenant: &Name, ids: &[JobId], _change: &JobChange, changed: &[JobChanged]) {
        for (id, _) in ids.iter().zip(changed).filter(|(_, changed)| **changed == JobChanged::Changed) {
            self.metrics.emit(|| of_tenant(EventKind::JobChanged, tenant, id));
        }
    }

    pub(super) fn paused(&self, topic: &TopicId, paused: bool, changed: &bool) {
        if *changed {
            let kind = if paused { EventKind::TopicPaused } else { EventKind::TopicResumed };
            self.metrics.emit(|| Event::of_topic(kind, topic));
        }
    }
}

/// An event about a job whose topic is not known.
fn of_tenant(kind: EventKind, tenant: &Name, job: &JobId) -> Event {
    Event { tenant: Some(tenant.clone()), job: Some(job.clone()), ..Event::new(kind) }
}
