//! What this worker has in hand: claimed, and not settled yet.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::lease;
use gristmill_core::job::{Claim, JobId, Lease, Name, Progress};
use gristmill_sandbox::AttemptControl;
use gristmill_store::Settlement;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The jobs in hand, locked once a batch. What the store counts as this worker's and is not in here was claimed by a call
/// whose reply was lost: left alone, it would wait for its lease to run out although its worker lives.
///
/// By tenant and job the delivery: one that is settled may be claimed again by this worker before the settled one is put down, and so may a follow-up
/// job that has its id.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    jobs: Mutex<HashMap<Name, HashMap<JobId, Delivery>>>,
    taken: Notify,
    /// Notified when an attempt has made progress.
    progressed: Arc<Notify>,
}

#[derive(Debug)]
struct Delivery {
    claim: Arc<Claim>,
    control: Arc<AttemptControl>,
    extend_at: Instant,
}

impl Delivery {
    /// Whether it came with this lease. The first delivery of a job is no other than that of an earlier job which had the id, but for the claim.
    fn is_of(&self, Lease { delivery, batch, .. }: &Lease) -> bool {
        (self.claim.lease.delivery, self.claim.lease.batch) == (*delivery, *batch)
    }
}

impl InFlight {
    /// Takes jobs up, and gives each what says whether it is still wanted.
    pub(super) fn take(&self, claims: Vec<Claim>) -> Vec<(Arc<Claim>, Arc<AttemptControl>)> {
        let now = Instant::now();
        let control = || Arc::new(AttemptControl::notifying(Arc::clone(&self.progressed)));
        let taken: Vec<_> = claims.into_iter().map(|claim| (Arc::new(claim), control())).collect();
        let mut jobs = self.jobs.lock();
        for of_tenant in taken.chunk_by(|(a, _), (b, _)| a.lease.topic.tenant == b.lease.topic.tenant) {
            let Some((first, _)) = of_tenant.first() else { continue };
            jobs.entry(first.lease.topic.tenant.clone()).or_default().extend(of_tenant.iter().map(
                |(claim, control)| {
                    let extend_at = now + claim.lease_until.since(claim.claimed_at) / 3;
                    let delivery = Delivery { claim: Arc::clone(claim), control: Arc::clone(control), extend_at };
                    (claim.lease.job.clone(), delivery)
                },
            ));
        }
        drop(jobs);
        self.taken.notify_one();
        taken
    }

    /// Waits until there is a job in hand. For one caller at a time. Cancel-safe.
    pub(super) async fn until_some(&self) {
        while self.jobs.lock().is_empty() {
            self.taken.notified().await;
        }
    }

    /// Waits until an attempt has made progress. For one caller at a time. Cancel-safe.
    pub(crate) async fn until_progress(&self) {
        self.progressed.notified().await;
    }

    /// The progress that attempts have made since this was asked before.
    pub(crate) fn progress(&self) -> Vec<(Lease, Progress)> {
        let jobs = self.jobs.lock();
        let jobs = jobs.values().flat_map(HashMap::values);
        jobs.filter_map(|held| Some((held.claim.lease.clone(), held.control.take_progress()?))).collect()
    }

    pub(super) fn put_down(&self, settlements: &[Settlement]) {
        let mut jobs = self.jobs.lock();
        for of_tenant in settlements.chunk_by(|a, b| a.lease.topic.tenant == b.lease.topic.tenant) {
            let Some(tenant) = of_tenant.first().map(|first| &first.lease.topic.tenant) else { continue };
            let Some(held) = jobs.get_mut(tenant) else { continue };
            for Settlement { lease, .. } in of_tenant {
                if let Some((job, other)) = held.remove_entry(&lease.job)
                    && !other.is_of(lease)
                {
                    held.insert(job, other);
                }
            }
            if held.is_empty() {
                jobs.remove(tenant);
            }
        }
    }

    /// Signals the attempt at a job that it is cancelled. Does nothing if the job is not in hand.
    pub(crate) fn cancel(&self, tenant: &Name, job: &JobId) {
        self.with(tenant, job, |held| held.control.cancel());
    }

    pub(crate) fn has(&self, tenant: &Name, job: &JobId) -> bool {
        self.with(tenant, job, |_| ()).is_some()
    }

    /// Ends the attempt at a job now. Does nothing if the delivery is not in hand.
    pub(crate) fn kill(&self, tenant: &Name, job: &JobId, delivery: u64) {
        self.with(tenant, job, |held| {
            if held.claim.lease.delivery == delivery {
                held.control.kill();
            }
        });
    }

    /// The leases of which a third is over. Not of attempts that have ended: what the store does not settle comes back.
    pub(super) fn to_extend(&self, now: Instant) -> Vec<Lease> {
        let mut jobs = self.jobs.lock();
        let jobs = jobs.values_mut().flat_map(HashMap::values_mut);
        let due = jobs.filter(|held| held.extend_at <= now && Arc::strong_count(&held.control) > 1);
        due.map(|held| {
            held.extend_at = now + lease::LONGEST / 3;
            held.claim.lease.clone()
        })
        .collect()
    }

    /// Ends the attempt whose lease is lost.
    pub(super) fn lose(&self, lease: &Lease) {
        self.with(&lease.topic.tenant, &lease.job, |held| {
            if held.is_of(lease) {
                held.control.lose_lease();
            }
        });
    }

    pub(super) fn leases(&self) -> Vec<Lease> {
        self.jobs.lock().values().flat_map(HashMap::values).map(|held| held.claim.lease.clone()).collect()
    }

    /// The jobs of a tenant.
    pub(super) fn of(&self, tenant: &Name) -> HashSet<JobId> {
        self.jobs.lock().get(tenant).map(|jobs| jobs.keys().cloned().collect()).unwrap_or_default()
    }

    /// `None` if the job is not in hand.
    fn with<T>(&self, tenant: &Name, job: &JobId, look: impl FnOnce(&Delivery) -> T) -> Option<T> {
        self.jobs.lock().get(tenant)?.get(job).map(look)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gristmill_core::job::{Job, JobSpec, Payload, TopicId, WorkerId};
    use gristmill_core::outcome::Verdict;
    use gristmill_core::time::Timestamp;

    fn claim(spec: &JobSpec, delivery: u64) -> Claim {
        let (job, topic) = (spec.id.clone(), spec.topic.clone());
        let now = Timestamp::default();
        Claim {
            job: Arc::new(Job { spec: spec.clone(), enqueued_at: now, due_at: now }),
            lease: Lease { job, topic, worker: WorkerId::new("w"), delivery, batch: None },
            attempt: 1,
            claimed_at: now,
            lease_until: now,
            previous: None,
            checkpoint: None,
        }
    }

    #[tokio::test]
    async fn what_waits_for_a_job_in_hand_learns_of_the_first_one() {
        let (in_flight, spec) = (InFlight::default(), JobSpec::new("t".parse().unwrap(), Payload::default()));
        let claim = claim(&spec, 1);
        // A job that came and went leaves nothing to learn of.
        in_flight.take(vec![claim.clone()]);
        in_flight.put_down(&[Settlement::new(claim.lease.clone(), Verdict::Ack(None))]);
        tokio::select! {
            biased;
            () = in_flight.until_some() => panic!("there is no job"),
            () = std::future::ready(()) => {}
        }
        in_flight.take(vec![claim]);
        in_flight.until_some().await;
    }

    #[test]
    fn a_job_claimed_again_stays_in_hand_when_its_earlier_delivery_is_put_down() {
        let (in_flight, spec) = (InFlight::default(), JobSpec::new("t".parse().unwrap(), Payload::default()));
        let [first, second] = [claim(&spec, 1), claim(&spec, 2)];
        let settled = |claim: &Claim| [Settlement::new(claim.lease.clone(), Verdict::Ack(None))];
        in_flight.take(vec![first.clone()]);
        in_flight.take(vec![second.clone()]);
        in_flight.put_down(&settled(&first));
        assert!(in_flight.of(&spec.topic.tenant).contains(&spec.id));
        in_flight.put_down(&settled(&second));
        assert!(in_flight.jobs.lock().is_empty());
    }

    #[test]
    fn a_job_with_the_id_of_one_that_has_ended_stays_in_hand_when_that_one_is_put_down() {
        let (in_flight, spec) = (InFlight::default(), JobSpec::new("t".parse().unwrap(), Payload::default()));
        let claim = |batch| {
            let first = claim(&spec, 1);
            Claim { lease: Lease { batch: Some(batch), ..first.lease.clone() }, ..first }
        };
        // A handler that enqueues a job of its own id, which is claimed before the answer to the settlement is here.
        let [ended, follow_up] = [claim(1), claim(2)];
        in_flight.take(vec![ended.clone()]);
        let control = in_flight.take(vec![follow_up]).pop().unwrap().1;
        in_flight.lose(&ended.lease);
        assert!(!control.is_unwanted());
        in_flight.put_down(&[Settlement::new(ended.lease, Verdict::Ack(None))]);
        assert!(in_flight.has(&spec.topic.tenant, &spec.id), "its lease is extended, and it can be cancelled");
    }

    #[test]
    fn a_lease_is_extended_from_the_claim_to_the_end_of_the_attempt() {
        let (in_flight, spec) = (InFlight::default(), JobSpec::new("t".parse().unwrap(), Payload::default()));
        let claim = Claim { lease_until: Timestamp::from_millis(9_000), ..claim(&spec, 1) };
        let mut taken = in_flight.take(vec![claim.clone()]);
        let control = taken.pop().unwrap().1;
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let count = |after| in_flight.to_extend(now + after).len();
        let third = lease::LONGEST / 3;
        assert_eq!(
            [count(Duration::ZERO), count(4 * second), count(4 * second), count(5 * second + third)],
            [0, 1, 0, 1]
        );
        in_flight.lose(&Lease { delivery: 2, ..claim.lease.clone() });
        assert!(!control.is_unwanted());
        in_flight.lose(&claim.lease);
        assert!(control.is_unwanted());
        drop(control);
        assert_eq!(count(3 * third), 0);
    }

    #[test]
    fn a_cancelled_job_is_signalled_and_not_its_namesake_of_another_tenant() {
        let (in_flight, ours) = (InFlight::default(), JobSpec::new("t".parse().unwrap(), Payload::default()));
        let theirs = JobSpec { topic: "acme/t".parse::<TopicId>().unwrap(), ..ours.clone() };
        let taken = in_flight.take(vec![claim(&ours, 1), claim(&theirs, 1)]);
        in_flight.cancel(&theirs.topic.tenant, &theirs.id);
        in_flight.cancel(&theirs.topic.tenant, &"unknown".parse().unwrap());
        let marks =
            || taken.iter().map(|(_, control)| (control.is_unwanted(), control.is_killed())).collect::<Vec<_>>();
        assert_eq!(marks(), [(false, false), (true, false)]);
        in_flight.kill(&ours.topic.tenant, &ours.id, 2);
        assert_eq!(marks(), [(false, false), (true, false)]);
        in_flight.kill(&ours.topic.tenant, &ours.id, 1);
        assert_eq!(marks(), [(true, true), (true, false)]);
    }
}
