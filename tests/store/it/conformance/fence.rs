//! Fencing: who settles names the delivery; a late one changes nothing.

use std::time::Duration;

use gristmill_core::job::WorkerId;
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{JobState, Settled, Settlement};
use gristmill_store_tests::test_store::{LEASE, TestStore, failure, job, retry, settlement, topic};

super::cases![
    a_late_settle_is_refused_and_changes_nothing,
    no_verdict_gets_past_the_fence,
    a_settle_is_taken_once,
    the_same_lease_settles_once_in_a_batch,
    another_workers_lease_is_not_ours,
    a_lease_of_an_unknown_job_is_lost,
    a_released_job_no_longer_belongs_to_its_worker,
    the_delivery_never_goes_down,
    a_lost_lease_cannot_be_extended,
    a_lease_of_another_claim_is_lost,
];

async fn a_late_settle_is_refused_and_changes_nothing(queue: TestStore) {
    let first = queue.running().await;
    queue.settle(&first, retry(0)).await;
    let second = queue.claim_one().await;

    assert_eq!(queue.settle(&first, Verdict::Ack(None)).await, Settled::LeaseLost);
    assert_eq!(queue.settle(&first, Verdict::Bury(failure(Reason::Trap))).await, Settled::LeaseLost);
    assert!(matches!(queue.state(&second.lease.job).await, Some(JobState::Running { .. })));
    assert_eq!(queue.settle(&second, Verdict::Ack(None)).await, Settled::Done);
    assert_eq!((queue.places().await, queue.total("acked").await), ([0; 4], 1));
}

async fn no_verdict_gets_past_the_fence(queue: TestStore) {
    let first = queue.running().await;
    queue.settle(&first, retry(0)).await;
    let second = queue.claim_one().await;
    let before = (queue.view(&second.lease.job).await, queue.counts("mail").await);
    let wait = Duration::from_millis(5);
    for verdict in [
        Verdict::Ack(None),
        retry(5),
        Verdict::Snooze(wait),
        Verdict::Release(wait),
        Verdict::Bury(failure(Reason::Trap)),
        Verdict::Expire,
    ] {
        let late = Settlement { keep_result: LEASE, notify: true, ..settlement(&first, verdict) };
        assert_eq!(queue.settle_with(late).await, Settled::LeaseLost);
        assert_eq!((queue.view(&second.lease.job).await, queue.counts("mail").await), before);
    }
}

async fn a_lease_of_another_claim_is_lost(queue: TestStore) {
    let mail = job("mail");
    queue.push(std::slice::from_ref(&mail)).await;
    let first = queue.claim_one().await;
    queue.settle(&first, Verdict::Ack(None)).await;
    queue.push(&[mail]).await;
    let mut second = queue.claim_one().await;
    assert_eq!(first.lease, second.lease, "the first delivery of that id to that worker, both times");
    assert!(first.lease.batch < second.lease.batch);
    assert_eq!(queue.settle(&first, Verdict::Ack(None)).await, Settled::LeaseLost);
    assert_eq!(queue.store.extend(&[first.lease], LEASE).await.unwrap(), [false]);
    second.lease.batch = None;
    assert_eq!(queue.settle(&second, Verdict::Ack(None)).await, Settled::Done, "not known, and looked up");
}

async fn a_settle_is_taken_once(queue: TestStore) {
    for verdict in [Verdict::Ack(None), Verdict::Expire, retry(1000), Verdict::Bury(failure(Reason::Trap))] {
        let claim = queue.running().await;
        assert_eq!(queue.settle(&claim, verdict.clone()).await, Settled::Done);
        let before = queue.counts("mail").await;
        assert_eq!(queue.settle(&claim, verdict.clone()).await, Settled::LeaseLost, "{}", verdict.name());
        assert_eq!(queue.counts("mail").await, before);
    }
}

async fn the_same_lease_settles_once_in_a_batch(queue: TestStore) {
    for keep_result in [Duration::ZERO, LEASE] {
        let claim = queue.running().await;
        let ack = Settlement { keep_result, ..settlement(&claim, Verdict::Ack(None)) };
        let settled = queue.store.settle(&[ack.clone(), ack]).await.unwrap();
        assert_eq!(settled, [Settled::Done, Settled::LeaseLost]);
    }
    assert_eq!(queue.total("acked").await, 2);
}

async fn another_workers_lease_is_not_ours(queue: TestStore) {
    let mut claim = queue.running().await;
    claim.lease.worker = WorkerId::new("impostor");
    assert_eq!(queue.settle(&claim, Verdict::Ack(None)).await, Settled::LeaseLost);
    assert_eq!(queue.settle(&claim, retry(0)).await, Settled::LeaseLost);
    assert_eq!(queue.store.extend(std::slice::from_ref(&claim.lease), LEASE).await.unwrap(), [false]);
    assert!(!queue.store.checkpoint(&claim.lease, b"mine").await.unwrap());
    assert_eq!(queue.places().await, [0, 0, 1, 0]);
}

async fn a_lease_of_an_unknown_job_is_lost(queue: TestStore) {
    let mut claim = queue.running().await;
    claim.lease.job = "unknown".parse().unwrap();
    for verdict in [Verdict::Ack(None), retry(0), Verdict::Bury(failure(Reason::Trap))] {
        assert_eq!(queue.settle(&claim, verdict).await, Settled::LeaseLost);
    }
    assert_eq!(queue.places().await, [0, 0, 1, 0]);
}

async fn a_released_job_no_longer_belongs_to_its_worker(queue: TestStore) {
    let claim = queue.running().await;
    queue.settle(&claim, Verdict::Release(Duration::ZERO)).await;
    assert_eq!(queue.settle(&claim, Verdict::Ack(None)).await, Settled::LeaseLost, "though nobody else has it");
    assert_eq!(queue.places().await, [1, 0, 0, 0]);
}

async fn the_delivery_never_goes_down(queue: TestStore) {
    queue.push(&[job("mail")]).await;
    let bury = || Verdict::Bury(failure(Reason::Trap));
    let verdicts = [Verdict::Snooze(Duration::ZERO), Verdict::Release(Duration::ZERO), retry(0), bury(), bury()];
    for (place, verdict) in verdicts.into_iter().enumerate() {
        let claim = queue.claim_one().await;
        assert_eq!(claim.lease.delivery, place as u64 + 1);
        let dead = matches!(verdict, Verdict::Bury(_));
        queue.settle(&claim, verdict).await;
        if dead {
            assert_eq!(queue.store.respawn(&topic("mail"), &[claim.lease.job]).await.unwrap(), [true]);
        }
    }
}

async fn a_lost_lease_cannot_be_extended(queue: TestStore) {
    let first = queue.running().await;
    queue.settle(&first, retry(0)).await;
    let second = queue.claim_one().await;
    queue.pass(10);
    let leases = [second.lease.clone(), first.lease];
    assert_eq!(queue.store.extend(&leases, LEASE).await.unwrap(), [true, false]);
    queue.settle(&second, Verdict::Ack(None)).await;
    assert_eq!(queue.store.extend(&leases, LEASE).await.unwrap(), [false, false]);
}
