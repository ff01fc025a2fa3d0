//! Settle: each verdict puts the job where it belongs, in one step.

use std::time::Duration;

use super::dead::dead_jobs;
use gristmill_core::job::Payload;
use gristmill_core::outcome::{Failure, FailureDetail, Reason, Verdict};
use gristmill_store::{JobState, Settled, Settlement};
use gristmill_store_tests::test_store::{
    TestStore, failure, foreign, ids, job, line, retry, settlement, tenant, topic, worker,
};

super::cases![
    an_acked_job_is_gone,
    a_retried_job_waits_and_its_attempt_counts,
    a_retry_after_no_time_is_ready_at_once,
    a_fraction_of_a_millisecond_is_waited_for_too,
    snooze_and_release_give_the_attempt_back,
    the_last_failure_stays_known_through_snooze_and_release,
    a_buried_job_is_dead_with_its_failure,
    an_expired_job_is_counted_and_gone,
    a_failure_is_kept_whole,
    when_a_job_first_became_due_is_never_forgotten,
    verdicts_of_a_batch_are_carried_out_and_answered_in_order,
    a_batch_may_be_of_many_tenants_and_workers,
    an_empty_settle_is_answered_with_nothing,
    ; in_order:
    jobs_that_end_together_leave_nothing_of_what_they_waited_for,
];

async fn an_acked_job_is_gone(queue: TestStore) {
    let claim = queue.running().await;
    assert_eq!(queue.settle(&claim, Verdict::Ack(Some(Payload::default()))).await, Settled::Done);
    assert_eq!(queue.state(&claim.lease.job).await, None);
    assert_eq!((queue.places().await, queue.total("acked").await), ([0; 4], 1));
}

async fn a_retried_job_waits_and_its_attempt_counts(queue: TestStore) {
    let claim = queue.running().await;
    queue.settle(&claim, retry(10)).await;
    assert_eq!(queue.state(&claim.lease.job).await, Some(JobState::Delayed { until: queue.in_ms(10) }));
    queue.pass(9);
    assert_eq!(queue.migrate().await.moved, 0);
    queue.pass(1);
    assert_eq!(queue.migrate().await.moved, 1);
    let second = queue.claim_one().await;
    assert_eq!((second.attempt, second.lease.delivery, second.previous), (2, 2, Some(Reason::Failed)));
}

async fn a_retry_after_no_time_is_ready_at_once(queue: TestStore) {
    let claim = queue.running().await;
    queue.settle(&claim, retry(0)).await;
    assert_eq!(queue.places().await, [1, 0, 0, 0]);
    assert_eq!(queue.claim_one().await.attempt, 2);
}

async fn a_fraction_of_a_millisecond_is_waited_for_too(queue: TestStore) {
    let claim = queue.running().await;
    queue.settle(&claim, Verdict::Snooze(Duration::from_nanos(1))).await;
    assert_eq!(queue.state(&claim.lease.job).await, Some(JobState::Delayed { until: queue.in_ms(1) }));
}

async fn snooze_and_release_give_the_attempt_back(queue: TestStore) {
    let first = queue.running().await;
    queue.settle(&first, Verdict::Release(Duration::ZERO)).await;
    assert_eq!(queue.view(&first.lease.job).await.unwrap().attempts, 0);
    let second = queue.claim_one().await;
    assert_eq!((second.attempt, second.lease.delivery, second.previous), (1, 2, None));
    queue.settle(&second, Verdict::Snooze(Duration::from_millis(50))).await;
    assert!(queue.claim(1).await.is_empty());
    queue.pass(50);
    queue.migrate().await;
    let third = queue.claim_one().await;
    assert_eq!((third.attempt, third.lease.delivery), (1, 3));
}

async fn the_last_failure_stays_known_through_snooze_and_release(queue: TestStore) {
    let first = queue.running().await;
    queue.settle(&first, retry(0)).await;
    for verdict in [Verdict::Snooze(Duration::ZERO), Verdict::Release(Duration::ZERO)] {
        let claim = queue.claim_one().await;
        assert_eq!((claim.attempt, claim.previous), (2, Some(Reason::Failed)));
        queue.settle(&claim, verdict).await;
    }
    assert_eq!(queue.view(&first.lease.job).await.unwrap().last_failure, Some(failure(Reason::Failed)));
}

async fn a_buried_job_is_dead_with_its_failure(queue: TestStore) {
    let first = queue.running().await;
    queue.settle(&first, retry(0)).await;
    let second = queue.claim_one().await;
    queue.pass(7);
    assert_eq!(queue.settle(&second, Verdict::Bury(failure(Reason::Timeout))).await, Settled::Done);
    assert_eq!(queue.state(&first.lease.job).await, Some(JobState::Dead { since: queue.now() }));
    let dead = dead_jobs(&queue).await.pop().unwrap();
    assert_eq!((dead.attempts, dead.state), (2, JobState::Dead { since: queue.now() }));
    assert_eq!((dead.last_failure, dead.job), (Some(failure(Reason::Timeout)), Some((*first.job).clone())));
    assert_eq!((queue.places().await, queue.total("dead-timeout").await), ([0, 0, 0, 1], 1));
    assert!(queue.claim(1).await.is_empty());
}

async fn an_expired_job_is_counted_and_gone(queue: TestStore) {
    let claim = queue.running().await;
    assert_eq!(queue.settle(&claim, Verdict::Expire).await, Settled::Done);
    assert_eq!(queue.state(&claim.lease.job).await, None);
    assert_eq!((queue.places().await, queue.total("expired").await), ([0; 4], 1));
}

async fn a_failure_is_kept_whole(queue: TestStore) {
    let context = Payload { data: vec![0, 255, 10], content_type: Some("application/x".into()) };
    let detail = FailureDetail { code: "ä".into(), message: "long\nand\0odd".into(), context: Some(context) };
    let failure = Failure { backtrace: Some("0: main".into()), ..Failure::new(Reason::Trap, detail) };
    let claim = queue.running().await;
    queue.settle(&claim, Verdict::Retry { after: Duration::ZERO, failure: failure.clone() }).await;
    assert_eq!(queue.view(&claim.lease.job).await.unwrap().last_failure, Some(failure));
    assert_eq!(queue.claim_one().await.previous, Some(Reason::Trap));
}

async fn when_a_job_first_became_due_is_never_forgotten(queue: TestStore) {
    let first = queue.running().await;
    queue.pass(3);
    queue.settle(&first, retry(40)).await;
    queue.pass(40);
    queue.migrate().await;
    let second = queue.claim_one().await;
    assert_eq!((second.job.due_at, second.job.enqueued_at), (first.job.due_at, first.job.enqueued_at));
}

async fn verdicts_of_a_batch_are_carried_out_and_answered_in_order(queue: TestStore) {
    queue.push(&[(); 7].map(|()| job("mail"))).await;
    let claims = queue.claim(7).await;
    let wait = Duration::from_secs(1);
    let verdicts = [
        Verdict::Ack(None),
        retry(1000),
        Verdict::Snooze(wait),
        Verdict::Release(wait),
        Verdict::Bury(failure(Reason::Rejected)),
        Verdict::Expire,
        Verdict::Ack(None),
    ];
    let mut batch: Vec<Settlement> =
        claims.iter().zip(verdicts).map(|(claim, verdict)| Settlement::new(claim.lease.clone(), verdict)).collect();
    batch[1].lease.delivery = 9;
    let settled = queue.store.settle(&batch).await.unwrap();
    let lost: Vec<usize> = (0..7).filter(|place| settled[*place] == Settled::LeaseLost).collect();
    assert_eq!((settled.len(), lost), (7, vec![1]));
    assert_eq!(queue.places().await, [0, 2, 1, 1]);
    assert_eq!(queue.total("acked").await, 2);
}

async fn a_batch_may_be_of_many_tenants_and_workers(queue: TestStore) {
    queue.push(&[job("mail"), job("audit"), foreign("mail")]).await;
    let mut theirs = line("mail", 1);
    theirs.topic = foreign("mail").spec.topic;
    let other = gristmill_core::job::WorkerId::new("other");
    let mut claims = queue.store.claim(&worker(), &[theirs, line("mail", 1)]).await.unwrap().claims;
    claims.extend(queue.claim_as(&other, "audit", 1).await.claims);
    let batch: Vec<Settlement> =
        claims.iter().map(|claim| Settlement::new(claim.lease.clone(), Verdict::Ack(None))).collect();
    assert_eq!(queue.store.settle(&batch).await.unwrap(), [Settled::Done; 3]);
    assert_eq!((queue.places().await, queue.counts("audit").await.totals["acked"]), ([0; 4], 1));
}

async fn an_empty_settle_is_answered_with_nothing(queue: TestStore) {
    assert!(queue.store.settle(&[]).await.unwrap().is_empty());
}

async fn jobs_that_end_together_leave_nothing_of_what_they_waited_for(queue: TestStore) {
    let first = queue.dead().await.lease.job;
    let mut second = job("mail");
    second.spec.options.after = vec![first.clone()];
    queue.push(std::slice::from_ref(&second)).await;
    assert_eq!(queue.store.respawn(&topic("mail"), &[first]).await.unwrap(), [true]);
    let ends: Vec<_> = queue.claim(2).await.iter().map(|claim| settlement(claim, Verdict::Ack(None))).collect();
    assert_eq!(queue.store.settle(&ends).await.unwrap(), [Settled::Done; 2]);
    // By the same id, another job waits for another one.
    let other = job("mail");
    second.spec.options.after = ids([&other]);
    queue.push(&[other, second.clone()]).await;
    let found = queue.store.waits_for(&tenant(), &second.spec.id, 9).await.unwrap().unwrap();
    assert_eq!((found.total, found.ended), (1, 0));
}
