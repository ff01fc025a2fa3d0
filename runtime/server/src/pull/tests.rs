//! What becomes of jobs that were claimed for somebody who is gone.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body;

use super::body::HandingOver;
use super::claim_guard::{ClaimGuard, Taken, give_back_lost};
use super::lease;
use gristmill_core::job::{Claim, Due, JobSpec, Name, NewJob, Payload, TopicId, Unique, WorkerId};
use gristmill_store::embedded::EmbeddedStore;
use gristmill_store::{ClaimFrom, JobState, Store};

fn tenant() -> Name {
    "acme".parse().unwrap()
}

fn topic() -> TopicId {
    TopicId { tenant: tenant(), topic: "mail".parse().unwrap() }
}

/// A store with so many jobs that `worker` has claimed.
async fn claimed(count: usize, worker: &WorkerId) -> (Arc<dyn Store>, Vec<Claim>) {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::in_memory().await.unwrap());
    let job = || NewJob { spec: JobSpec::new(topic(), Payload::default()), due: Due::Now };
    store.push(&(0..count).map(|_| job()).collect::<Vec<_>>()).await.unwrap();
    let from = ClaimFrom { topic: topic(), max: count, lease: Duration::from_secs(3600) };
    let claims = store.claim(worker, &[from]).await.unwrap().claims;
    assert_eq!(claims.len(), count);
    (store, claims)
}

fn held(store: &Arc<dyn Store>, claims: &[Claim]) -> ClaimGuard {
    let mut held = ClaimGuard::new(store.clone());
    held.add(claims.iter().map(|claim| Taken { claim: claim.clone(), retention: Duration::ZERO }));
    held
}

/// Ready and running jobs, once as many are ready.
async fn until_ready(store: &Arc<dyn Store>, count: u64) {
    let begun = std::time::Instant::now();
    while store.counts(&tenant()).await.unwrap()[0].ready < count {
        assert!(begun.elapsed() < Duration::from_secs(30), "the jobs did not come back");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn assert_given_back(store: &Arc<dyn Store>, claim: &Claim) {
    until_ready(store, 1).await;
    let view = store.job(&tenant(), &claim.lease.job).await.unwrap().unwrap();
    assert_eq!((view.state, view.attempts), (JobState::Ready, 0));
}

async fn assert_running(store: &Arc<dyn Store>, claim: &Claim) {
    let view = store.job(&tenant(), &claim.lease.job).await.unwrap().unwrap();
    assert!(matches!(view.state, JobState::Running { .. }), "{view:?}");
}

#[tokio::test]
async fn what_nobody_took_goes_back_without_an_attempt() {
    let (store, claims) = claimed(1, &lease::worker(None)).await;
    drop(held(&store, &claims));
    assert_given_back(&store, &claims[0]).await;
}

#[tokio::test]
async fn what_does_not_fit_goes_back_and_the_rest_stays() {
    let (store, claims) = claimed(3, &lease::worker(None)).await;
    let mut held = held(&store, &claims);
    held.keep_first(2);
    assert_eq!(held.jobs().len(), 2);
    until_ready(&store, 1).await;
    held.hand_over();
    assert_running(&store, &claims[0]).await;
    assert_running(&store, &claims[1]).await;
    assert_given_back(&store, &claims[2]).await;
}

/// Asks the body for its next frame, as a connection does.
async fn next(body: &mut HandingOver) -> Option<Bytes> {
    let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?;
    frame.unwrap().into_data().ok()
}

#[tokio::test]
async fn an_answer_that_broke_off_before_its_last_byte_gives_back() {
    let (store, claims) = claimed(1, &lease::worker(None)).await;
    let mut body = HandingOver::new(Bytes::from_static(b"{\"claims\":[]}"), held(&store, &claims));
    assert_eq!(body.size_hint().exact(), Some(13));
    assert_eq!(next(&mut body).await.as_deref(), Some(&b"{\"claims\":[]"[..]));
    assert!(!body.is_end_stream());
    drop(body);
    assert_given_back(&store, &claims[0]).await;
}

#[tokio::test]
async fn an_answer_that_was_taken_whole_is_the_workers() {
    let (store, claims) = claimed(1, &lease::worker(None)).await;
    let mut body = HandingOver::new(Bytes::from_static(b"{}"), held(&store, &claims));
    let whole = [next(&mut body).await.unwrap(), next(&mut body).await.unwrap()].concat();
    assert_eq!(whole, b"{}");
    assert!(body.is_end_stream() && next(&mut body).await.is_none());
    drop(body);
    assert_running(&store, &claims[0]).await;
    let body = HandingOver::new(Bytes::from_static(b"[1]"), ClaimGuard::new(store));
    assert_eq!(body.collect().await.unwrap().to_bytes(), "[1]");
}

#[tokio::test]
async fn what_a_lost_reply_claimed_is_found_and_given_back() {
    let worker = lease::worker(Some(&"press".parse().unwrap()));
    let (store, claims) = claimed(1, &worker).await;
    give_back_lost(store.clone(), tenant(), lease::worker(Some(&"press".parse().unwrap()))).await;
    assert_running(&store, &claims[0]).await;
    give_back_lost(store.clone(), tenant(), worker).await;
    assert_given_back(&store, &claims[0]).await;
}

#[tokio::test]
async fn a_lease_reads_as_it_was_written() {
    let (_, mut claims) = claimed(1, &lease::worker(None)).await;
    let mut claim = claims.remove(0);
    let mut job = (*claim.job).clone();
    job.spec.max_attempts = Some(7);
    job.spec.keep_result = Some(Duration::from_millis(1500));
    job.spec.unique = Some(Unique { value: "ü/1".into(), window: None });
    claim.job = Arc::new(job);
    let text = lease::write(&claim);
    assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')), "{text}");
    let read = lease::read(&tenant(), &text).unwrap();
    let facts = |claim: &Claim| {
        let spec = &claim.job.spec;
        (claim.lease.clone(), claim.attempt, spec.max_attempts, spec.keep_result, spec.unique.clone())
    };
    assert_eq!(facts(&read), facts(&claim));
    // Whatever it says, it is of the tenant that asks, and of a pull worker.
    let other: Name = "other".parse().unwrap();
    assert_eq!(lease::read(&other, &text).unwrap().lease.topic.tenant, other);
    assert!(read.lease.worker.as_str().starts_with("pull:"));
    for bad in ["", "e30", "!", &text[1..]] {
        assert!(lease::read(&tenant(), bad).is_err(), "{bad}");
    }
}
