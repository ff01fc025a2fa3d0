//! The server dies, comes back, forgets its scripts, or is somebody else.

use std::time::Duration;

use tokio::time::timeout;

use super::mill::{LEASE, Mill, delayed, failure, job, retry, tenant, topic, until, worker};
use crate::redis::RedisStore;
use crate::{Cancelled, Inspect, Produce, Settled, Signal, Store, StoreError};
use gristmill_core::job::NewJob;
use gristmill_core::outcome::{Reason, Verdict};

#[tokio::test]
async fn a_lost_server_is_away_at_once_and_found_again() {
    let mut mill = Mill::new().await;
    mill.push(&[job("mail")]).await;
    mill.server.kill();
    for jobs in [[job("mail")], [job("mail")], [job("mail")]] {
        let push = timeout(Duration::from_secs(5), mill.store.push(&jobs));
        assert!(push.await.expect("an answer well before any timeout").unwrap_err().is_unavailable());
    }
    mill.server.replace().await;
    until("the store answers", async || mill.store.heartbeat(&worker()).await.is_ok()).await;
    // The new server knows no script yet.
    mill.push(&[job("mail")]).await;
    let claim = mill.claim(1).await.pop().unwrap();
    assert_eq!(mill.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
}

#[tokio::test]
async fn a_call_in_flight_fails_when_the_server_dies() {
    let mut mill = Mill::new().await;
    let store = mill.store.clone();
    mill.raw(redis::cmd("CLIENT").arg("PAUSE").arg(60_000)).await;
    let call = tokio::spawn(async move { store.push(&[job("mail")]).await });
    // The paused server answers nobody, so wherever the call has got to by now, it is not done.
    tokio::task::yield_now().await;
    mill.server.kill();
    let answer = timeout(Duration::from_secs(4), call).await.expect("an answer before the response timeout").unwrap();
    assert!(answer.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn forgotten_scripts_are_loaded_again() {
    let mill = Mill::new().await;
    mill.push(&[job("mail"), job("mail")]).await;
    mill.raw(redis::cmd("SCRIPT").arg("FLUSH")).await;
    mill.push(&(0..1200).map(|_| job("mail")).collect::<Vec<_>>()).await;
    mill.raw(redis::cmd("SCRIPT").arg("FLUSH")).await;
    assert_eq!(mill.claim(2000).await.len(), 1202);
}

#[tokio::test]
async fn a_server_that_knows_no_script_is_taught_before_the_first_call() {
    let mill = Mill::new().await;
    let jobs: Vec<NewJob> = (0..1200).map(|_| job("mail")).collect();
    mill.push(&jobs).await;
    assert_eq!(mill.claim(2000).await.len(), 1200);
    // Were its first calls refused, and only those, they would be repeated behind the others: not in their order.
    let refused = mill.raw(redis::cmd("INFO").arg("errorstats")).await;
    let refused: String = redis::from_redis_value(refused).unwrap();
    assert!(!refused.contains("NOSCRIPT"), "{refused}");
}

#[tokio::test]
async fn a_listener_reconnects_and_says_that_signals_may_be_lost() {
    let mut mill = Mill::new().await;
    let mut signals = mill.store.signals(&[tenant()]).await.unwrap();
    mill.server.replace().await;
    let heard = timeout(Duration::from_secs(30), signals.recv()).await.expect("a signal in time");
    assert_eq!(heard, Some(Signal::Lost));
    until("the store answers", async || mill.store.push(&[job("mail")]).await.is_ok()).await;
    let heard = timeout(Duration::from_secs(30), signals.recv()).await.expect("a signal in time");
    assert!(matches!(heard, Some(Signal::Ready(_))), "{heard:?}");
}

#[tokio::test]
async fn a_full_server_refuses_and_nothing_is_half_done() {
    let mill = Mill::new().await;
    mill.push(&[job("mail")]).await;
    mill.raw(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1)).await;
    let error = mill.store.push(&[job("mail")]).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    let counts = mill.counts("mail").await;
    assert_eq!((counts.ready, counts.totals["pushed"]), (1, 1));
    mill.raw(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(0)).await;
    assert_eq!(mill.claim(9).await.len(), 1);
}

#[tokio::test]
async fn a_full_server_lets_its_jobs_be_worked_off() {
    let mill = Mill::new().await;
    mill.push(&[job("mail"), delayed("mail", 10)]).await;
    mill.raw(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1)).await;

    mill.store.heartbeat(&worker()).await.unwrap();
    let claim = mill.claim(1).await.pop().unwrap();
    assert_eq!(mill.store.extend(std::slice::from_ref(&claim.lease), LEASE).await.unwrap(), [true]);
    mill.pass(10);
    assert_eq!(mill.migrate().await, 1);
    assert_eq!(mill.settle(&claim, retry(0)).await, Settled::Done);
    for claim in mill.claim(2).await {
        assert_eq!(mill.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    }
    assert_eq!(mill.total("acked").await, 2);
}

#[tokio::test]
async fn a_full_server_lets_people_clear_it_out() {
    let mill = Mill::new().await;
    let waiting = delayed("mail", 10);
    mill.push(&[job("mail"), job("mail"), waiting.clone()]).await;
    let claims = mill.claim(2).await;
    mill.raw(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1)).await;

    assert_eq!(mill.settle(&claims[0], Verdict::Bury(failure(Reason::Trap))).await, Settled::Done);
    let ids = [waiting.spec.id, claims[1].lease.job.clone()];
    assert_eq!(mill.store.cancel(&tenant(), &ids).await.unwrap(), [Cancelled::Gone, Cancelled::Stopping]);
    assert_eq!(mill.settle(&claims[1], retry(0)).await, Settled::Cancelled);
    assert_eq!(mill.store.sweep(&[super::sweep::limits(0, Duration::MAX)]).await.unwrap(), [1]);
    assert!(mill.store.set_paused(&topic("mail"), true).await.unwrap());
    let mail = topic("mail").topic;
    assert_eq!(mill.store.poll_work(&tenant(), &[mail]).await.unwrap().next_due_in, None);
    assert_eq!((mill.total("cancelled").await, mill.total("discarded").await), (2, 1));
}

#[tokio::test]
async fn a_prefix_that_breaks_the_hash_tags_is_refused() {
    let error = RedisStore::connect("redis://localhost", "gm{x}").await.unwrap_err();
    assert!(matches!(error, StoreError::BadAddress { .. }), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_not_away() {
    let mill = Mill::new().await;
    mill.raw(redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("right")).await;
    let error = RedisStore::connect(&format!("{}?pass=wrong", mill.server.url()), "gm").await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    RedisStore::connect(&format!("{}?pass=right", mill.server.url()), "gm").await.unwrap();
}
