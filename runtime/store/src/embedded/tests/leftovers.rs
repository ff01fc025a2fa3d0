//! What is left in the file when jobs are gone, and what becomes of rows that make no sense.

use std::time::Duration;

use super::file::TestFile;
use crate::embedded::Durability;
use crate::prelude::*;
use crate::tests::{DEAD_AFTER, LEASE, bury, delayed, job, of_priority, retry, tenant, topic, unique, with, worker};
use crate::{ClaimFrom, Pushed, Settled, Settlement, StateFilter};
use gristmill_core::job::{Lease, Priority, WorkerId};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_core::topic::{FleetLimits, KeyLimits, Rate};

#[tokio::test]
async fn an_acked_jobs_body_is_gone_however_large_it_was() {
    let store = TestFile::in_memory().await;
    store.push(&[job("mail"), with("mail", |spec| spec.body.data = vec![7; 100_000])]).await;
    for claim in store.claim(2).await {
        assert_eq!(store.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    }
    assert_eq!(
        store
            .number(
                "SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM bodies) + (SELECT count(*) FROM batches)"
            )
            .await,
        0
    );
}

#[tokio::test]
async fn the_view_of_jobs_has_columns_of_its_options() {
    let store = TestFile::in_memory().await;
    let full = with("mail", |spec| {
        spec.options.max_attempts = Some(3);
        spec.options.ttl = Some(Duration::from_secs(60));
        spec.options.keep_result = Some(Duration::from_millis(5));
    });
    store.push(&[full, job("mail")]).await;
    let columns = "SELECT count(*) FROM jobs WHERE (max_attempts, ttl_ms, keep_result_ms) IS (3, 60000, 5)";
    assert_eq!(store.number(columns).await, 1);
    let absent = "SELECT count(*) FROM jobs WHERE coalesce(max_attempts, ttl_ms, keep_result_ms, options) IS NULL";
    assert_eq!(store.number(absent).await, 1);
}

#[tokio::test]
async fn results_values_and_workers_whose_time_is_over_are_swept() {
    let store = TestFile::in_memory().await;
    store.store.heartbeat(&worker()).await.unwrap();
    store.push(&[unique("mail", "u", Some(5))]).await;
    let claim = store.claim(1).await.pop().unwrap();
    let ack = Settlement::new(claim.lease, Verdict::Ack(None));
    store.settle_with(Settlement { keep_result: Duration::from_millis(5), ..ack }).await;
    let left = async || {
        store.store.sweep(&[]).await.unwrap();
        store.number(
            "SELECT (SELECT count(*) FROM results) + (SELECT count(*) FROM uniques) + (SELECT count(*) FROM workers)",
        )
        .await
    };
    store.pass(4);
    assert_eq!(left().await, 3);
    assert_eq!(store.store.stored_bytes(&tenant()).await.unwrap(), 1, "the unique value");
    store.pass(1);
    assert_eq!(left().await, 1);
    store.pass(3_600_000);
    assert_eq!(left().await, 0);
}

#[tokio::test]
async fn an_unreadable_job_is_buried_and_the_others_go_on() {
    let store = TestFile::in_memory().await;
    let (broken, whole) = (unique("mail", "u", None), job("mail"));
    store.push(&[broken.clone(), whole.clone()]).await;
    store.raw("UPDATE job_rows SET metadata = 'no JSON' WHERE unique_value = 'u'").await;
    let claims = store.claim(10).await;
    assert_eq!((claims.len(), &claims[0].job.spec), (1, &whole.spec));
    let dead = store.store.jobs(&topic("mail"), StateFilter::Dead, None, 10).await.unwrap().jobs.pop().unwrap();
    let failure = dead.last_failure.unwrap();
    assert_eq!((failure.reason, failure.detail.code.as_str()), (Reason::Rejected, "unreadable"));
    assert_eq!((dead.id, dead.job.unwrap().spec.body), (broken.spec.id, broken.spec.body));
    assert_eq!(store.store.push(&[unique("mail", "u", None)]).await.unwrap(), [Pushed::Stored], "its value is free");
    store.raw("UPDATE job_rows SET body = NULL").await;
    store.pass(30_000);
    assert!(store.store.overdue(&[tenant()], DEAD_AFTER, 10).await.unwrap().jobs.is_empty());
    assert_eq!((store.counts("mail").await.running, store.counts("mail").await.dead), (0, 2));
}

#[tokio::test]
async fn people_see_every_job_with_its_state() {
    let store = TestFile::in_memory().await;
    store.push(&[delayed("mail", 60_000), job("mail"), job("mail"), job("mail")]).await;
    let claims = store.claim(2).await;
    store.settle(&claims[0], bury()).await;
    let states = "SELECT group_concat(state || attempts || deliveries || coalesce(worker, ''), ' ') FROM
                      (SELECT * FROM jobs WHERE tenant = 'acme' AND topic = 'mail' ORDER BY state)";
    let ask = store
        .store
        .read("test", move |connection, _| Ok(connection.query_row(states, [], |row| row.get::<_, String>(0))?));
    assert_eq!(ask.await.unwrap(), format!("dead11 delayed00 ready00 running11{}", worker().as_str()));
}

#[tokio::test]
async fn what_runs_is_known_when_the_file_is_opened_again() {
    let store = TestFile::on_disk(Durability::Process).await;
    store.push(&[of_priority(Priority::High), job("mail"), unique("mail", "u", None), job("mail"), job("mail")]).await;
    let claims = store.claim(4).await;
    store.settle(&claims[1], Verdict::Ack(None)).await;
    let cancelled = claims[3].lease.job.clone();
    store.store.cancel(&tenant(), std::slice::from_ref(&cancelled)).await.unwrap();
    let store = store.reopen().await;
    let other = WorkerId::new("other");
    let stolen = Lease { worker: other, ..claims[0].lease.clone() };
    assert_eq!(store.settle_with(Settlement::new(stolen, Verdict::Ack(None))).await, Settled::LeaseLost);
    assert_eq!(store.settle(&claims[0], retry(0)).await, Settled::Done);
    assert_eq!(store.settle(&claims[1], Verdict::Ack(None)).await, Settled::LeaseLost);
    assert_eq!(store.settle(&claims[2], Verdict::Ack(None)).await, Settled::Done);
    assert_eq!(store.settle(&claims[3], retry(0)).await, Settled::Cancelled);
    assert_eq!(store.number("SELECT (SELECT count(*) FROM batches) + (SELECT count(*) FROM uniques)").await, 0);
    let again = store.claim(4).await;
    assert_eq!(again.len(), 2);
    let again = again.into_iter().find(|claim| claim.lease.job == claims[0].lease.job).unwrap();
    assert_eq!((again.lease.delivery, again.attempt), (2, 2));
}

#[tokio::test]
async fn a_claim_has_a_greater_number_than_any_before_it() {
    let store = TestFile::on_disk(Durability::Process).await;
    store.push(&[job("mail"), job("mail"), job("mail")]).await;
    let number = "SELECT max(claim) FROM batches";
    store.claim(1).await;
    let first = store.number(number).await;
    assert_eq!(
        first,
        store.now().as_millis() as i64 * 1024,
        "it follows the time, also where nothing is left in the file"
    );
    store.claim(1).await;
    let second = store.number(number).await;
    let store = store.reopen().await;
    store.clock.set_back(5000);
    store.claim(1).await;
    assert!(first < second && second < store.number(number).await);
}

#[tokio::test]
async fn a_damaged_topic_stops_no_other() {
    let store = TestFile::on_disk(Durability::Process).await;
    store.push(&[job("audit"), job("mail")]).await;
    let large = with("broken", |spec| spec.body.data = vec![7; 100_000]);
    store.push(&[large]).await;
    let store = store.with_page_changed("SELECT rootpage FROM sqlite_schema WHERE name = 'bodies'").await;
    let lines = ["audit", "broken", "mail"].map(|of| ClaimFrom::new(topic(of), 9, LEASE));
    let claimed = store.store.claim(&worker(), &lines).await.unwrap();
    let topics: Vec<_> = claimed.claims.iter().map(|claim| &claim.lease.topic).collect();
    assert_eq!(topics, [&topic("audit"), &topic("mail")]);
    assert_eq!(claimed.refused.len(), 1, "{:?}", claimed.refused);
    assert_eq!(claimed.refused[0].0, topic("broken"));
    assert!(claimed.refused[0].1.to_string().contains("jobs.db"), "{:?}", claimed.refused);
    assert_eq!((store.counts("broken").await.ready, store.counts("broken").await.running), (1, 0));
}

#[tokio::test]
async fn buckets_of_keys_that_are_full_again_are_forgotten() {
    let store = TestFile::in_memory().await;
    let rate = Some(Rate::new(1, Duration::from_secs(1)));
    let limits = FleetLimits { per_key: KeyLimits { rate, ..KeyLimits::DEFAULT }, ..FleetLimits::NONE };
    let from = ClaimFrom::new(topic("mail"), 100, LEASE).within(limits);
    for round in 0..5 {
        let job = |n| with("mail", |spec| spec.options.key = Some(format!("k{}", round * 10 + n)));
        store.push(&(0..10).map(job).collect::<Vec<_>>()).await;
        assert_eq!(store.store.claim(&worker(), std::slice::from_ref(&from)).await.unwrap().claims.len(), 10);
        assert_eq!(store.number("SELECT count(*) FROM key_rates").await, 10, "in round {round}");
        store.pass(1000);
    }
}
