//! Follow-ups: jobs that a handler enqueues appear in the step that ends its attempt, or not at all.

use std::time::Duration;

use gristmill_core::job::{NewJob, Unique};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{JobState, Settled, Settlement};
use gristmill_store_tests::test_store::{
    TestStore, claimed, delayed, failure, foreign, ids, job, poll, retry, settlement, tenant, topic, unique, worker,
};

super::cases![
    follow_ups_appear_with_the_ack,
    follow_ups_appear_with_a_snooze,
    follow_ups_of_any_other_verdict_do_not_appear,
    follow_ups_of_a_lost_lease_do_not_appear,
    follow_ups_appear_once_however_often_their_attempt_is_settled,
    a_follow_up_of_another_tenant_is_refused_and_nothing_is_settled,
    a_follow_up_that_is_stored_already_is_not_stored_again,
    a_follow_up_respects_a_unique_value_that_is_taken,
    a_job_may_follow_itself_up_with_its_own_unique_value,
    ; in_order:
    a_follow_up_may_have_the_id_and_the_unique_value_of_jobs_that_end_with_its_own,
    follow_ups_become_ready_in_the_order_in_which_they_were_enqueued,
];

fn with_follow_ups(claim: &gristmill_core::job::Claim, verdict: Verdict, jobs: &[NewJob]) -> Settlement {
    Settlement { follow_ups: jobs.to_vec(), ..settlement(claim, verdict) }
}

async fn follow_ups_appear_with_the_ack(queue: TestStore) {
    let claim = queue.running().await;
    let jobs = [job("next"), delayed("next", 10), job("mail")];
    assert_eq!(queue.settle_with(with_follow_ups(&claim, Verdict::Ack(None), &jobs)).await, Settled::Done);
    let next = queue.counts("next").await;
    assert_eq!((next.ready, next.delayed, next.totals["pushed"]), (1, 1, 2));
    assert_eq!(queue.places().await, [1, 0, 0, 0]);
    let wanted = poll(&*queue.store, &tenant()).await;
    assert_eq!(wanted.next_due_in, Some(Duration::from_millis(10)));
    let taken = queue.claim_as(&worker(), "next", 1).await.claims;
    assert_eq!((&taken[0].job.spec, taken[0].job.enqueued_at), (&jobs[0].spec, queue.now()));
}

async fn follow_ups_appear_with_a_snooze(queue: TestStore) {
    let claim = queue.running().await;
    let jobs = [job("next")];
    queue.settle_with(with_follow_ups(&claim, Verdict::Snooze(Duration::from_secs(1)), &jobs)).await;
    assert_eq!(queue.counts("next").await.ready, 1);
    assert_eq!(queue.places().await, [0, 1, 0, 0]);
}

async fn follow_ups_of_any_other_verdict_do_not_appear(queue: TestStore) {
    for verdict in [retry(0), Verdict::Release(Duration::ZERO), Verdict::Bury(failure(Reason::Trap)), Verdict::Expire] {
        let claim = queue.running().await;
        assert_eq!(queue.settle_with(with_follow_ups(&claim, verdict, &[job("next")])).await, Settled::Done);
    }
    assert!(queue.claim_as(&worker(), "next", 1).await.claims.is_empty());
}

async fn follow_ups_of_a_lost_lease_do_not_appear(queue: TestStore) {
    let claim = queue.running().await;
    let mut late = with_follow_ups(&claim, Verdict::Ack(None), &[job("next")]);
    late.lease.delivery += 1;
    assert_eq!(queue.settle_with(late).await, Settled::LeaseLost);
    assert!(queue.claim_as(&worker(), "next", 1).await.claims.is_empty());
    assert_eq!(queue.places().await, [0, 0, 1, 0]);
}

async fn follow_ups_appear_once_however_often_their_attempt_is_settled(queue: TestStore) {
    let claim = queue.running().await;
    let ack = with_follow_ups(&claim, Verdict::Ack(None), &[job("next")]);
    let settled = queue.store.settle(&[ack.clone(), ack.clone()]).await.unwrap();
    assert_eq!(settled, [Settled::Done, Settled::LeaseLost]);
    assert_eq!(queue.settle_with(ack).await, Settled::LeaseLost);
    assert_eq!(queue.counts("next").await.totals["pushed"], 1);
}

async fn a_follow_up_of_another_tenant_is_refused_and_nothing_is_settled(queue: TestStore) {
    let claim = queue.running().await;
    let ack = with_follow_ups(&claim, Verdict::Ack(None), &[job("next"), foreign("next")]);
    let error = queue.store.settle(&[ack]).await.unwrap_err();
    assert!(!error.is_unavailable(), "trying again does not help: {error}");
    assert!(matches!(queue.state(&claim.lease.job).await, Some(JobState::Running { .. })));
    assert!(queue.claim_as(&worker(), "next", 1).await.claims.is_empty());
}

async fn a_follow_up_that_is_stored_already_is_not_stored_again(queue: TestStore) {
    let claim = queue.running().await;
    let known = delayed("next", 10);
    queue.push(std::slice::from_ref(&known)).await;
    let again = NewJob { due: gristmill_core::job::Due::Now, ..known };
    assert_eq!(queue.settle_with(with_follow_ups(&claim, Verdict::Ack(None), &[again])).await, Settled::Done);
    let next = queue.counts("next").await;
    assert_eq!((next.ready, next.delayed, next.totals["pushed"]), (0, 1, 1));
}

async fn a_follow_up_respects_a_unique_value_that_is_taken(queue: TestStore) {
    let claim = queue.running().await;
    queue.push(&[unique("next", "u")]).await;
    let jobs = [unique("next", "u"), unique("next", "v"), unique("next", "v")];
    assert_eq!(queue.settle_with(with_follow_ups(&claim, Verdict::Ack(None), &jobs)).await, Settled::Done);
    let next = queue.counts("next").await;
    assert_eq!((next.ready, next.totals["duplicate"]), (2, 2));
}

async fn a_job_may_follow_itself_up_with_its_own_unique_value(queue: TestStore) {
    queue.push(&[unique("mail", "u")]).await;
    let claim = queue.claim_one().await;
    let mut again = job("mail");
    again.spec.options.unique = Some(Unique { value: "u".into(), window: None });
    queue.settle_with(with_follow_ups(&claim, Verdict::Ack(None), std::slice::from_ref(&again))).await;
    assert_eq!(claimed(&queue.claim(2).await), [again.spec.id], "the value was free by then");
    let second = unique("mail", "u");
    assert_eq!(queue.push(&[second]).await.len(), 1);
    assert_eq!(queue.total("duplicate").await, 1);
    assert_eq!(queue.counts("mail").await.topic, topic("mail"));
}

async fn a_follow_up_may_have_the_id_and_the_unique_value_of_jobs_that_end_with_its_own(queue: TestStore) {
    queue.push(&[unique("mail", "u"), job("mail")]).await;
    let claims = queue.claim(2).await;
    let (same_id, same_value) = (NewJob { spec: claims[1].job.spec.clone(), ..job("mail") }, unique("mail", "u"));
    let batch = [
        with_follow_ups(&claims[0], Verdict::Ack(None), &[job("next")]),
        with_follow_ups(&claims[1], Verdict::Ack(None), &[same_id.clone(), same_value.clone()]),
    ];
    assert_eq!(queue.store.settle(&batch).await.unwrap(), [Settled::Done; 2]);
    assert_eq!(claimed(&queue.claim(9).await), ids(&[same_id, same_value]));
    assert_eq!((queue.total("duplicate").await, queue.counts("next").await.ready), (0, 1));
}

async fn follow_ups_become_ready_in_the_order_in_which_they_were_enqueued(queue: TestStore) {
    queue.push(&[job("mail"), job("mail")]).await;
    let claims = queue.claim(2).await;
    let jobs: Vec<NewJob> = (0..6).map(|_| job("next")).collect();
    let batch: Vec<Settlement> = claims
        .iter()
        .zip(jobs.chunks(3))
        .map(|(claim, jobs)| with_follow_ups(claim, Verdict::Ack(None), jobs))
        .collect();
    queue.store.settle(&batch).await.unwrap();
    assert_eq!(claimed(&queue.claim_as(&worker(), "next", 9).await.claims), ids(&jobs));
}
