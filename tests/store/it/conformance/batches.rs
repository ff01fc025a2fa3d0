//! Batches of any size: sent in bounded chunks, answered as one.

use std::time::Duration;

use super::dead::dead_jobs;
use gristmill_core::job::{Due, JobId, NewJob, Payload};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{Cancelled, Pushed, Settled, Settlement};
use gristmill_store_tests::test_store::{LEASE, TestStore, claimed, failure, ids, job, settlement, tenant, topic};

super::cases![
    a_large_batch_migrates_in_one_call,
    ; in_order:
    large_batches_arrive_whole_and_in_order,
    large_bodies_arrive_whole,
    a_job_may_have_many_follow_ups,
    large_batches_of_ids_are_answered_in_order,
];

fn jobs(n: usize) -> Vec<NewJob> {
    (0..n).map(|_| job("mail")).collect()
}

async fn large_batches_arrive_whole_and_in_order(queue: TestStore) {
    let jobs = jobs(2300);
    assert!(queue.push(&jobs).await.iter().all(|pushed| *pushed == Pushed::Stored));
    let claims = queue.claim(3000).await;
    assert_eq!(claimed(&claims), ids(&jobs));
    let leases: Vec<_> = claims.iter().map(|claim| claim.lease.clone()).collect();
    assert!(queue.store.extend(&leases, LEASE).await.unwrap().iter().all(|extended| *extended));
    let settle =
        |(n, claim)| settlement(claim, if n % 3 == 0 { Verdict::Release(Duration::ZERO) } else { Verdict::Ack(None) });
    let batch: Vec<Settlement> = claims.iter().enumerate().map(settle).collect();
    assert!(queue.store.settle(&batch).await.unwrap().iter().all(|settled| *settled == Settled::Done));
    assert_eq!((queue.places().await, queue.total("acked").await), ([767, 0, 0, 0], 1533));
}

async fn large_bodies_arrive_whole(queue: TestStore) {
    let mut jobs = jobs(3);
    for (n, job) in jobs.iter_mut().enumerate() {
        job.spec.body = Payload { data: vec![n as u8; 3 << 20], content_type: None };
    }
    queue.push(&jobs).await;
    let mut claims = Vec::new();
    for _ in &jobs {
        claims.extend(queue.claim(9).await);
    }
    assert!(claims.iter().map(|claim| &claim.job.spec).eq(jobs.iter().map(|job| &job.spec)));
}

async fn a_job_may_have_many_follow_ups(queue: TestStore) {
    let claim = queue.running().await;
    let follow_ups = jobs(1500);
    let ack = Settlement { follow_ups: follow_ups.clone(), ..settlement(&claim, Verdict::Ack(None)) };
    assert_eq!(queue.settle_with(ack).await, Settled::Done);
    assert_eq!(claimed(&queue.claim(2000).await), ids(&follow_ups));
}

async fn a_large_batch_migrates_in_one_call(queue: TestStore) {
    let mut jobs = jobs(2100);
    for job in &mut jobs {
        job.due = Due::After(Duration::from_millis(5));
    }
    queue.push(&jobs).await;
    queue.pass(5);
    assert_eq!(queue.migrate().await.moved, 2100);
    assert_eq!(queue.places().await, [2100, 0, 0, 0]);
}

async fn large_batches_of_ids_are_answered_in_order(queue: TestStore) {
    let jobs = jobs(1300);
    queue.push(&jobs).await;
    let claims = queue.claim(700).await;
    let bury: Vec<Settlement> =
        claims.iter().map(|claim| settlement(claim, Verdict::Bury(failure(Reason::Trap)))).collect();
    queue.store.settle(&bury).await.unwrap();
    let (dead, all): (Vec<JobId>, Vec<JobId>) = (claimed(&claims), ids(&jobs));
    assert_eq!(dead_jobs(&queue).await.len(), 700);
    let first_700 = |n: usize| n < 700;
    let cancelled = queue.store.cancel(&tenant(), &all).await.unwrap();
    assert!(
        cancelled
            .iter()
            .enumerate()
            .all(|(n, c)| *c == if first_700(n) { Cancelled::TooLate } else { Cancelled::Gone })
    );
    let respawned = queue.store.respawn(&topic("mail"), &all[..600]).await.unwrap();
    assert!(respawned.iter().all(|respawned| *respawned));
    let deleted = queue.store.delete_dead(&topic("mail"), &dead).await.unwrap();
    assert!(deleted.iter().enumerate().all(|(n, deleted)| *deleted == (n >= 600)));
    assert_eq!(queue.places().await, [600, 0, 0, 0]);
}
