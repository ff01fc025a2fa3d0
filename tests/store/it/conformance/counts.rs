//! Looking: every job is seen and counted where it is.

use std::time::Duration;

use super::dead::dead_jobs;
use gristmill_core::job::{Payload, Unique};
use gristmill_core::outcome::{Failure, FailureDetail, Reason, Verdict};
use gristmill_store::{JobState, Settlement, TopicCounts};
use gristmill_store_tests::test_store::{
    TestStore, claimed, delayed, failure, foreign, job, retry, settlement, tenant, topic,
};

super::cases![
    bytes_of_jobs_failures_unique_values_and_results_are_counted,
    every_job_is_counted_where_it_is,
    what_became_of_jobs_is_counted_by_name,
    every_reason_of_death_has_its_count,
    a_topic_is_listed_for_good_once_it_held_a_job,
    topics_are_listed_by_name,
    every_tenant_counts_by_itself,
    a_job_is_seen_wherever_it_is,
    every_tenant_that_had_jobs_is_named,
    a_store_of_nothing_counts_nothing,
];

async fn every_job_is_counted_where_it_is(queue: TestStore) {
    queue.dead().await;
    queue.push(&[job("mail"), job("mail"), delayed("mail", 10)]).await;
    queue.claim(1).await;
    assert_eq!(queue.places().await, [1, 1, 1, 1]);
    let totals = queue.counts("mail").await.totals;
    let totals: Vec<_> = totals.iter().filter(|(_, n)| **n > 0).map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(totals, [("dead-trap", 1), ("pushed", 4)]);
}

async fn what_became_of_jobs_is_counted_by_name(queue: TestStore) {
    queue.push(&[job("mail"), job("mail")]).await;
    let verdicts = [
        ("retried", retry(0)),
        ("snoozed", Verdict::Snooze(Duration::ZERO)),
        ("released", Verdict::Release(Duration::ZERO)),
        ("expired", Verdict::Expire),
        ("acked", Verdict::Ack(None)),
    ];
    for (what, verdict) in verdicts {
        let claim = queue.claim_one().await;
        assert_eq!(queue.total(what).await, 0, "{what}");
        queue.settle(&claim, verdict).await;
        assert_eq!(queue.total(what).await, 1, "{what}");
    }
    assert_eq!(queue.places().await, [0; 4]);
}

async fn every_reason_of_death_has_its_count(queue: TestStore) {
    for &reason in Reason::ALL {
        let claim = queue.running().await;
        queue.settle(&claim, Verdict::Bury(failure(reason))).await;
        assert_eq!(queue.total(&format!("dead-{reason}")).await, 1);
    }
    assert_eq!(queue.places().await, [0, 0, 0, Reason::ALL.len() as u64]);
}

async fn a_topic_is_listed_for_good_once_it_held_a_job(queue: TestStore) {
    let claim = queue.running().await;
    queue.settle(&claim, Verdict::Ack(None)).await;
    let counts = queue.store.counts(&tenant()).await.unwrap();
    assert_eq!(counts.len(), 1);
    let TopicCounts { ready, delayed, running, dead, paused, .. } = counts[0];
    assert_eq!((ready, delayed, running, dead, paused), (0, 0, 0, 0, false));
}

async fn topics_are_listed_by_name(queue: TestStore) {
    queue.push(&[job("mail"), delayed("audit", 10), job("Z"), job("a.b"), job("a")]).await;
    let counts = queue.store.counts(&tenant()).await.unwrap();
    let topics: Vec<String> = counts.iter().map(|counts| counts.topic.to_string()).collect();
    assert_eq!(topics, ["acme/Z", "acme/a", "acme/a.b", "acme/audit", "acme/mail"]);
}

async fn every_tenant_counts_by_itself(queue: TestStore) {
    queue.push(&[job("mail"), foreign("mail"), foreign("mail"), foreign("audit")]).await;
    assert_eq!(queue.store.counts(&tenant()).await.unwrap().len(), 1);
    let theirs = queue.store.counts(&foreign("mail").spec.topic.tenant).await.unwrap();
    let theirs: Vec<_> = theirs.iter().map(|counts| (counts.ready, counts.totals["pushed"])).collect();
    assert_eq!(theirs, [(1, 1), (2, 2)]);
}

async fn a_job_is_seen_wherever_it_is(queue: TestStore) {
    let pushed = delayed("mail", 10);
    let id = &pushed.spec.id;
    assert_eq!(queue.state(id).await, None);
    queue.push(std::slice::from_ref(&pushed)).await;
    assert_eq!(queue.state(id).await, Some(JobState::Delayed { until: queue.in_ms(10) }));
    queue.pass(10);
    queue.migrate().await;
    assert_eq!(queue.state(id).await, Some(JobState::Ready));
    let claim = queue.claim_one().await;
    let worker = claim.lease.worker.to_string();
    let running = JobState::Running { worker, delivery: 1, lease_until: claim.lease_until, cancelled: false };
    assert_eq!(queue.state(id).await, Some(running));
    queue.settle(&claim, retry(0)).await;
    let view = queue.view(id).await.unwrap();
    assert_eq!((view.state, view.attempts, view.last_failure), (JobState::Ready, 1, Some(failure(Reason::Failed))));
    assert_eq!(view.job, Some((*claim.job).clone()));
    let claim = queue.claim_one().await;
    queue.settle(&claim, Verdict::Bury(failure(Reason::Trap))).await;
    assert_eq!(queue.state(id).await, Some(JobState::Dead { since: queue.now() }));
}

async fn every_tenant_that_had_jobs_is_named(queue: TestStore) {
    let claim = queue.running().await;
    queue.settle(&claim, Verdict::Ack(None)).await;
    let mut theirs = foreign("mail");
    theirs.due = gristmill_core::job::Due::After(Duration::from_secs(1));
    queue.push(&[theirs]).await;
    let tenants: Vec<String> = queue.store.tenants().await.unwrap().into_iter().map(String::from).collect();
    assert_eq!(tenants, ["acme", "other"]);
}

async fn a_store_of_nothing_counts_nothing(queue: TestStore) {
    assert!(queue.store.counts(&tenant()).await.unwrap().is_empty());
    assert!(queue.store.tenants().await.unwrap().is_empty());
    assert!(dead_jobs(&queue).await.is_empty());
    assert!(queue.view(&"unknown".parse().unwrap()).await.is_none());
    assert!(claimed(&queue.claim(1).await).is_empty());
}

async fn bytes_of_jobs_failures_unique_values_and_results_are_counted(queue: TestStore) {
    let bytes = async || queue.store.stored_bytes(&topic("mail").tenant).await.unwrap();
    // Redis counts what it needs to keep them, too.
    let is_about = |bytes: u64, expected: u64| (expected..expected + 30_000).contains(&bytes);
    assert_eq!(bytes().await, 0);
    let mut large = job("mail");
    large.spec.body.data = vec![7; 100_000];
    large.spec.options.unique = Some(Unique { value: "u".repeat(60_000), window: Some(Duration::from_secs(3600)) });
    queue.push(&[large]).await;
    let claim = queue.claim(1).await.pop().unwrap();
    let pushed = bytes().await;
    assert!(is_about(pushed, 220_000) || is_about(pushed, 160_000), "{pushed}: the value may be kept twice");
    let context = Payload { data: vec![7; 50_000], content_type: None };
    let detail = FailureDetail { code: "c".into(), message: String::new(), context: Some(context) };
    let failure = Failure::new(Reason::Rejected, detail);
    queue.settle(&claim, Verdict::Bury(failure)).await;
    let dead = bytes().await - pushed;
    assert!(is_about(dead, 50_000), "{dead}");
    queue.store.delete_dead(&topic("mail"), &[claim.lease.job]).await.unwrap();
    let left = bytes().await;
    assert!(is_about(left, 60_000), "{left}: the unique value is held for a time");
    let claim = queue.running().await;
    let result = Payload { data: vec![7; 80_000], content_type: None };
    let ack = settlement(&claim, Verdict::Ack(Some(result)));
    queue.settle_with(Settlement { keep_result: Duration::from_secs(3600), ..ack }).await;
    let with_result = bytes().await - left;
    assert!(is_about(with_result, 80_000), "{with_result}");
    let size = queue.store.store_size(&topic("mail").tenant).await.unwrap();
    assert!(size.used >= left, "the whole store takes no less than one tenant: {size:?}");
}
