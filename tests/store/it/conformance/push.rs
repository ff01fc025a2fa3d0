//! Push: jobs come in once, whole, and in the order given.

use std::time::Duration;

use gristmill_core::job::{Due, NewJob, Payload};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{JobState, Pushed, Settled};
use gristmill_store_tests::test_store::{LEASE, TestStore, claimed, delayed, failure, foreign, ids, job, line, worker};

super::cases![
    a_job_is_pushed_claimed_and_acked,
    all_that_a_producer_says_comes_back,
    pushing_the_same_id_again_changes_nothing,
    an_id_is_known_wherever_its_job_is,
    an_id_is_free_again_when_its_job_is_done,
    an_id_is_known_across_topics_and_not_across_tenants,
    tenants_are_kept_apart,
    answers_keep_the_order_of_a_batch_of_many_tenants,
    an_empty_push_is_answered_with_nothing,
    jobs_survive_closing_and_opening_the_store,
    ; in_order:
    jobs_come_out_in_the_order_in_which_they_were_pushed,
];

async fn a_job_is_pushed_claimed_and_acked(queue: TestStore) {
    let pushed = job("mail");
    assert_eq!(queue.push(std::slice::from_ref(&pushed)).await, [Pushed::Stored]);
    queue.pass(5);

    let claim = queue.claim_one().await;
    assert_eq!(claim.job.spec, pushed.spec);
    assert_eq!((claim.attempt, claim.lease.delivery), (1, 1));
    assert_eq!(claim.job.enqueued_at, claim.job.due_at);
    assert_eq!(claim.claimed_at.since(claim.job.enqueued_at), Duration::from_millis(5));
    assert_eq!((claim.claimed_at, claim.lease_until), (queue.now(), queue.now().plus(LEASE)));
    assert_eq!((&claim.lease.topic, &claim.lease.worker), (&pushed.spec.topic, &worker()));
    assert_eq!((claim.previous, claim.checkpoint.as_ref()), (None, None));

    assert_eq!(queue.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    assert_eq!(queue.state(&pushed.spec.id).await, None);
    assert!(queue.claim(10).await.is_empty());
}

async fn all_that_a_producer_says_comes_back(queue: TestStore) {
    let mut pushed = job("mail");
    pushed.spec.id = "ORDER-7.a_b".parse().unwrap();
    pushed.spec.body = Payload { data: (0..=255).collect(), content_type: Some("image/png".into()) };
    pushed.spec.metadata = [("trace", "t1"), ("trace", "t2"), ("", "ä\0\n")].map(|(k, v)| (k.into(), v.into())).into();
    pushed.spec.options.key = Some("customer 7".into());
    pushed.spec.options.max_attempts = Some(7);
    pushed.spec.options.ttl = Some(Duration::from_millis(1500));
    pushed.spec.options.keep_result = Some(Duration::from_secs(60));
    queue.push(std::slice::from_ref(&pushed)).await;
    assert_eq!(queue.view(&pushed.spec.id).await.unwrap().job.unwrap().spec, pushed.spec);
    assert_eq!(queue.claim_one().await.job.spec, pushed.spec);
}

async fn jobs_come_out_in_the_order_in_which_they_were_pushed(queue: TestStore) {
    let jobs: Vec<NewJob> = (0..25).map(|_| job("mail")).collect();
    queue.push(&jobs[..3]).await;
    queue.push(&jobs[3..]).await;
    let claims = [queue.claim(2).await, queue.claim(30).await].concat();
    assert_eq!(claimed(&claims), ids(&jobs));
}

async fn pushing_the_same_id_again_changes_nothing(queue: TestStore) {
    let pushed = job("mail");
    let mut again = NewJob { due: Due::After(LEASE), ..pushed.clone() };
    again.spec.body.data = b"another body".to_vec();
    assert_eq!(queue.push(&[pushed.clone(), again.clone()]).await, [Pushed::Stored, Pushed::Exists]);
    assert_eq!(queue.push(&[again]).await, [Pushed::Exists]);
    let counts = queue.counts("mail").await;
    assert_eq!((counts.ready, counts.delayed, counts.totals["pushed"]), (1, 0, 1));
    assert_eq!(queue.claim_one().await.job.spec, pushed.spec);
}

async fn an_id_is_known_wherever_its_job_is(queue: TestStore) {
    let pushed = delayed("mail", 10);
    let again = NewJob { due: Due::Now, ..pushed.clone() };
    let known = async || assert_eq!(queue.push(std::slice::from_ref(&again)).await, [Pushed::Exists]);
    queue.push(&[pushed]).await;
    known().await;
    queue.pass(10);
    queue.migrate().await;
    known().await;
    let claim = queue.claim_one().await;
    known().await;
    queue.settle(&claim, Verdict::Bury(failure(Reason::Trap))).await;
    known().await;
    assert_eq!((queue.places().await, queue.total("pushed").await), ([0, 0, 0, 1], 1));
}

async fn an_id_is_free_again_when_its_job_is_done(queue: TestStore) {
    let pushed = job("mail");
    for _ in 0..2 {
        assert_eq!(queue.push(std::slice::from_ref(&pushed)).await, [Pushed::Stored]);
        let claim = queue.claim_one().await;
        assert_eq!((claim.attempt, claim.previous), (1, None));
        queue.settle(&claim, Verdict::Ack(None)).await;
    }
    assert_eq!((queue.total("pushed").await, queue.total("acked").await), (2, 2));
}

async fn an_id_is_known_across_topics_and_not_across_tenants(queue: TestStore) {
    let pushed = job("mail");
    let (mut elsewhere, mut theirs) = (job("audit"), foreign("mail"));
    elsewhere.spec.id = pushed.spec.id.clone();
    theirs.spec.id = pushed.spec.id.clone();
    assert_eq!(
        queue.push(&[pushed.clone(), elsewhere, theirs]).await,
        [Pushed::Stored, Pushed::Exists, Pushed::Stored]
    );
    let view = queue.view(&pushed.spec.id).await.unwrap();
    assert_eq!(view.job.unwrap().spec, pushed.spec);
}

async fn tenants_are_kept_apart(queue: TestStore) {
    let theirs = foreign("mail");
    queue.push(&[job("mail"), theirs.clone()]).await;
    assert_eq!(queue.claim(5).await.len(), 1);
    assert_eq!(queue.state(&theirs.spec.id).await, None);

    let mut line = line("mail", 5);
    line.topic = theirs.spec.topic.clone();
    let claims = queue.store.claim(&worker(), &[line]).await.unwrap().claims;
    assert_eq!(claimed(&claims), [theirs.spec.id]);
    assert_eq!(queue.settle(&claims[0], Verdict::Ack(None)).await, Settled::Done);
    assert_eq!((queue.places().await, queue.total("acked").await), ([0, 0, 1, 0], 0));
}

async fn answers_keep_the_order_of_a_batch_of_many_tenants(queue: TestStore) {
    let (ours, theirs) = (job("mail"), foreign("mail"));
    let batch = [theirs.clone(), ours.clone(), theirs.clone(), foreign("mail"), ours.clone(), job("mail")];
    use Pushed::{Exists, Stored};
    assert_eq!(queue.push(&batch).await, [Stored, Stored, Exists, Stored, Exists, Stored]);
}

async fn an_empty_push_is_answered_with_nothing(queue: TestStore) {
    assert!(queue.push(&[]).await.is_empty());
    assert!(queue.store.tenants().await.unwrap().is_empty());
}

async fn jobs_survive_closing_and_opening_the_store(mut queue: TestStore) {
    let (pushed, later) = (job("mail"), delayed("mail", 1000));
    queue.push(&[pushed.clone(), later.clone()]).await;
    let claim = queue.claim_one().await;
    queue.reopen().await;
    assert_eq!(queue.state(&later.spec.id).await, Some(JobState::Delayed { until: queue.in_ms(1000) }));
    assert!(matches!(queue.state(&pushed.spec.id).await, Some(JobState::Running { .. })));
    assert_eq!(queue.settle(&claim, Verdict::Ack(None)).await, Settled::Done, "a lease outlives the store's owner");
    assert_eq!((queue.places().await, queue.total("acked").await), ([0, 1, 0, 0], 1));
}
