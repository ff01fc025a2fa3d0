//! Unique values: at most one job of a topic holds one, until it is over or for a time.

use gristmill_core::job::{Claim, JobId, NewJob};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{Cancelled, JobQuery, Pushed, Settled, find};
use gristmill_store_tests::test_store::{
    TestStore, failure, foreign, job, retry, settlement, tenant, topic, unique, unique_for,
};

super::cases![
    a_value_is_held_from_push_until_the_job_is_done,
    a_value_is_held_through_retry_snooze_and_release,
    every_end_of_the_job_sets_its_value_free,
    a_value_is_held_within_its_topic_only,
    the_holder_is_named_and_the_duplicate_counted,
    the_same_id_again_is_known_and_no_duplicate,
    of_a_batch_the_first_one_holds_the_value,
    only_the_holder_sets_a_value_free,
    a_cancelled_job_sets_its_value_free,
    respawn_takes_the_value_again,
    respawn_respects_a_value_that_is_taken,
    respawn_does_not_ask_for_a_value_that_was_held_for_a_time,
    a_window_holds_the_value_for_its_time,
    a_window_holds_the_value_whatever_becomes_of_the_job,
    a_window_ends_though_the_job_still_waits,
    a_query_finds_the_holder_of_a_value_first_and_then_the_others,
    a_window_and_holding_until_done_respect_each_other,
    a_window_counts_from_push_and_not_from_due,
    after_a_window_of_no_time_the_next_job_of_the_push_holds_the_value,
    a_value_that_is_held_for_a_time_is_found_and_freed,
];

async fn a_query_finds_the_holder_of_a_value_first_and_then_the_others(queue: TestStore) {
    let others: Vec<NewJob> = (0..50).map(|_| job("mail")).collect();
    queue.push(&others).await;
    let (lapsed, holder) = (unique_for("mail", "u", 5), unique("mail", "u"));
    queue.push(std::slice::from_ref(&lapsed)).await;
    queue.pass(6);
    assert_eq!(queue.push(std::slice::from_ref(&holder)).await, [Pushed::Stored]);
    let query: JobQuery = "unique:u".parse().unwrap();
    let look = async |after, limit| find(&*queue.store, &tenant(), None, &query, after, limit).await.unwrap();
    let first = look(None, 1).await;
    assert_eq!((first.jobs[0].id.clone(), first.looked_at, first.next.is_some()), (holder.spec.id.clone(), 1, true));
    let all: Vec<JobId> = look(None, 9).await.jobs.into_iter().map(|view| view.id).collect();
    assert_eq!(all, [holder.spec.id, lapsed.spec.id], "each once");
}

async fn pushed(queue: &TestStore, value: &str) -> Pushed {
    queue.push(&[unique("mail", value)]).await.remove(0)
}

async fn settle(queue: &TestStore, verdict: Verdict) -> Claim {
    let claim = queue.claim_one().await;
    assert_eq!(queue.settle_with(settlement(&claim, verdict)).await, Settled::Done);
    claim
}

async fn a_value_is_held_from_push_until_the_job_is_done(queue: TestStore) {
    let first = unique("mail", "u");
    assert_eq!(queue.push(std::slice::from_ref(&first)).await, [Pushed::Stored]);
    assert_eq!(pushed(&queue, "u").await, Pushed::Duplicate(first.spec.id.clone()));
    let claim = queue.claim_one().await;
    assert_eq!(pushed(&queue, "u").await, Pushed::Duplicate(first.spec.id), "running jobs hold it too");
    queue.settle_with(settlement(&claim, Verdict::Ack(None))).await;
    assert_eq!(pushed(&queue, "u").await, Pushed::Stored);
}

async fn a_value_is_held_through_retry_snooze_and_release(queue: TestStore) {
    pushed(&queue, "u").await;
    for verdict in [retry(0), Verdict::Snooze(Default::default()), Verdict::Release(Default::default())] {
        let claim = settle(&queue, verdict).await;
        assert_eq!(pushed(&queue, "u").await, Pushed::Duplicate(claim.lease.job));
    }
}

async fn every_end_of_the_job_sets_its_value_free(queue: TestStore) {
    for verdict in [Verdict::Ack(None), Verdict::Expire, Verdict::Bury(failure(Reason::Trap)), Verdict::Ack(None)] {
        assert_eq!(pushed(&queue, "u").await, Pushed::Stored);
        settle(&queue, verdict).await;
    }
}

async fn a_value_is_held_within_its_topic_only(queue: TestStore) {
    let mut theirs = foreign("mail");
    theirs.spec.options.unique = unique("mail", "u").spec.options.unique;
    let batch = [unique("mail", "u"), unique("audit", "u"), theirs, unique("mail", "v")];
    assert_eq!(queue.push(&batch).await, [(); 4].map(|()| Pushed::Stored));
}

async fn the_holder_is_named_and_the_duplicate_counted(queue: TestStore) {
    let first = unique("mail", "u");
    queue.push(std::slice::from_ref(&first)).await;
    let second = unique("mail", "u");
    assert_eq!(queue.push(std::slice::from_ref(&second)).await, [Pushed::Duplicate(first.spec.id)]);
    assert_eq!(queue.state(&second.spec.id).await, None);
    assert_eq!((queue.total("duplicate").await, queue.total("pushed").await), (1, 1));
}

async fn the_same_id_again_is_known_and_no_duplicate(queue: TestStore) {
    let first = unique("mail", "u");
    assert_eq!(queue.push(&[first.clone(), first]).await, [Pushed::Stored, Pushed::Exists]);
    assert_eq!(queue.total("duplicate").await, 0);
}

async fn of_a_batch_the_first_one_holds_the_value(queue: TestStore) {
    let jobs = [job("mail"), unique("mail", "u"), unique("mail", "u")];
    let duplicate = Pushed::Duplicate(jobs[1].spec.id.clone());
    assert_eq!(queue.push(&jobs).await, [Pushed::Stored, Pushed::Stored, duplicate]);
}

async fn only_the_holder_sets_a_value_free(queue: TestStore) {
    pushed(&queue, "u").await;
    let dead = settle(&queue, Verdict::Bury(failure(Reason::Trap))).await;
    assert_eq!(pushed(&queue, "u").await, Pushed::Stored);
    queue.store.delete_dead(&topic("mail"), &[dead.lease.job]).await.unwrap();
    assert!(matches!(pushed(&queue, "u").await, Pushed::Duplicate(_)), "the second life holds it");
}

async fn a_cancelled_job_sets_its_value_free(queue: TestStore) {
    let waiting = unique("mail", "u");
    queue.push(std::slice::from_ref(&waiting)).await;
    assert_eq!(queue.store.cancel(&tenant(), &[waiting.spec.id]).await.unwrap(), [Cancelled::Gone]);
    assert_eq!(pushed(&queue, "u").await, Pushed::Stored);

    let claim = queue.claim_one().await;
    queue.store.cancel(&tenant(), std::slice::from_ref(&claim.lease.job)).await.unwrap();
    assert_eq!(pushed(&queue, "u").await, Pushed::Duplicate(claim.lease.job.clone()), "it is still running");
    assert_eq!(queue.settle_with(settlement(&claim, retry(0))).await, Settled::Cancelled);
    assert_eq!(pushed(&queue, "u").await, Pushed::Stored);
}

async fn respawn(queue: &TestStore, id: &JobId) -> bool {
    queue.store.respawn(&topic("mail"), std::slice::from_ref(id)).await.unwrap().remove(0)
}

async fn respawn_takes_the_value_again(queue: TestStore) {
    pushed(&queue, "u").await;
    let dead = settle(&queue, Verdict::Bury(failure(Reason::Trap))).await.lease.job;
    assert!(respawn(&queue, &dead).await);
    assert_eq!(pushed(&queue, "u").await, Pushed::Duplicate(dead));
    settle(&queue, Verdict::Ack(None)).await;
    assert_eq!(pushed(&queue, "u").await, Pushed::Stored);
}

async fn respawn_respects_a_value_that_is_taken(queue: TestStore) {
    pushed(&queue, "u").await;
    let dead = settle(&queue, Verdict::Bury(failure(Reason::Trap))).await.lease.job;
    pushed(&queue, "u").await;
    assert!(!respawn(&queue, &dead).await);
    assert_eq!(queue.places().await, [1, 0, 0, 1]);
    settle(&queue, Verdict::Ack(None)).await;
    assert!(respawn(&queue, &dead).await);
}

async fn respawn_does_not_ask_for_a_value_that_was_held_for_a_time(queue: TestStore) {
    queue.push(&[unique_for("mail", "u", 5)]).await;
    let dead = settle(&queue, Verdict::Bury(failure(Reason::Trap))).await.lease.job;
    queue.pass(5);
    let holder = unique("mail", "u");
    queue.push(std::slice::from_ref(&holder)).await;
    assert!(respawn(&queue, &dead).await);
    assert_eq!(pushed(&queue, "u").await, Pushed::Duplicate(holder.spec.id));
}

async fn a_window_holds_the_value_for_its_time(queue: TestStore) {
    let first = unique_for("mail", "u", 100);
    let second = unique_for("mail", "u", 100);
    queue.push(std::slice::from_ref(&first)).await;
    queue.pass(99);
    assert_eq!(queue.push(std::slice::from_ref(&second)).await, [Pushed::Duplicate(first.spec.id)]);
    queue.pass(1);
    assert_eq!(queue.push(std::slice::from_ref(&second)).await, [Pushed::Stored]);
    assert_eq!(pushed(&queue, "u").await, Pushed::Duplicate(second.spec.id));
}

async fn a_window_holds_the_value_whatever_becomes_of_the_job(queue: TestStore) {
    let ends = [Verdict::Ack(None), Verdict::Expire, Verdict::Bury(failure(Reason::Trap))];
    for (n, verdict) in ends.into_iter().enumerate() {
        let first = unique_for("mail", &n.to_string(), 100);
        queue.push(std::slice::from_ref(&first)).await;
        settle(&queue, verdict).await;
        assert_eq!(pushed(&queue, &n.to_string()).await, Pushed::Duplicate(first.spec.id));
    }
    let first = unique_for("mail", "u", 100);
    queue.push(std::slice::from_ref(&first)).await;
    queue.store.cancel(&tenant(), std::slice::from_ref(&first.spec.id)).await.unwrap();
    assert_eq!(pushed(&queue, "u").await, Pushed::Duplicate(first.spec.id));
    queue.pass(100);
    assert_eq!(pushed(&queue, "u").await, Pushed::Stored);
}

async fn a_window_ends_though_the_job_still_waits(queue: TestStore) {
    queue.push(&[unique_for("mail", "u", 100)]).await;
    queue.pass(100);
    let second = unique("mail", "u");
    queue.push(std::slice::from_ref(&second)).await;
    settle(&queue, Verdict::Ack(None)).await;
    assert_eq!(pushed(&queue, "u").await, Pushed::Duplicate(second.spec.id), "the first one's end frees nothing");
}

async fn a_window_and_holding_until_done_respect_each_other(queue: TestStore) {
    let first = unique("mail", "u");
    queue.push(std::slice::from_ref(&first)).await;
    queue.pass(1_000_000);
    assert_eq!(queue.push(&[unique_for("mail", "u", 10)]).await, [Pushed::Duplicate(first.spec.id)]);
    settle(&queue, Verdict::Ack(None)).await;
    let window = unique_for("mail", "u", 10);
    assert_eq!(queue.push(std::slice::from_ref(&window)).await, [Pushed::Stored]);
    assert_eq!(pushed(&queue, "u").await, Pushed::Duplicate(window.spec.id));
}

async fn a_window_counts_from_push_and_not_from_due(queue: TestStore) {
    let mut first = unique_for("mail", "u", 100);
    first.due = gristmill_core::job::Due::At(queue.in_ms(1000));
    queue.push(&[first]).await;
    queue.pass(100);
    assert_eq!(pushed(&queue, "u").await, Pushed::Stored);
}

async fn after_a_window_of_no_time_the_next_job_of_the_push_holds_the_value(queue: TestStore) {
    let jobs = [unique_for("mail", "u", 0), unique("mail", "u")];
    assert_eq!(queue.push(&jobs).await, [Pushed::Stored, Pushed::Stored]);
    assert!(queue.store.fsck().await.unwrap().is_clean());
    queue.pass(10);
    // A push with a window forgets those that have passed.
    queue.push(&[unique_for("mail", "other", 10)]).await;
    assert_eq!(pushed(&queue, "u").await, Pushed::Duplicate(jobs[1].spec.id.clone()));
}

async fn a_value_that_is_held_for_a_time_is_found_and_freed(queue: TestStore) {
    let (mail, store) = (topic("mail"), &queue.store);
    assert_eq!(store.unique_hold(&mail, "u").await.unwrap(), None);
    assert!(!store.free_unique(&mail, "u").await.unwrap());
    let job = unique_for("mail", "u", 5000);
    queue.push(std::slice::from_ref(&job)).await;
    store.cancel(&tenant(), std::slice::from_ref(&job.spec.id)).await.unwrap();
    assert!(store.forget_topic(&mail).await.unwrap());
    let hold = store.unique_hold(&mail, "u").await.unwrap().unwrap();
    assert_eq!((&hold.holder, hold.until), (&job.spec.id, Some(queue.in_ms(5000))));
    assert!(store.free_unique(&mail, "u").await.unwrap() && !store.free_unique(&mail, "u").await.unwrap());
    assert_eq!(store.unique_hold(&mail, "u").await.unwrap(), None);
    let until_done = unique("mail", "u");
    assert_eq!(queue.push(std::slice::from_ref(&until_done)).await, [Pushed::Stored]);
    let hold = store.unique_hold(&mail, "u").await.unwrap().unwrap();
    assert_eq!((&hold.holder, hold.until), (&until_done.spec.id, None));
    assert!(!store.free_unique(&mail, "u").await.unwrap(), "a job holds it until it is done");
    assert_eq!(pushed(&queue, "u").await, Pushed::Duplicate(until_done.spec.id));
    queue.push(&[unique_for("mail", "v", 5)]).await;
    queue.pass(5);
    assert_eq!(store.unique_hold(&mail, "v").await.unwrap(), None, "its time is over");
    assert!(!store.free_unique(&mail, "v").await.unwrap());

    queue.push(&[unique_for("mail", "w", 5000), unique_for("mail", "x", 5000), unique_for("news", "w", 5000)]).await;
    while store.free_windows(&mail).await.unwrap() > 0 {}
    assert_eq!(
        (store.unique_hold(&mail, "w").await.unwrap(), store.unique_hold(&mail, "x").await.unwrap()),
        (None, None)
    );
    assert!(store.unique_hold(&mail, "u").await.unwrap().is_some(), "a job holds it until it is done");
    assert!(store.unique_hold(&topic("news"), "w").await.unwrap().is_some(), "another topic's");
    assert!(store.fsck().await.unwrap().is_clean());
}
