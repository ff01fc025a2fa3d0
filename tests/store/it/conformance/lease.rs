//! Leases and heartbeats: how jobs come back from workers that do not.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use gristmill_core::job::{JobId, NewJob, WorkerId};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{JobState, Overdue, Settled, Settlement};
use gristmill_store_tests::test_store::{
    DEAD_AFTER, LEASE, TestStore, claimed, failure, foreign, job, retry, settlement, tenant, worker,
};

super::cases![
    a_lease_that_ran_out_is_found_and_reaped,
    overdue_jobs_are_found_with_all_that_is_known_about_them,
    looking_for_overdue_jobs_changes_nothing,
    a_lease_that_was_extended_is_not_reaped,
    a_lease_that_was_extended_extends_no_other_of_the_same_claim,
    leases_of_a_claim_that_were_extended_together_run_out_together,
    a_lease_may_be_extended_after_it_ran_out_and_before_it_is_reaped,
    a_dead_workers_jobs_are_found_before_their_leases_run_out,
    a_worker_that_comes_back_keeps_its_jobs,
    a_worker_that_never_said_anything_is_not_dead,
    a_retired_worker_is_never_called_dead,
    a_retired_workers_jobs_come_back_with_their_leases,
    heartbeats_are_listed_until_the_worker_is_retired,
    overdue_jobs_are_found_in_bounded_numbers_and_once_each,
    overdue_jobs_are_the_tenants_own,
    overdue_jobs_of_many_tenants_are_found_together_within_the_limit,
    reaping_twice_reaps_once,
    the_owner_may_still_settle_what_is_overdue_and_not_reaped,
    a_job_that_no_worker_extended_for_a_day_is_still_overdue,
    claims_of_lists_the_jobs_of_a_worker,
    claims_of_lists_the_jobs_of_one_tenant,
    jobs_left_out_of_a_batch_of_acks_are_still_held,
    ; large:
    overdue_jobs_are_found_within_a_bound_in_bytes,
];

async fn overdue(queue: &TestStore) -> Vec<Overdue> {
    queue.store.overdue(&[tenant()], DEAD_AFTER, 100).await.unwrap().jobs
}

fn reap(overdue: &Overdue) -> Settlement {
    let lease = overdue.claim.lease.clone();
    Settlement { only_if_overdue: Some(DEAD_AFTER), ..Settlement::new(lease, retry(0)) }
}

async fn a_lease_that_ran_out_is_found_and_reaped(queue: TestStore) {
    let claim = queue.running().await;
    queue.pass(29_999);
    assert!(overdue(&queue).await.is_empty());
    queue.pass(1);
    let found = overdue(&queue).await;
    assert_eq!((found.len(), found[0].worker_died), (1, false));
    assert_eq!(queue.settle_with(reap(&found[0])).await, Settled::Done);
    assert!(overdue(&queue).await.is_empty());
    assert_eq!(queue.settle(&claim, Verdict::Ack(None)).await, Settled::LeaseLost);
    assert_eq!(queue.claim_one().await.attempt, 2);
}

async fn overdue_jobs_are_found_with_all_that_is_known_about_them(queue: TestStore) {
    let first = queue.running().await;
    queue.store.checkpoint(&first.lease, b"half").await.unwrap();
    queue.settle(&first, retry(0)).await;
    let second = queue.claim_one().await;
    queue.pass(30_000);
    let found = overdue(&queue).await.pop().unwrap().claim;
    assert_eq!((&found.job, &found.lease), (&second.job, &second.lease));
    assert_eq!((found.attempt, found.lease_until), (2, second.lease_until));
    assert_eq!((found.previous, found.checkpoint.as_deref()), (Some(Reason::Failed), Some(&b"half"[..])));
}

async fn looking_for_overdue_jobs_changes_nothing(queue: TestStore) {
    let claim = queue.running().await;
    queue.pass(30_000);
    let before = (queue.view(&claim.lease.job).await, queue.counts("mail").await);
    assert_eq!((overdue(&queue).await.len(), overdue(&queue).await.len()), (1, 1));
    assert_eq!((queue.view(&claim.lease.job).await, queue.counts("mail").await), before);
}

async fn a_lease_that_was_extended_is_not_reaped(queue: TestStore) {
    let claim = queue.running().await;
    queue.pass(29_000);
    assert_eq!(queue.store.extend(std::slice::from_ref(&claim.lease), LEASE).await.unwrap(), [true]);
    let state = JobState::Running {
        worker: worker().to_string(),
        delivery: 1,
        lease_until: queue.in_ms(30_000),
        cancelled: false,
    };
    assert_eq!(queue.state(&claim.lease.job).await, Some(state));
    queue.pass(29_999);
    assert!(overdue(&queue).await.is_empty());
    queue.pass(1);
    assert_eq!(overdue(&queue).await.len(), 1);
}

async fn a_lease_that_was_extended_extends_no_other_of_the_same_claim(queue: TestStore) {
    queue.push(&[job("mail"), job("mail"), job("mail")]).await;
    let claims = queue.claim(3).await;
    let ids = |found: &[Overdue]| found.iter().map(|overdue| overdue.claim.lease.job.clone()).collect::<BTreeSet<_>>();
    let of = |places: &[usize]| places.iter().map(|place| claims[*place].lease.job.clone()).collect::<BTreeSet<_>>();
    queue.pass(20_000);
    assert_eq!(queue.store.extend(std::slice::from_ref(&claims[1].lease), LEASE).await.unwrap(), [true]);
    queue.pass(10_000);
    let found = overdue(&queue).await;
    assert_eq!(ids(&found), of(&[0, 2]));
    assert_eq!(queue.settle_with(reap(&found[0])).await, Settled::Done);
    assert_eq!(queue.settle_with(reap(&found[1])).await, Settled::Done);
    let not_overdue = Overdue { claim: claims[1].clone(), worker_died: false };
    assert_eq!(queue.settle_with(reap(&not_overdue)).await, Settled::LeaseLost);
    queue.pass(19_999);
    assert!(overdue(&queue).await.is_empty());
    queue.pass(1);
    let found = overdue(&queue).await;
    assert_eq!((ids(&found), found[0].claim.lease_until), (of(&[1]), queue.in_ms(0)));
    assert_eq!(queue.settle(&claims[1], Verdict::Ack(None)).await, Settled::Done);
    assert!(overdue(&queue).await.is_empty());
}

async fn leases_of_a_claim_that_were_extended_together_run_out_together(queue: TestStore) {
    queue.push(&[job("mail"), job("mail")]).await;
    let leases: Vec<_> = queue.claim(2).await.into_iter().map(|claim| claim.lease).collect();
    queue.pass(10_000);
    assert_eq!(queue.store.extend(&leases[..1], LEASE).await.unwrap(), [true]);
    queue.pass(10_000);
    assert_eq!(queue.store.extend(&leases, LEASE).await.unwrap(), [true, true]);
    queue.pass(29_999);
    assert!(overdue(&queue).await.is_empty());
    queue.pass(1);
    assert_eq!(overdue(&queue).await.len(), 2);
    assert_eq!(queue.store.extend(&leases[1..], Duration::from_millis(1)).await.unwrap(), [true]);
    assert_eq!(overdue(&queue).await.len(), 1);
    queue.pass(1);
    assert_eq!(overdue(&queue).await.len(), 2, "a lease may be made shorter");
}

async fn a_lease_may_be_extended_after_it_ran_out_and_before_it_is_reaped(queue: TestStore) {
    let claim = queue.running().await;
    queue.pass(30_000);
    let found = overdue(&queue).await;
    assert_eq!(queue.store.extend(std::slice::from_ref(&claim.lease), LEASE).await.unwrap(), [true]);
    assert_eq!(queue.settle_with(reap(&found[0])).await, Settled::LeaseLost);
    assert_eq!(queue.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
}

async fn a_dead_workers_jobs_are_found_before_their_leases_run_out(queue: TestStore) {
    let alive = WorkerId::new("alive");
    queue.heartbeat(&worker()).await;
    let claim = queue.running().await;
    queue.push(&[job("mail")]).await;
    let other = queue.claim_as(&alive, "mail", 1).await.claims.pop().unwrap();
    queue.pass(9_999);
    queue.heartbeat(&alive).await;
    assert!(overdue(&queue).await.is_empty());
    queue.pass(1);
    let found = overdue(&queue).await;
    assert_eq!((found.len(), found[0].worker_died), (1, true));
    assert_eq!(found[0].claim.lease, claim.lease);
    assert_eq!(queue.settle_with(reap(&found[0])).await, Settled::Done);
    let not_overdue = Overdue { claim: other, worker_died: true };
    assert_eq!(queue.settle_with(reap(&not_overdue)).await, Settled::LeaseLost);
}

async fn a_worker_that_comes_back_keeps_its_jobs(queue: TestStore) {
    queue.heartbeat(&worker()).await;
    let claim = queue.running().await;
    queue.pass(10_000);
    let found = overdue(&queue).await;
    queue.heartbeat(&worker()).await;
    assert!(overdue(&queue).await.is_empty());
    assert_eq!(queue.settle_with(reap(&found[0])).await, Settled::LeaseLost);
    assert_eq!(queue.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
}

async fn a_worker_that_never_said_anything_is_not_dead(queue: TestStore) {
    queue.running().await;
    queue.pass(29_999);
    assert!(overdue(&queue).await.is_empty());
}

async fn a_retired_worker_is_never_called_dead(queue: TestStore) {
    queue.heartbeat(&worker()).await;
    queue.running().await;
    queue.store.retire(&worker()).await.unwrap();
    queue.store.retire(&WorkerId::new("unknown")).await.unwrap();
    queue.pass(20_000);
    assert!(overdue(&queue).await.is_empty());
}

async fn a_retired_workers_jobs_come_back_with_their_leases(queue: TestStore) {
    queue.heartbeat(&worker()).await;
    queue.running().await;
    queue.store.retire(&worker()).await.unwrap();
    queue.pass(30_000);
    let found = overdue(&queue).await;
    assert_eq!((found.len(), found[0].worker_died), (1, false));
}

async fn heartbeats_are_listed_until_the_worker_is_retired(queue: TestStore) {
    let (first, other) = (WorkerId::new("a"), WorkerId::new("b"));
    assert_eq!(queue.store.heartbeats().await.unwrap(), []);
    queue.heartbeat(&other).await;
    queue.heartbeat(&first).await;
    let [one, two] = queue.store.heartbeats().await.unwrap().try_into().unwrap();
    assert_eq!((&one.worker, &two.worker), (&first, &other));
    let early = one.at;
    queue.pass(5_000);
    queue.heartbeat(&first).await;
    let [one, two] = queue.store.heartbeats().await.unwrap().try_into().unwrap();
    assert!(
        two.silent_for >= Duration::from_secs(5) && one.silent_for < two.silent_for,
        "by the store's clock: {one:?} {two:?}"
    );
    queue.store.retire(&other).await.unwrap();
    let [one] = queue.store.heartbeats().await.unwrap().try_into().unwrap();
    assert!(one.worker == first && one.at >= early.plus(Duration::from_secs(5)), "{early} {one:?}");
}

async fn overdue_jobs_are_found_in_bounded_numbers_and_once_each(queue: TestStore) {
    queue.heartbeat(&worker()).await;
    queue.push(&(0..5).map(|_| job("mail")).collect::<Vec<_>>()).await;
    let claims = queue.claim(5).await;
    queue.pass(30_000);
    let found = overdue(&queue).await;
    let found: Vec<JobId> = found.iter().map(|overdue| overdue.claim.lease.job.clone()).collect();
    assert_eq!(found.len(), 5, "dead worker and lost lease at once");
    assert_eq!(BTreeSet::from_iter(found), BTreeSet::from_iter(claimed(&claims)));
    assert_eq!(queue.store.overdue(&[tenant()], DEAD_AFTER, 3).await.unwrap().jobs.len(), 3);
    assert!(queue.store.overdue(&[tenant()], DEAD_AFTER, 0).await.unwrap().jobs.is_empty());
}

async fn overdue_jobs_are_the_tenants_own(queue: TestStore) {
    let theirs = foreign("mail");
    queue.push(std::slice::from_ref(&theirs)).await;
    let mut line = gristmill_store_tests::test_store::line("mail", 1);
    line.topic = theirs.spec.topic.clone();
    queue.heartbeat(&worker()).await;
    queue.store.claim(&worker(), &[line]).await.unwrap();
    queue.pass(30_000);
    assert!(overdue(&queue).await.is_empty());
    let found = queue.store.overdue(std::slice::from_ref(&theirs.spec.topic.tenant), DEAD_AFTER, 9).await.unwrap().jobs;
    assert_eq!(found[0].claim.job.spec, theirs.spec);
}

async fn overdue_jobs_of_many_tenants_are_found_together_within_the_limit(queue: TestStore) {
    let theirs = foreign("mail");
    queue.push(&[job("mail"), job("mail"), theirs.clone()]).await;
    let mut line = gristmill_store_tests::test_store::line("mail", 1);
    line.topic = theirs.spec.topic.clone();
    queue.store.claim(&worker(), &[line]).await.unwrap();
    queue.claim(2).await;
    queue.pass(30_000);
    let tenants = [tenant(), "unknown".parse().unwrap(), theirs.spec.topic.tenant.clone()];
    let found = async |limit| {
        let found = queue.store.overdue(&tenants, DEAD_AFTER, limit).await.unwrap();
        assert!(found.refused.is_empty());
        found.jobs.into_iter().map(|overdue| overdue.claim.lease.topic.tenant).collect::<Vec<_>>()
    };
    let mut all = found(9).await;
    all.sort();
    let mut expected = vec![tenant(), tenant(), theirs.spec.topic.tenant.clone()];
    expected.sort();
    assert_eq!(all, expected);
    assert_eq!(found(2).await.len(), 2);
    assert!(queue.store.overdue(&[], DEAD_AFTER, 9).await.unwrap().jobs.is_empty());
}

async fn reaping_twice_reaps_once(queue: TestStore) {
    queue.running().await;
    queue.pass(30_000);
    let found = overdue(&queue).await;
    let settled = queue.store.settle(&[reap(&found[0]), reap(&found[0])]).await.unwrap();
    assert_eq!(settled, [Settled::Done, Settled::LeaseLost]);
    assert_eq!((queue.places().await, queue.total("retried").await), ([1, 0, 0, 0], 1));
}

async fn the_owner_may_still_settle_what_is_overdue_and_not_reaped(queue: TestStore) {
    let claim = queue.running().await;
    queue.pass(60_000);
    assert_eq!(queue.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    assert!(overdue(&queue).await.is_empty());
}

async fn a_job_that_no_worker_extended_for_a_day_is_still_overdue(queue: TestStore) {
    queue.heartbeat(&worker()).await;
    queue.running().await;
    queue.pass(86_400_000);
    let found = overdue(&queue).await;
    assert_eq!(found.len(), 1);
    let bury = Settlement { verdict: Verdict::Bury(failure(Reason::WorkerDied)), ..reap(&found[0]) };
    assert_eq!(queue.settle_with(bury).await, Settled::Done);
    assert_eq!(queue.total("dead-worker-died").await, 1);
}

async fn claimed_by(queue: &TestStore, except: &[JobId]) -> BTreeSet<(JobId, u64)> {
    let except: HashSet<JobId> = except.iter().cloned().collect();
    let leases = queue.store.claims_of(&tenant(), &worker(), &except).await.unwrap();
    leases.into_iter().map(|lease| (lease.job, lease.delivery)).collect()
}

async fn claims_of_lists_the_jobs_of_a_worker(queue: TestStore) {
    queue.push(&[job("mail"), job("mail"), job("mail")]).await;
    let claims = queue.claim(2).await;
    queue.claim_as(&WorkerId::new("other"), "mail", 1).await;
    let ids = claimed(&claims);
    assert_eq!(claimed_by(&queue, &[]).await, ids.iter().map(|id| (id.clone(), 1)).collect());
    assert_eq!(claimed_by(&queue, &ids[..1]).await, [(ids[1].clone(), 1)].into());
    let leases = queue.store.claims_of(&tenant(), &worker(), &HashSet::from([ids[0].clone()])).await.unwrap();
    assert_eq!(leases, [claims[1].lease.clone()]);
    queue.settle(&claims[1], Verdict::Release(Duration::ZERO)).await;
    assert!(claimed_by(&queue, &ids[..1]).await.is_empty());
    queue.claim(1).await;
    assert_eq!(claimed_by(&queue, &ids[..1]).await, [(ids[1].clone(), 2)].into(), "by its new delivery");
}

async fn overdue_jobs_are_found_within_a_bound_in_bytes(queue: TestStore) {
    let jobs: Vec<_> = (0..3).map(|_| large(9 << 20)).chain([large(17 << 20)]).collect();
    for job in &jobs {
        queue.push(std::slice::from_ref(job)).await;
        queue.claim_one().await;
    }
    queue.pass(LEASE.as_millis() as u64 + 1);
    for _ in &jobs {
        let [found] = &overdue(&queue).await[..] else { panic!("one at a time has room") };
        assert_eq!(queue.settle(&found.claim, Verdict::Ack(None)).await, Settled::Done);
    }
    assert!(overdue(&queue).await.is_empty());
}

fn large(bytes: usize) -> NewJob {
    let mut job = job("mail");
    job.spec.body.data = vec![b'x'; bytes];
    job
}

/// Acks of many jobs at once, in another order than they were claimed in.
async fn jobs_left_out_of_a_batch_of_acks_are_still_held(queue: TestStore) {
    queue.push(&(0..9).map(|_| job("mail")).collect::<Vec<_>>()).await;
    let claims = queue.claim(9).await;
    let ack = async |places: &[usize]| {
        let acks: Vec<_> = places.iter().map(|place| settlement(&claims[*place], Verdict::Ack(None))).collect();
        let settled = queue.store.settle(&acks).await.unwrap();
        assert_eq!(settled, vec![Settled::Done; places.len()]);
    };
    let left = |places: &[usize]| places.iter().map(|place| (claims[*place].lease.job.clone(), 1)).collect();
    ack(&[3, 1, 8]).await;
    assert_eq!(claimed_by(&queue, &[]).await, left(&[0, 2, 4, 5, 6, 7]));
    ack(&[7]).await;
    assert_eq!(claimed_by(&queue, &[]).await, left(&[0, 2, 4, 5, 6]));
    ack(&[6, 0, 5, 2, 4]).await;
    assert!(claimed_by(&queue, &[]).await.is_empty());
}

async fn claims_of_lists_the_jobs_of_one_tenant(queue: TestStore) {
    let claim = queue.running().await;
    let nobody = foreign("mail").spec.topic.tenant;
    assert!(queue.store.claims_of(&nobody, &worker(), &HashSet::new()).await.unwrap().is_empty());
    queue.settle_with(settlement(&claim, Verdict::Ack(None))).await;
    assert!(claimed_by(&queue, &[]).await.is_empty());
}
