//! Time to live: the store keeps what the runner needs to know that a job must not start any more.

use std::time::Duration;

use gristmill_core::job::NewJob;
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{ResultView, Settled, Settlement};
use gristmill_store_tests::test_store::{LEASE, TestStore, delayed, failure, job, retry, settlement, topic};

super::cases![
    a_time_to_live_begins_when_the_job_is_due,
    a_time_to_live_goes_on_through_retries,
    a_time_to_live_starts_anew_with_respawn,
    a_job_without_one_never_expires,
    an_expired_jobs_end_is_counted_and_kept,
];

fn with_ttl(mut job: NewJob, ms: u64) -> NewJob {
    job.spec.options.ttl = Some(Duration::from_millis(ms));
    job
}

async fn a_time_to_live_begins_when_the_job_is_due(queue: TestStore) {
    queue.push(&[with_ttl(delayed("mail", 100), 50)]).await;
    let expires_at = queue.in_ms(150);
    queue.pass(120);
    queue.migrate().await;
    assert_eq!(queue.claim_one().await.job.expires_at(), Some(expires_at));
}

async fn a_time_to_live_goes_on_through_retries(queue: TestStore) {
    queue.push(&[with_ttl(job("mail"), 50)]).await;
    let expires_at = queue.in_ms(50);
    let claim = queue.claim_one().await;
    queue.pass(10);
    queue.settle(&claim, retry(10)).await;
    queue.pass(10);
    queue.migrate().await;
    assert_eq!(queue.claim_one().await.job.expires_at(), Some(expires_at));
}

async fn a_time_to_live_starts_anew_with_respawn(queue: TestStore) {
    queue.push(&[with_ttl(job("mail"), 50)]).await;
    let claim = queue.claim_one().await;
    queue.settle(&claim, Verdict::Bury(failure(Reason::Trap))).await;
    queue.pass(1000);
    queue.store.respawn(&topic("mail"), &[claim.lease.job]).await.unwrap();
    let expires_at = queue.in_ms(50);
    queue.pass(5);
    assert_eq!(queue.claim_one().await.job.expires_at(), Some(expires_at));
}

async fn a_job_without_one_never_expires(queue: TestStore) {
    assert_eq!(queue.running().await.job.expires_at(), None);
}

async fn an_expired_jobs_end_is_counted_and_kept(queue: TestStore) {
    queue.push(&[with_ttl(job("mail"), 1)]).await;
    let claim = queue.claim_one().await;
    let expire = Settlement { keep_result: LEASE, ..settlement(&claim, Verdict::Expire) };
    assert_eq!(queue.settle_with(expire).await, Settled::Done);
    assert_eq!(queue.view(&claim.lease.job).await.unwrap().result, Some(ResultView::Expired));
    assert_eq!(queue.total("expired").await, 1);
}
