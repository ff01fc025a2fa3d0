//! Delay and migrate: nothing is early, and nothing that is due is forgotten.

use std::time::{Duration, Instant};

use gristmill_core::job::{Due, NewJob};
use gristmill_core::time::Timestamp;
use gristmill_store::{JobState, Migrated, PendingWork};
use gristmill_store_tests::test_store::{TestStore, claimed, delayed, foreign, ids, job, poll, retry, tenant};
use gristmill_test_servers::wait::SOON;

super::cases![
    a_delayed_job_is_never_early,
    a_fraction_of_a_millisecond_is_waited_for,
    a_due_time_in_the_past_is_now,
    a_job_may_be_due_at_a_point_in_time,
    by_the_stores_own_clock_nothing_is_early_either,
    by_the_stores_own_clock_a_delayed_job_is_shown_checked_and_found,
    the_end_of_time_is_bounded,
    jobs_due_in_the_same_millisecond_become_ready_in_the_order_of_their_ids,
    a_tenants_migration_is_its_own,
    the_next_due_time_is_signalled,
    with_nothing_delayed_there_is_nothing_to_migrate,
    migration_is_bounded_and_shared_among_topics,
    ; in_order:
    jobs_become_ready_in_the_order_in_which_they_come_due,
    a_retried_job_waits_in_the_same_line,
];

async fn a_delayed_job_is_never_early(queue: TestStore) {
    queue.push(&[delayed("mail", 1000)]).await;
    queue.pass(999);
    assert_eq!(queue.migrate().await, Migrated { moved: 0, fired: 0, next_due_in: Some(Duration::from_millis(1)) });
    assert!(queue.claim(1).await.is_empty());
    queue.pass(1);
    assert_eq!(queue.migrate().await, Migrated { moved: 1, fired: 0, next_due_in: None });
    let claim = queue.claim_one().await;
    assert_eq!(claim.job.due_at.since(claim.job.enqueued_at), Duration::from_secs(1));
}

async fn a_fraction_of_a_millisecond_is_waited_for(queue: TestStore) {
    queue.push(&[NewJob { due: Due::After(Duration::from_micros(1)), ..job("mail") }]).await;
    assert_eq!(queue.migrate().await.moved, 0);
    assert!(queue.claim(1).await.is_empty());
    queue.pass(1);
    assert_eq!(queue.migrate().await.moved, 1);
}

async fn a_due_time_in_the_past_is_now(queue: TestStore) {
    let past = Due::At(Timestamp::from_millis(1));
    queue.push(&[NewJob { due: past, ..job("mail") }, NewJob { due: Due::At(queue.now()), ..job("mail") }]).await;
    let claims = queue.claim(3).await;
    assert_eq!(claims.len(), 2);
    assert!(claims.iter().all(|claim| claim.job.due_at == queue.now()));
}

async fn a_job_may_be_due_at_a_point_in_time(queue: TestStore) {
    let at = queue.in_ms(70);
    let pushed = NewJob { due: Due::At(at), ..job("mail") };
    queue.push(std::slice::from_ref(&pushed)).await;
    assert_eq!(queue.state(&pushed.spec.id).await, Some(JobState::Delayed { until: at }));
    queue.pass(69);
    assert_eq!(queue.migrate().await.moved, 0);
    queue.pass(1);
    assert_eq!(queue.migrate().await.moved, 1);
    assert_eq!(queue.claim_one().await.job.due_at, at);
}

async fn by_the_stores_own_clock_nothing_is_early_either(queue: TestStore) {
    let queue = queue.by_its_own_clock().await;
    // Often, because what is wrong by less than a millisecond does not show each time.
    for _ in 0..40 {
        let pushed_at = Instant::now();
        queue.push(&[delayed("mail", 3)]).await;
        // Asked without a pause, which would hide it.
        while queue.migrate().await.moved == 0 {
            assert!(pushed_at.elapsed() < SOON, "waited in vain for the job to be due");
        }
        assert!(pushed_at.elapsed() >= Duration::from_millis(3));
        let claim = queue.claim_one().await;
        assert!(claim.claimed_at >= claim.job.due_at);
    }
}

async fn by_the_stores_own_clock_a_delayed_job_is_shown_checked_and_found(queue: TestStore) {
    let queue = queue.by_its_own_clock().await;
    // Often, because a fraction of a millisecond may be a nought.
    for _ in 0..10 {
        let late = delayed("mail", 3_600_000);
        queue.push(std::slice::from_ref(&late)).await;
        let Some(JobState::Delayed { until }) = queue.state(&late.spec.id).await else { panic!("it is delayed") };
        let job = queue.store.job(&tenant(), &late.spec.id).await.unwrap().unwrap().job.unwrap();
        assert!(until.since(job.due_at) <= Duration::from_millis(1), "{until:?} is shown, and {:?} stored", job.due_at);
        let next = poll(&*queue.store, &tenant()).await.next_due_in;
        assert!(next.is_some_and(|due_in| due_in <= Duration::from_secs(3600)), "{next:?}");
    }
    let report = queue.store.fsck().await.unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

async fn the_end_of_time_is_bounded(queue: TestStore) {
    let late = NewJob { due: Due::At(Timestamp::from_millis(u64::MAX)), ..job("mail") };
    queue.push(&[late.clone(), NewJob { due: Due::After(Duration::MAX), ..job("mail") }]).await;
    let until = Timestamp::from_millis(99_999_999_999_998);
    assert_eq!(queue.state(&late.spec.id).await, Some(JobState::Delayed { until }));
    assert_eq!(queue.places().await, [0, 2, 0, 0]);
}

async fn jobs_become_ready_in_the_order_in_which_they_come_due(queue: TestStore) {
    let jobs = [30, 10, 20].map(|ms| delayed("mail", ms));
    queue.push(&jobs).await;
    queue.pass(100);
    let late = job("mail");
    queue.push(std::slice::from_ref(&late)).await;
    assert_eq!(queue.migrate().await.moved, 3);
    let order = [&late, &jobs[1], &jobs[2], &jobs[0]];
    assert_eq!(claimed(&queue.claim(9).await), ids(order), "ready first is first, however long it was delayed");
}

async fn jobs_due_in_the_same_millisecond_become_ready_in_the_order_of_their_ids(queue: TestStore) {
    let jobs = ["b", "c", "a"].map(|id| {
        let mut job = delayed("mail", 10);
        job.spec.id = id.parse().unwrap();
        job
    });
    queue.push(&jobs).await;
    queue.pass(10);
    queue.migrate().await;
    assert_eq!(claimed(&queue.claim(9).await), ids([&jobs[2], &jobs[0], &jobs[1]]));
}

async fn migration_is_bounded_and_shared_among_topics(queue: TestStore) {
    let jobs: Vec<NewJob> = (0..30).map(|_| delayed("a", 1)).chain([delayed("b", 2)]).collect();
    queue.push(&jobs).await;
    queue.pass(10);
    let migrated = queue.store.migrate(&tenant(), 10).await.unwrap();
    assert_eq!((migrated.moved, migrated.next_due_in), (10, Some(Duration::ZERO)));
    assert_eq!((queue.counts("a").await.ready, queue.counts("b").await.ready), (9, 1), "b is not behind all of a");
    assert_eq!(queue.store.migrate(&tenant(), 100).await.unwrap(), Migrated { moved: 21, fired: 0, next_due_in: None });
    assert_eq!(queue.store.migrate(&tenant(), 0).await.unwrap().moved, 0);
}

async fn a_tenants_migration_is_its_own(queue: TestStore) {
    let mut theirs = foreign("mail");
    theirs.due = Due::After(Duration::from_millis(1));
    queue.push(std::slice::from_ref(&theirs)).await;
    queue.pass(5);
    assert_eq!(queue.migrate().await, Migrated::default());
    let state = queue.store.job(&theirs.spec.topic.tenant, &theirs.spec.id).await.unwrap().unwrap().state;
    assert!(matches!(state, JobState::Delayed { .. }));
}

async fn the_next_due_time_is_signalled(queue: TestStore) {
    queue.push(&[delayed("a", 1000), delayed("b", 300), delayed("c", 500)]).await;
    queue.pass(100);
    let in_ms = |ms| Some(Duration::from_millis(ms));
    assert_eq!(queue.migrate().await.next_due_in, in_ms(200));
    let wanted = poll(&*queue.store, &tenant()).await;
    assert_eq!(wanted, PendingWork { next_due_in: in_ms(200), ..PendingWork::default() });
    queue.pass(200);
    assert_eq!(poll(&*queue.store, &tenant()).await.next_due_in, in_ms(0));
    assert_eq!(queue.migrate().await, Migrated { moved: 1, fired: 0, next_due_in: in_ms(200) });
}

async fn with_nothing_delayed_there_is_nothing_to_migrate(queue: TestStore) {
    assert_eq!(queue.migrate().await, Migrated::default());
    queue.push(&[job("mail")]).await;
    assert_eq!(queue.migrate().await, Migrated::default());
}

async fn a_retried_job_waits_in_the_same_line(queue: TestStore) {
    let claim = queue.running().await;
    queue.settle(&claim, retry(20)).await;
    let jobs = [delayed("mail", 30), delayed("mail", 10)];
    queue.push(&jobs).await;
    queue.pass(30);
    queue.migrate().await;
    let order = [jobs[1].spec.id.clone(), claim.lease.job, jobs[0].spec.id.clone()];
    assert_eq!(claimed(&queue.claim(9).await), order);
}
