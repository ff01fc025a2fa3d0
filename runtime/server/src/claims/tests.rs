//! What becomes of jobs that were claimed for a client that is gone.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body;

use super::answer::DeliveringBody;
use super::guard::{Claimed, give_back_lost};
use super::worker::worker;
use crate::serve::DeliveryTracker;
use gristmill_core::job::{Claim, Due, JobSpec, Name, NewJob, Payload, TopicId, WorkerId};
use gristmill_store::embedded::EmbeddedStore;
use gristmill_store::{ClaimFrom, JobState, Store};

fn tenant() -> Name {
    "acme".parse().unwrap()
}

fn topic() -> TopicId {
    TopicId { tenant: tenant(), topic: "mail".parse().unwrap() }
}

/// The worker of one claim of the client `press`.
fn press(number: u64) -> WorkerId {
    worker("press", number, &topic().topic)
}

/// A store with this many jobs that `worker` has claimed.
async fn claimed(count: usize, worker: &WorkerId) -> (Arc<dyn Store>, Vec<Claim>) {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::in_memory().await.unwrap());
    let job = || NewJob { spec: JobSpec::new(topic(), Payload::default()), due: Due::Now };
    store.push(&(0..count).map(|_| job()).collect::<Vec<_>>()).await.unwrap();
    let from = ClaimFrom::new(topic(), count, Duration::from_secs(3600));
    let claims = store.claim(worker, &[from]).await.unwrap().claims;
    assert_eq!(claims.len(), count);
    (store, claims)
}

fn guarded(store: &Arc<dyn Store>, claims: &[Claim]) -> Claimed {
    let mut claimed = Claimed::new(store.clone());
    claimed.add(claims.to_vec(), Duration::ZERO);
    claimed
}

/// An answer that delivers the claims.
fn body(document: &'static [u8], claimed: Claimed, tracker: &DeliveryTracker) -> DeliveringBody {
    DeliveringBody::new(Bytes::from_static(document), claimed.guard, tracker.clone())
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
async fn jobs_that_are_not_delivered_go_back_without_an_attempt() {
    let (store, claims) = claimed(1, &press(1)).await;
    drop(guarded(&store, &claims));
    assert_given_back(&store, &claims[0]).await;
}

#[tokio::test]
async fn jobs_that_do_not_fit_go_back_and_the_rest_stays() {
    let (store, claims) = claimed(3, &press(1)).await;
    let mut claimed = guarded(&store, &claims);
    claimed.keep_first(2);
    assert_eq!(claimed.claims.len(), 2);
    until_ready(&store, 1).await;
    claimed.guard.delivered();
    assert_running(&store, &claims[0]).await;
    assert_running(&store, &claims[1]).await;
    assert_given_back(&store, &claims[2]).await;
}

/// Asks the body for its next frame, as a connection does.
async fn next(body: &mut DeliveringBody) -> Option<Bytes> {
    let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?;
    frame.unwrap().into_data().ok()
}

#[tokio::test]
async fn an_answer_that_broke_off_before_its_last_byte_gives_back() {
    let (store, claims) = claimed(1, &press(1)).await;
    let mut body = body(b"{\"claims\":[]}", guarded(&store, &claims), &DeliveryTracker::default());
    assert_eq!(body.size_hint().exact(), Some(13));
    assert_eq!(next(&mut body).await.as_deref(), Some(&b"{\"claims\":[]"[..]));
    assert!(!body.is_end_stream());
    drop(body);
    assert_given_back(&store, &claims[0]).await;
}

#[tokio::test]
async fn a_whole_answer_is_the_clients_unless_its_connection_refuses_it() {
    let (store, claims) = claimed(2, &press(1)).await;
    let connections = [DeliveryTracker::default(), DeliveryTracker::default()];
    for (claim, connection) in claims.iter().zip(&connections) {
        let mut body = body(b"{}", guarded(&store, std::slice::from_ref(claim)), connection);
        let whole = [next(&mut body).await.unwrap(), next(&mut body).await.unwrap()].concat();
        assert_eq!(whole, b"{}");
        assert!(body.is_end_stream() && next(&mut body).await.is_none());
    }
    let [taken, refused] = connections;
    taken.delivered();
    refused.refused();
    assert_given_back(&store, &claims[1]).await;
    assert_running(&store, &claims[0]).await;
}

#[tokio::test]
async fn an_answer_without_jobs_comes_whole() {
    let (store, _) = claimed(0, &press(1)).await;
    let body = body(b"[1]", Claimed::new(store), &DeliveryTracker::default());
    assert_eq!(body.collect().await.unwrap().to_bytes(), "[1]");
}

#[tokio::test]
async fn jobs_of_a_claim_whose_reply_was_lost_are_found_and_given_back() {
    let worker = press(1);
    let (store, claims) = claimed(2, &worker).await;
    let delivered = HashSet::from([claims[0].lease.job.clone()]);
    give_back_lost(store.clone(), tenant(), press(2), HashSet::new()).await;
    assert_running(&store, &claims[1]).await;
    give_back_lost(store.clone(), tenant(), worker, delivered).await;
    assert_given_back(&store, &claims[1]).await;
    assert_running(&store, &claims[0]).await;
}
