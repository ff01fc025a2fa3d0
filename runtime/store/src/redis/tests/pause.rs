//! Topics of which nothing is handed out for a while.

use super::mill::{LEASE, Mill, delayed, job, retry, tenant, topic, worker};
use super::waking::next;
use crate::{ClaimFrom, Inspect, Produce, Signal, Store};

async fn pause(mill: &Mill, paused: bool) -> bool {
    mill.store.set_paused(&topic("mail"), paused).await.unwrap()
}

#[tokio::test]
async fn nothing_of_a_paused_topic_is_handed_out() {
    let mill = Mill::new().await;
    mill.push(&[job("mail"), delayed("mail", 5), job("other")]).await;
    assert!(pause(&mill, true).await);
    assert!(!pause(&mill, true).await);
    assert_eq!(mill.store.poll_work(&tenant(), &[]).await.unwrap().ready, [topic("other")]);
    mill.pass(5);
    assert_eq!(mill.migrate().await, 1);
    mill.push(&[job("mail")]).await;
    let line = |of: &str| ClaimFrom { topic: topic(of), max: 1, lease: LEASE };
    let claimed = mill.store.claim(&worker(), &[line("mail"), line("other")]).await.unwrap();
    assert_eq!((claimed.claims.len(), claimed.drained), (1, vec![topic("mail")]));
    assert_eq!(mill.store.poll_work(&tenant(), &[]).await.unwrap().ready, [topic("other")]);
    let counts = mill.counts("mail").await;
    assert_eq!((counts.ready, counts.paused), (3, true));

    assert!(pause(&mill, false).await);
    assert!(!pause(&mill, false).await);
    assert_eq!(mill.claim(9).await.len(), 3);
    assert!(!mill.counts("mail").await.paused);
}

#[tokio::test]
async fn running_jobs_go_on_and_may_come_back() {
    let mill = Mill::new().await;
    let claim = mill.running().await;
    pause(&mill, true).await;
    mill.settle(&claim, retry(0)).await;
    assert_eq!(mill.counts("mail").await.ready, 1);
    assert!(mill.claim(1).await.is_empty());
}

#[tokio::test]
async fn whoever_waits_is_woken_by_the_resume_and_not_before() {
    let mill = Mill::new().await;
    let mut signals = mill.store.signals(&[tenant()]).await.unwrap();
    pause(&mill, true).await;
    mill.push(&[job("mail")]).await;
    mill.push(&[job("other")]).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("other")), "nothing for the paused one");
    pause(&mill, false).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
}

#[tokio::test]
async fn a_paused_topic_without_jobs_is_listed() {
    let mill = Mill::new().await;
    pause(&mill, true).await;
    let counts = mill.counts("mail").await;
    assert_eq!((counts.paused, counts.ready, counts.totals.len()), (true, 0, 0));
    pause(&mill, false).await;
    assert!(mill.store.counts(&tenant()).await.unwrap().is_empty());
}
