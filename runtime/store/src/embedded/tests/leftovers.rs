//! What is left in the file when jobs are gone, and what becomes of rows that make no sense.

use std::time::Duration;

use super::file::TestFile;
use crate::prelude::*;
use crate::tests::{DEAD_AFTER, job, tenant, topic, unique, with, worker};
use crate::{Pushed, Settled, Settlement};
use gristmill_core::outcome::{Reason, Verdict};

#[tokio::test]
async fn an_acked_jobs_body_is_gone_however_large_it_was() {
    let store = TestFile::in_memory().await;
    store.push(&[job("mail"), with("mail", |spec| spec.body.data = vec![7; 100_000])]).await;
    for claim in store.claim(2).await {
        assert_eq!(store.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    }
    assert_eq!(store.number("SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM bodies)").await, 0);
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
    store.raw("UPDATE jobs SET metadata = 'no JSON' WHERE unique_value = 'u'").await;
    let claims = store.claim(10).await;
    assert_eq!((claims.len(), &claims[0].job.spec), (1, &whole.spec));
    let dead = crate::DeadJobs::dead(&store.store, &topic("mail"), 0, 10).await.unwrap().pop().unwrap();
    let failure = dead.failure.unwrap();
    assert_eq!((failure.reason, failure.detail.code.as_str()), (Reason::Rejected, "unreadable"));
    assert_eq!((dead.job.spec.id, dead.job.spec.body), (broken.spec.id, broken.spec.body));
    assert_eq!(store.store.push(&[unique("mail", "u", None)]).await.unwrap(), [Pushed::Stored], "its value is free");
    store.raw("UPDATE jobs SET body = NULL").await;
    store.pass(30_000);
    assert!(store.store.overdue(&[tenant()], DEAD_AFTER, 10).await.unwrap().jobs.is_empty());
    assert_eq!((store.counts("mail").await.running, store.counts("mail").await.dead), (0, 2));
}
