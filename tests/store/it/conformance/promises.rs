//! The promises of a job's life in the words in which they are made: each a story over several rules.

use std::collections::BTreeSet;
use std::time::Duration;

use gristmill_core::job::{Claim, JobId, NewJob, WorkerId};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{DeadLimits, JobState, Settled, Settlement};
use gristmill_store_tests::test_store::{
    DEAD_AFTER, LEASE, TestStore, claimed, delayed, failure, ids, job, line, retry, settlement, tenant, topic, unique,
    worker,
};

super::cases![
    at_least_once_a_job_is_never_lost_whatever_dies,
    fencing_a_worker_that_overran_its_lease_can_change_nothing,
    atomic_in_no_state_is_a_job_nowhere_or_in_two_places,
    atomic_settles_that_race_end_the_job_once,
    poison_counters_survive_crashes,
    the_stores_clock_rules_and_no_workers_does,
    bounded_recovery_a_dead_workers_jobs_are_back_after_its_silence,
    bounded_recovery_an_overrun_lease_is_back_at_its_deadline,
    drops_are_counted_and_named,
];

/// Takes back whatever is overdue, as every runner does.
async fn reap(queue: &TestStore, verdict: Verdict) -> usize {
    let overdue = queue.store.overdue(&[tenant()], DEAD_AFTER, 100).await.unwrap().jobs;
    let settle = |overdue: &gristmill_store::Overdue| Settlement {
        only_if_overdue: Some(DEAD_AFTER),
        ..Settlement::new(overdue.claim.lease.clone(), verdict.clone())
    };
    let settled = queue.store.settle(&overdue.iter().map(settle).collect::<Vec<_>>()).await.unwrap();
    assert!(settled.iter().all(|settled| *settled == Settled::Done));
    settled.len()
}

async fn at_least_once_a_job_is_never_lost_whatever_dies(queue: TestStore) {
    let jobs: Vec<NewJob> = (0..10).map(|n| delayed("mail", n % 3)).collect();
    queue.push(&jobs).await;
    let mut done = BTreeSet::new();
    for life in 0..30 {
        queue.pass(2);
        queue.migrate().await;
        let worker = WorkerId::new(&format!("life-{life}"));
        queue.heartbeat(&worker).await;
        let claims = queue.claim_as(&worker, "mail", 3).await.claims;
        // Each life acks one of what it took and dies with the others.
        if let Some(first) = claims.first() {
            assert_eq!(queue.settle(first, Verdict::Ack(None)).await, Settled::Done);
            assert!(done.insert(first.lease.job.clone()), "acked once");
        }
        queue.pass(10_000);
        assert_eq!(reap(&queue, retry(0)).await, claims.len().saturating_sub(1));
    }
    assert_eq!(done, ids(&jobs).into_iter().collect());
    assert_eq!((queue.places().await, queue.total("acked").await), ([0; 4], 10));
}

async fn fencing_a_worker_that_overran_its_lease_can_change_nothing(queue: TestStore) {
    let slow = queue.running().await;
    queue.pass(30_000);
    reap(&queue, retry(0)).await;
    let quick = queue.claim_as(&WorkerId::new("quick"), "mail", 1).await.claims.remove(0);
    let before = (queue.view(&slow.lease.job).await, queue.counts("mail").await);
    let mut late = settlement(&slow, Verdict::Ack(None));
    late.follow_ups = vec![job("mail")];
    assert_eq!(queue.settle_with(late).await, Settled::LeaseLost);
    assert_eq!(queue.store.extend(std::slice::from_ref(&slow.lease), LEASE).await.unwrap(), [false]);
    assert!(!queue.store.checkpoint(&slow.lease, b"late").await.unwrap());
    assert_eq!((queue.view(&slow.lease.job).await, queue.counts("mail").await), before);
    assert_eq!(queue.settle(&quick, Verdict::Ack(None)).await, Settled::Done);
}

async fn atomic_in_no_state_is_a_job_nowhere_or_in_two_places(queue: TestStore) {
    let in_one_place = async |what: &str| assert_eq!(queue.places().await.iter().sum::<u64>(), 1, "{what}");
    queue.push(&[delayed("mail", 1)]).await;
    in_one_place("delayed").await;
    queue.pass(1);
    queue.migrate().await;
    in_one_place("ready").await;
    for verdict in [
        retry(0),
        retry(1),
        Verdict::Snooze(Duration::from_millis(1)),
        Verdict::Release(Duration::ZERO),
        Verdict::Bury(failure(Reason::Trap)),
    ] {
        queue.pass(1);
        queue.migrate().await;
        let claim = queue.claim_one().await;
        in_one_place("running").await;
        queue.settle(&claim, verdict.clone()).await;
        in_one_place(verdict.name()).await;
        if matches!(verdict, Verdict::Bury(_)) {
            queue.store.respawn(&topic("mail"), &[claim.lease.job]).await.unwrap();
            in_one_place("respawned").await;
        }
    }
    assert_eq!(queue.claim(9).await.len(), 1, "and taken once");
}

async fn atomic_settles_that_race_end_the_job_once(queue: TestStore) {
    for _ in 0..10 {
        let claim = queue.running().await;
        let race = (0..8).map(|n| {
            let verdict = if n % 2 == 0 { Verdict::Ack(None) } else { retry(60_000) };
            let (store, mut settlement) = (queue.store.clone(), settlement(&claim, verdict));
            settlement.follow_ups = vec![job("next")];
            tokio::spawn(async move { store.settle(&[settlement]).await.unwrap().remove(0) })
        });
        let mut done = 0;
        for settled in race.collect::<Vec<_>>() {
            done += usize::from(settled.await.unwrap() == Settled::Done);
        }
        assert_eq!(done, 1);
    }
    assert_eq!(queue.total("acked").await + queue.total("retried").await, 10);
    let next = queue.claim_as(&worker(), "next", 99).await.claims.len() as u64;
    assert_eq!(next, queue.total("acked").await, "one follow-up an ack");
}

async fn poison_counters_survive_crashes(mut queue: TestStore) {
    queue.push(&[job("mail")]).await;
    for attempt in 1..=5 {
        let claim = queue.claim_one().await;
        assert_eq!((claim.attempt, claim.lease.delivery), (attempt, u64::from(attempt)));
        // The worker dies of the job without a word, and the store's owner with it.
        queue.reopen().await;
        assert_eq!(queue.view(&claim.lease.job).await.unwrap().attempts, attempt);
        queue.pass(30_000);
        assert_eq!(reap(&queue, retry(0)).await, 1);
    }
}

async fn the_stores_clock_rules_and_no_workers_does(queue: TestStore) {
    let at = queue.in_ms(1000);
    queue.push(&[delayed("mail", 1000)]).await;
    // However much time passes for this process, nothing is due before the store's clock says so.
    tokio::task::yield_now().await;
    assert_eq!(queue.migrate().await.moved, 0);
    queue.pass(1000);
    assert_eq!(queue.migrate().await.moved, 1);
    let claim = queue.claim_one().await;
    assert_eq!((claim.job.due_at, claim.claimed_at, claim.lease_until), (at, at, at.plus(LEASE)));
    queue.settle(&claim, Verdict::Bury(failure(Reason::Trap))).await;
    assert_eq!(queue.state(&claim.lease.job).await, Some(JobState::Dead { since: at }));
}

async fn bounded_recovery_a_dead_workers_jobs_are_back_after_its_silence(queue: TestStore) {
    queue.push(&[job("a"), job("b"), job("b")]).await;
    queue.heartbeat(&worker()).await;
    let claims = queue.store.claim(&worker(), &[line("a", 9), line("b", 9)]).await.unwrap().claims;
    queue.pass(9_999);
    assert_eq!(reap(&queue, retry(0)).await, 0);
    queue.pass(1);
    assert_eq!(reap(&queue, retry(0)).await, 3);
    let again = queue.store.claim(&WorkerId::new("other"), &[line("a", 9), line("b", 9)]).await.unwrap().claims;
    let set = |claims: &[Claim]| claimed(claims).into_iter().collect::<BTreeSet<JobId>>();
    assert_eq!(set(&again), set(&claims));
}

async fn bounded_recovery_an_overrun_lease_is_back_at_its_deadline(queue: TestStore) {
    queue.running().await;
    for (ms, back) in [(15_000, 0), (14_999, 0), (1, 1)] {
        queue.pass(ms);
        queue.heartbeat(&worker()).await;
        assert_eq!(reap(&queue, retry(0)).await, back);
    }
    assert_eq!(queue.claim_one().await.attempt, 2);
}

async fn drops_are_counted_and_named(queue: TestStore) {
    let expired = queue.running().await;
    queue.settle(&expired, Verdict::Expire).await;
    queue.dead().await;
    let limits = DeadLimits { topic: topic("mail"), keep: 0, retention: LEASE };
    queue.store.sweep(&[limits]).await.unwrap();
    let waiting = unique("mail", "u");
    queue.push(&[waiting.clone(), unique("mail", "u")]).await;
    queue.store.cancel(&tenant(), &[waiting.spec.id]).await.unwrap();
    for (what, n) in
        [("pushed", 3), ("expired", 1), ("dead-trap", 1), ("discarded", 1), ("duplicate", 1), ("cancelled", 1)]
    {
        assert_eq!(queue.total(what).await, n, "{what}");
    }
    // Every job that was ever pushed is accounted for.
    assert_eq!(queue.places().await, [0; 4]);
}
