//! Sweep: dead jobs over age or number are dropped, and the drops are counted.

use std::time::Duration;

use gristmill_core::job::{JobId, NewJob};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{DeadLimits, Settlement, Sweepable};
use gristmill_store_tests::test_store::{
    Kind, TestStore, claimed, delayed, failure, ids, job, settlement, tenant, topic, unique_for,
};
use gristmill_test_servers::wait::{SOON, until};

super::cases![
    dead_jobs_over_age_are_dropped,
    nothing_but_dead_jobs_is_dropped,
    topics_that_are_not_named_are_not_swept,
    a_swept_job_is_gone_and_its_id_is_free,
    the_result_of_a_swept_job_is_kept_for_its_time,
    topics_with_dead_jobs_are_found_to_be_swept,
    a_topic_whose_jobs_wait_for_long_is_not_forgotten,
    topics_that_are_not_in_use_are_found_and_forgotten,
    ; in_order:
    dead_jobs_over_number_are_dropped_and_the_latest_stay,
    drops_are_counted_as_discarded,
    each_line_is_answered_by_itself,
    sweeping_again_and_again_drops_all_that_is_over,
];

fn limits(of: &str, keep: u64, retention_ms: u64) -> DeadLimits {
    DeadLimits { topic: topic(of), keep, retention: Duration::from_millis(retention_ms) }
}

const LONG_MS: u64 = 86_400_000;

async fn sweep(queue: &TestStore, keep: u64, retention_ms: u64) -> u64 {
    queue.store.sweep(&[limits("mail", keep, retention_ms)]).await.unwrap().remove(0)
}

async fn dead(queue: &TestStore) -> Vec<JobId> {
    let oldest = queue.store.oldest_dead(&topic("mail"), 1000).await.unwrap();
    oldest.into_iter().rev().map(|(_, id)| id).collect()
}

async fn dead_jobs_over_age_are_dropped(queue: TestStore) {
    queue.dead().await;
    queue.pass(50);
    let young = queue.dead().await.lease.job;
    queue.pass(49);
    assert_eq!(sweep(&queue, 100, 100).await, 0);
    queue.pass(1);
    assert_eq!(sweep(&queue, 100, 100).await, 1);
    assert_eq!(dead(&queue).await, [young]);
}

async fn dead_jobs_over_number_are_dropped_and_the_latest_stay(queue: TestStore) {
    let mut buried = Vec::new();
    for _ in 0..5 {
        buried.insert(0, queue.dead().await.lease.job);
        queue.pass(1);
    }
    assert_eq!(sweep(&queue, 5, LONG_MS).await, 0);
    assert_eq!(sweep(&queue, 2, LONG_MS).await, 3);
    assert_eq!(dead(&queue).await, buried[..2]);
    assert_eq!(sweep(&queue, 0, LONG_MS).await, 2);
    assert!(dead(&queue).await.is_empty());
}

async fn drops_are_counted_as_discarded(queue: TestStore) {
    for _ in 0..3 {
        queue.dead().await;
    }
    assert_eq!(sweep(&queue, 1, LONG_MS).await, 2);
    queue.pass(LONG_MS);
    assert_eq!(sweep(&queue, 1, LONG_MS).await, 1);
    assert_eq!((queue.total("discarded").await, queue.total("dead-trap").await), (3, 3));
    assert_eq!(queue.places().await, [0; 4]);
}

async fn nothing_but_dead_jobs_is_dropped(queue: TestStore) {
    queue.running().await;
    queue.push(&[job("mail"), delayed("mail", 10 * LONG_MS)]).await;
    queue.pass(LONG_MS);
    assert_eq!(sweep(&queue, 0, 1).await, 0);
    assert_eq!(queue.places().await, [1, 1, 1, 0]);
    assert_eq!(queue.total("discarded").await, 0);
}

async fn bury(queue: &TestStore, jobs: &[NewJob], of: &str) {
    queue.push(jobs).await;
    let claims = queue.claim_as(&gristmill_store_tests::test_store::worker(), of, jobs.len()).await.claims;
    assert_eq!(claimed(&claims), ids(jobs));
    let bury = |claim| settlement(claim, Verdict::Bury(failure(Reason::Trap)));
    queue.store.settle(&claims.iter().map(bury).collect::<Vec<_>>()).await.unwrap();
}

async fn each_line_is_answered_by_itself(queue: TestStore) {
    bury(&queue, &[job("a"), job("a"), job("a")], "a").await;
    bury(&queue, &[job("b"), job("b")], "b").await;
    let lines = [limits("b", 1, LONG_MS), limits("none", 0, 0), limits("a", 1, LONG_MS)];
    assert_eq!(queue.store.sweep(&lines).await.unwrap(), [1, 0, 2]);
    assert!(queue.store.sweep(&[]).await.unwrap().is_empty());
}

async fn topics_that_are_not_named_are_not_swept(queue: TestStore) {
    queue.dead().await;
    queue.pass(LONG_MS);
    assert_eq!(queue.store.sweep(&[limits("audit", 0, 0)]).await.unwrap(), [0]);
    assert_eq!(dead(&queue).await.len(), 1);
}

async fn a_swept_job_is_gone_and_its_id_is_free(queue: TestStore) {
    let claim = queue.dead().await;
    sweep(&queue, 0, LONG_MS).await;
    assert_eq!(queue.view(&claim.lease.job).await, None);
    let mut again = job("mail");
    again.spec.id = claim.lease.job;
    queue.push(&[again]).await;
    let again = queue.claim_one().await;
    assert_eq!((again.attempt, again.previous), (1, None));
}

async fn the_result_of_a_swept_job_is_kept_for_its_time(queue: TestStore) {
    let claim = queue.running().await;
    let bury = settlement(&claim, Verdict::Bury(failure(Reason::Trap)));
    queue.settle_with(Settlement { keep_result: Duration::from_millis(LONG_MS), ..bury }).await;
    queue.pass(1000);
    assert_eq!(sweep(&queue, 9, 1000).await, 1);
    assert!(queue.view(&claim.lease.job).await.unwrap().result.is_some());
}

async fn sweeping_again_and_again_drops_all_that_is_over(queue: TestStore) {
    let jobs: Vec<NewJob> = (0..2500).map(|_| job("mail")).collect();
    bury(&queue, &jobs, "mail").await;
    let mut dropped = 0;
    until("all but seven to be dropped", SOON, async || {
        dropped += sweep(&queue, 7, LONG_MS).await;
        (queue.places().await == [0, 0, 0, 7]).then_some(())
    })
    .await;
    assert_eq!((dropped, queue.total("discarded").await), (2493, 2493));
}

async fn sweepable(queue: &TestStore) -> Sweepable {
    queue.store.sweepable(&topic("mail").tenant, Duration::from_millis(LONG_MS)).await.unwrap()
}

async fn topics_with_dead_jobs_are_found_to_be_swept(queue: TestStore) {
    assert_eq!(sweepable(&queue).await, Sweepable::default());
    queue.push(&[job("fax")]).await;
    queue.dead().await;
    assert_eq!(sweepable(&queue).await.perishable, [topic("mail")], "dead jobs perish, others do not");
    sweep(&queue, 0, 0).await;
    assert_eq!(sweepable(&queue).await.perishable, []);
}

async fn topics_that_are_not_in_use_are_found_and_forgotten(queue: TestStore) {
    for name in ["mail", "fax", "held"] {
        let job = job(name);
        queue.push(std::slice::from_ref(&job)).await;
        queue.store.cancel(&job.spec.topic.tenant, &[job.spec.id]).await.unwrap();
    }
    queue.store.set_paused(&topic("held"), true).await.unwrap();
    queue.pass(LONG_MS - 1);
    assert_eq!(sweepable(&queue).await.idle, []);
    queue.push(&[job("fax")]).await;
    queue.pass(1);
    assert_eq!(sweepable(&queue).await.idle, [topic("mail")], "one is in use, one is paused");
    assert!(queue.store.forget_topic(&topic("mail")).await.unwrap());
    assert_eq!(sweepable(&queue).await, Sweepable::default());
    let names: Vec<_> = queue.store.counts(&topic("mail").tenant).await.unwrap();
    let names: Vec<_> = names.into_iter().map(|counts| counts.topic).collect();
    assert_eq!(names, [topic("fax"), topic("held")]);
}

async fn a_topic_whose_jobs_wait_for_long_is_not_forgotten(queue: TestStore) {
    queue.push(&[delayed("mail", 3 * LONG_MS)]).await;
    queue.pass(LONG_MS);
    for topic in sweepable(&queue).await.idle {
        assert!(!queue.store.forget_topic(&topic).await.unwrap());
    }
    assert_eq!(sweepable(&queue).await.idle, [], "one that cannot be forgotten makes room for others");
    queue.pass(2 * LONG_MS);
    assert_eq!(queue.store.migrate(&topic("mail").tenant, 10).await.unwrap().moved, 1);
}

#[tokio::test]
async fn a_file_keeps_no_row_of_a_forgotten_topic() {
    let queue = TestStore::new(Kind::File).await;
    queue.push(&[unique_for("mail", "u", 50)]).await;
    let claim = queue.claim_one().await;
    queue.settle(&claim, Verdict::Ack(None)).await;
    for paused in [true, false] {
        queue.store.set_paused(&topic("paused"), paused).await.unwrap();
    }
    let forget_idle = async || {
        let idle = queue.store.sweepable(&tenant(), Duration::from_millis(20)).await.unwrap().idle;
        for topic in &idle {
            assert!(queue.store.forget_topic(topic).await.unwrap());
        }
        queue.store.sweep(&[]).await.unwrap();
        idle.len()
    };
    queue.pass(20);
    assert_eq!(forget_idle().await, 2);
    queue.pass(50);
    assert_eq!((forget_idle().await, forget_idle().await, forget_idle().await), (0, 1, 0));
    let file = rusqlite::Connection::open(queue.file()).unwrap();
    assert_eq!(file.query_row("SELECT count(*) FROM topics", [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}
