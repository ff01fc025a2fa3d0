//! Claims that wait for jobs.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc;

use crate::embedded::EmbeddedStore;
use crate::embedded::fault::Fault;
use crate::embedded::file::request::{Request, Weight};
use crate::embedded::work::Work;
use crate::prelude::*;
use crate::{ClaimFrom, Claimed, Signal};
use gristmill_core::job::{Claim, Due, JobSpec, NewJob, Payload, TopicId, WorkerId};

fn worker() -> WorkerId {
    WorkerId::new("w")
}

fn lines(topics: &[&str], max: usize) -> Vec<ClaimFrom> {
    let line = |topic: &&str| ClaimFrom::new(topic.parse().unwrap(), max, Duration::from_secs(9));
    topics.iter().map(line).collect()
}

fn job(topic: &str, due: Due) -> NewJob {
    NewJob { spec: JobSpec::new(topic.parse().unwrap(), Payload::default()), due }
}

/// A store, and what wakes a worker.
async fn store() -> (EmbeddedStore, mpsc::Receiver<Signal>) {
    let store = EmbeddedStore::in_memory().await.unwrap();
    let signals = store.wake_ups(&worker(), &["default".parse().unwrap()], &[]).await.unwrap();
    (store, signals)
}

fn ready(signals: &mut mpsc::Receiver<Signal>) -> Vec<String> {
    let signals = std::iter::from_fn(|| signals.try_recv().ok());
    signals
        .filter_map(|signal| if let Signal::Ready(topic) = signal { Some(topic.topic.to_string()) } else { None })
        .collect()
}

fn topics(claimed: &Claimed) -> Vec<&TopicId> {
    claimed.claims.iter().map(|claim: &Claim| &claim.lease.topic).collect()
}

#[tokio::test]
async fn a_claim_that_waits_gets_what_becomes_ready_and_no_worker_is_woken() {
    let (store, mut signals) = store().await;
    let mut shown = store.signals(&["default".parse().unwrap()]).await.unwrap();
    let mut waiting = store.wait_to_claim(&worker(), &lines(&["a", "b"], 2)).unwrap();
    assert!(waiting.claimed().now_or_never().is_none());
    let of_others = [job("c", Due::Now)];
    store.push(&of_others).await.unwrap();
    assert!(waiting.claimed().now_or_never().is_none());
    assert_eq!(ready(&mut signals), ["c"]);

    store.push(&[job("a", Due::Now), job("b", Due::Now), job("b", Due::Now), job("b", Due::Now)]).await.unwrap();
    let claimed = waiting.claimed().await.unwrap();
    let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
    assert_eq!(topics(&claimed), [&a, &b, &b]);
    assert_eq!((&claimed.drained, ready(&mut signals)), (&vec![a], vec!["b".to_owned()]), "one of b is left");
    assert_eq!(ready(&mut shown), ["c", "a", "b"], "what shows signals shows all");
    assert_eq!(claimed.claims[0].attempt, 1);
    // It was one claim.
    store.push(&[job("a", Due::Now)]).await.unwrap();
    assert_eq!(ready(&mut signals), ["a"]);
    assert!(waiting.take_back().await.is_none());
}

#[tokio::test]
async fn what_a_migration_makes_ready_is_claimed_with_it() {
    let (store, mut signals) = store().await;
    store.push(&[job("a", Due::After(Duration::from_millis(1)))]).await.unwrap();
    let mut waiting = store.wait_to_claim(&worker(), &lines(&["a"], 9)).unwrap();
    while store.migrate(&"default".parse().unwrap(), 9).await.unwrap().moved == 0 {}
    assert_eq!(waiting.claimed().await.unwrap().claims.len(), 1);
    assert_eq!(ready(&mut signals), [""; 0]);
}

#[tokio::test]
async fn a_claim_that_is_taken_back_or_dropped_gets_nothing() {
    let (store, mut signals) = store().await;
    let waiting = store.wait_to_claim(&worker(), &lines(&["a"], 9)).unwrap();
    assert!(waiting.take_back().await.is_none());
    drop(store.wait_to_claim(&worker(), &lines(&["a"], 9)));
    store.push(&[job("a", Due::Now)]).await.unwrap();
    assert_eq!(ready(&mut signals), ["a"]);
    assert_eq!(store.claim(&worker(), &lines(&["a"], 9)).await.unwrap().claims.len(), 1);
}

#[tokio::test]
async fn a_claim_that_is_taken_back_too_late_says_what_it_got() {
    let (store, _signals) = store().await;
    let waiting = store.wait_to_claim(&worker(), &lines(&["a"], 9)).unwrap();
    store.push(&[job("a", Due::Now)]).await.unwrap();
    assert_eq!(waiting.take_back().await.unwrap().unwrap().claims.len(), 1);
}

#[tokio::test]
async fn of_two_that_wait_for_a_topic_the_first_one_is_served() {
    let (store, _signals) = store().await;
    let mut first = store.wait_to_claim(&worker(), &lines(&["a"], 2)).unwrap();
    let mut second = store.wait_to_claim(&worker(), &lines(&["a"], 2)).unwrap();
    store.push(&[job("a", Due::Now)]).await.unwrap();
    assert_eq!(first.claimed().await.unwrap().claims.len(), 1);
    assert!(second.claimed().now_or_never().is_none());
    store.push(&[job("a", Due::Now)]).await.unwrap();
    assert_eq!(second.claimed().await.unwrap().claims.len(), 1);
}

#[tokio::test]
async fn a_paused_topic_gives_a_claim_that_waits_nothing() {
    let (store, _signals) = store().await;
    let mut waiting = store.wait_to_claim(&worker(), &lines(&["a"], 1)).unwrap();
    let a = "a".parse().unwrap();
    store.set_paused(&a, true).await.unwrap();
    store.push(&[job("a", Due::Now)]).await.unwrap();
    assert!(waiting.claimed().now_or_never().is_none());
    store.set_paused(&a, false).await.unwrap();
    assert_eq!(waiting.claimed().await.unwrap().claims.len(), 1);
}

#[tokio::test]
async fn a_claim_that_waits_and_fails_fails_no_push() {
    let (store, mut signals) = store().await;
    let fail = |_: &mut Work<'_>| Err::<(), _>(Fault::Refused("it fails".into()));
    let (request, answer) = Request::new(store.clock.clone(), Weight::default(), fail);
    store.waiting_claims().add(&lines(&["a"], 9), request);
    store.push(&[job("a", Due::Now)]).await.unwrap();
    assert!(answer.await.unwrap().is_err());
    assert_eq!(ready(&mut signals), ["a"]);
    assert_eq!(store.claim(&worker(), &lines(&["a"], 9)).await.unwrap().claims.len(), 1);
}
