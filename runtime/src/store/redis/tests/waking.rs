//! Signals, and the look that catches what they miss.

use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use super::mill::{Mill, delayed, job, retry, tenant, topic, until};
use crate::outcome::Verdict;
use crate::store::{Produce, Settlement, Signal, Store, Wanted};

pub(super) async fn next(signals: &mut Receiver<Signal>) -> Signal {
    timeout(Duration::from_secs(10), signals.recv()).await.expect("a signal within ten seconds").unwrap()
}

#[tokio::test]
async fn ready_is_said_when_a_topic_was_empty_and_only_then() {
    let mill = Mill::new().await;
    let mut signals = mill.store.signals(&[tenant()]).await.unwrap();
    mill.push(&[job("mail"), job("mail")]).await;
    mill.push(&[job("mail")]).await;
    mill.push(&[job("other")]).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("other")), "nothing for what was not empty");
    // Three taken of three: the topic counts as empty only once a claim found it so.
    mill.claim(3).await;
    assert!(mill.claim(1).await.is_empty());
    mill.push(&[job("mail")]).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
}

#[tokio::test]
async fn retry_migrate_and_follow_ups_say_ready_too() {
    let mill = Mill::new().await;
    let claim = mill.running().await;
    assert!(mill.claim(1).await.is_empty());
    let mut signals = mill.store.signals(&[tenant()]).await.unwrap();
    mill.settle(&claim, retry(0)).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
    let mut ack = Settlement::new(mill.claim(1).await[0].lease.clone(), Verdict::Ack(None));
    ack.follow_ups = vec![job("next"), delayed("later", 5)];
    mill.settle_with(ack).await;
    let both = [next(&mut signals).await, next(&mut signals).await];
    assert!(both.contains(&Signal::Ready(topic("next"))));
    assert!(both.contains(&Signal::Due(tenant(), Duration::from_millis(5))));
    mill.pass(5);
    mill.migrate().await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("later")));
}

#[tokio::test]
async fn due_is_said_only_if_nothing_is_due_earlier() {
    let mill = Mill::new().await;
    let mut signals = mill.store.signals(&[tenant()]).await.unwrap();
    mill.push(&[delayed("a", 1000)]).await;
    mill.push(&[delayed("b", 2000)]).await;
    mill.push(&[delayed("a", 1500)]).await;
    mill.push(&[delayed("b", 500)]).await;
    assert_eq!(next(&mut signals).await, Signal::Due(tenant(), Duration::from_millis(1000)));
    assert_eq!(next(&mut signals).await, Signal::Due(tenant(), Duration::from_millis(500)));
    let wanted = mill.store.wanted(&tenant(), &[]).await.unwrap();
    assert_eq!(wanted, Wanted { next_due_in: Some(Duration::from_millis(500)), ..Wanted::default() });
}

#[tokio::test]
async fn whoever_waits_for_a_job_is_told_of_its_end() {
    let mill = Mill::new().await;
    let claim = mill.running().await;
    let mut signals = mill.store.signals(&[tenant()]).await.unwrap();
    let quiet = Settlement { notify: true, ..Settlement::new(claim.lease.clone(), retry(0)) };
    mill.settle_with(quiet).await;
    let again = mill.claim(1).await.pop().unwrap();
    mill.settle_with(Settlement { notify: true, ..Settlement::new(again.lease.clone(), Verdict::Ack(None)) }).await;
    assert_eq!(next(&mut signals).await, Signal::Finished(tenant(), again.lease.job));
}

#[tokio::test]
async fn wanted_names_ready_topics_until_they_are_found_empty() {
    let mill = Mill::new().await;
    assert_eq!(mill.store.wanted(&tenant(), &[]).await.unwrap(), Wanted::default());
    mill.push(&[job("mail")]).await;
    assert_eq!(mill.store.wanted(&tenant(), &[]).await.unwrap().ready, [topic("mail")]);
    mill.claim(2).await;
    assert_eq!(mill.store.wanted(&tenant(), &[]).await.unwrap(), Wanted::default());
}

#[tokio::test]
async fn a_slow_receiver_is_told_that_signals_were_lost() {
    let mill = Mill::new().await;
    let mut signals = mill.store.signals(&[tenant()]).await.unwrap();
    let mut topics = 0..;
    // More is said between two looks than may wait; so sooner or later something must have been dropped.
    until("the receiver hears of its loss", async || {
        let jobs: Vec<_> = topics.by_ref().take(1500).map(|n| job(&format!("t{n}"))).collect();
        mill.push(&jobs).await;
        std::iter::from_fn(|| signals.try_recv().ok()).any(|signal| signal == Signal::Lost)
    })
    .await;
}

#[tokio::test]
async fn listening_ends_with_the_receiver() {
    let mill = Mill::new().await;
    let signals = mill.store.signals(&[tenant()]).await.unwrap();
    let wake = mill.store.keys(&tenant()).wake_channel();
    let listeners = async || mill.raw(redis::cmd("PUBSUB").arg("NUMSUB").arg(&wake)).await;
    let count = |n| redis::Value::Array(vec![redis::Value::BulkString(wake.clone().into()), redis::Value::Int(n)]);
    assert_eq!(listeners().await, count(1));
    drop(signals);
    until("the subscription is gone", async || listeners().await == count(0)).await;
}
