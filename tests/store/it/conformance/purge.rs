//! Purging a topic, and forgetting one that has no jobs.

use gristmill_core::job::Priority;
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{Pushed, purge};
use gristmill_store_tests::test_store::{
    TestStore, claimed, delayed, failure, ids, job, of_priority, tenant, topic, unique_for, worker,
};

super::cases![
    a_topic_without_jobs_is_forgotten_with_its_totals_and_its_pause,
    a_topic_with_jobs_is_not_forgotten,
    an_unknown_topic_counts_as_forgotten,
    a_forgotten_topic_is_known_again_by_its_next_job,
    forgetting_a_topic_leaves_others_alone,
    a_unique_value_outlives_its_forgotten_topic,
    a_purge_removes_waiting_and_dead_jobs_and_the_topic,
    a_purge_leaves_running_jobs_alone,
    a_purge_reads_no_more_jobs_than_its_limit,
];

async fn forget(queue: &TestStore, name: &str) -> bool {
    queue.store.forget_topic(&topic(name)).await.unwrap()
}

async fn topics(queue: &TestStore) -> Vec<String> {
    let counts = queue.store.counts(&tenant()).await.unwrap();
    counts.into_iter().map(|counts| counts.topic.topic.to_string()).collect()
}

async fn a_topic_without_jobs_is_forgotten_with_its_totals_and_its_pause(mut queue: TestStore) {
    let claim = queue.running().await;
    queue.settle(&claim, Verdict::Ack(None)).await;
    queue.store.set_paused(&topic("mail"), true).await.unwrap();
    assert!(forget(&queue, "mail").await);
    assert!(topics(&queue).await.is_empty());
    queue.reopen().await;
    assert!(topics(&queue).await.is_empty());
    assert!(queue.store.tenants().await.unwrap().is_empty());
}

async fn a_topic_with_jobs_is_not_forgotten(queue: TestStore) {
    for waiting in [job("mail"), of_priority(Priority::High), delayed("mail", 10)] {
        queue.push(std::slice::from_ref(&waiting)).await;
        assert!(!forget(&queue, "mail").await, "it waits");
        queue.store.cancel(&tenant(), &[waiting.spec.id]).await.unwrap();
    }
    let claim = queue.running().await;
    assert!(!forget(&queue, "mail").await, "it runs");
    queue.settle(&claim, Verdict::Bury(failure(Reason::Trap))).await;
    assert!(!forget(&queue, "mail").await, "it is dead");
    assert_eq!((queue.total("pushed").await, queue.total("cancelled").await), (4, 3), "nothing is forgotten");
    queue.store.delete_dead(&topic("mail"), &[claim.lease.job]).await.unwrap();
    assert!(forget(&queue, "mail").await);
}

async fn an_unknown_topic_counts_as_forgotten(queue: TestStore) {
    assert!(forget(&queue, "mail").await);
    assert!(topics(&queue).await.is_empty());
}

async fn a_forgotten_topic_is_known_again_by_its_next_job(queue: TestStore) {
    let claim = queue.running().await;
    queue.settle(&claim, Verdict::Ack(None)).await;
    queue.store.set_paused(&topic("mail"), true).await.unwrap();
    assert!(forget(&queue, "mail").await);
    let jobs = [job("mail"), delayed("mail", 10)];
    queue.push(&jobs).await;
    assert_eq!((queue.places().await, queue.total("pushed").await), ([1, 1, 0, 0], 2));
    assert_eq!(claimed(&queue.claim(5).await), ids(&jobs[..1]), "it is no longer paused");
    queue.pass(10);
    assert_eq!(queue.migrate().await.moved, 1);
    assert_eq!(claimed(&queue.claim(5).await), ids(&jobs[1..]));
}

async fn forgetting_a_topic_leaves_others_alone(queue: TestStore) {
    // One name begins with the other.
    queue.push(&[job("mail"), job("mail.urgent")]).await;
    let claim = queue.claim_one().await;
    queue.settle(&claim, Verdict::Ack(None)).await;
    assert!(forget(&queue, "mail").await);
    assert_eq!(topics(&queue).await, ["mail.urgent"]);
    assert_eq!(queue.counts("mail.urgent").await.totals["pushed"], 1);
    assert_eq!(queue.claim_as(&worker(), "mail.urgent", 5).await.claims.len(), 1);
}

async fn a_unique_value_outlives_its_forgotten_topic(queue: TestStore) {
    let first = unique_for("mail", "u", 1000);
    queue.push(std::slice::from_ref(&first)).await;
    let claim = queue.claim_one().await;
    queue.settle(&claim, Verdict::Ack(None)).await;
    assert!(forget(&queue, "mail").await);
    assert_eq!(queue.push(&[unique_for("mail", "u", 1000)]).await, [Pushed::Duplicate(first.spec.id)]);
    queue.pass(1000);
    assert_eq!(queue.push(&[unique_for("mail", "u", 1000)]).await, [Pushed::Stored]);
}

async fn a_purge_removes_waiting_and_dead_jobs_and_the_topic(queue: TestStore) {
    queue.dead().await;
    queue.push(&[job("mail"), job("mail"), delayed("mail", 10), job("audit")]).await;
    let purged = purge(&*queue.store, &topic("mail"), 1000).await.unwrap();
    assert_eq!((purged.waiting, purged.dead, purged.forgotten), (3, 1, true));
    assert_eq!(topics(&queue).await, ["audit"]);
    assert!(queue.claim(5).await.is_empty());
    assert_eq!(queue.claim_as(&worker(), "audit", 5).await.claims.len(), 1);
}

async fn a_purge_leaves_running_jobs_alone(queue: TestStore) {
    let claim = queue.running().await;
    queue.push(&[job("mail")]).await;
    let purged = purge(&*queue.store, &topic("mail"), 1000).await.unwrap();
    assert_eq!((purged.waiting, purged.dead, purged.forgotten), (1, 0, false));
    assert_eq!(queue.places().await, [0, 0, 1, 0]);
    queue.settle(&claim, Verdict::Ack(None)).await;
    assert_eq!(queue.total("acked").await, 1);
}

async fn a_purge_reads_no_more_jobs_than_its_limit(queue: TestStore) {
    queue.push(&[job("mail"), job("mail"), delayed("mail", 10)]).await;
    let first = purge(&*queue.store, &topic("mail"), 2).await.unwrap();
    assert_eq!((first.waiting, first.forgotten), (2, false));
    assert_eq!(queue.places().await, [0, 1, 0, 0]);
    let second = purge(&*queue.store, &topic("mail"), 2).await.unwrap();
    assert_eq!((second.waiting, second.forgotten), (1, true));
}
