//! What others write to the Lists and ZSETs behind the store's back.

use std::time::Duration;

use redis::{Value, cmd};

use super::mill::{Mill, failure, retry, tenant, topic, worker};
use super::waking::next;
use crate::redis::keys::Keys;
use crate::{Inspect, JobState, PendingWork, Produce, Settled, Signal, Store};
use gristmill_core::job::{Claim, Name, Priority};
use gristmill_core::outcome::{Reason, Verdict};

fn keys() -> Keys {
    Keys::new("gm", &tenant())
}

fn mail() -> Name {
    topic("mail").topic
}

async fn lpush(mill: &Mill, element: &[u8]) {
    mill.raw(cmd("LPUSH").arg(keys().ready(Priority::Normal, &mail())).arg(element)).await;
}

async fn adopt(mill: &Mill, element: &[u8]) -> Claim {
    lpush(mill, element).await;
    let claimed = mill.claim_as(&worker(), "mail", 10).await;
    assert_eq!((claimed.claims.len(), claimed.unreadable), (1, 0));
    claimed.claims.into_iter().next().unwrap()
}

async fn polled(mill: &Mill) -> PendingWork {
    mill.store.poll_work(&tenant(), &[mail()]).await.unwrap()
}

#[tokio::test]
async fn any_bytes_become_the_payload_of_a_job() {
    let mill = Mill::new().await;
    let long = vec![200; 70_000];
    let middle = vec![b'x'; 300];
    for element in [&b"hello"[..], b"", b"\xff\x00", b"\x81", b"\x81\xa14\x01", &middle, &long] {
        let claim = adopt(&mill, element).await;
        assert_eq!(claim.job.spec.body.data, element);
        assert_eq!((claim.job.spec.topic.clone(), claim.attempt, claim.lease.delivery), (topic("mail"), 1, 1));
        assert!(claim.lease.job.as_str().starts_with("raw-"), "{}", claim.lease.job);
        assert_eq!((claim.job.enqueued_at, claim.job.due_at), (mill.now(), mill.now()));
        assert_eq!(mill.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    }
    assert_eq!((mill.total("adopted").await, mill.total("pushed").await, mill.counts("mail").await.running), (7, 0, 0));
    let left = mill.raw(cmd("EXISTS").arg(keys().processing(&worker())).arg(keys().jobs())).await;
    assert_eq!(left, Value::Int(0));
}

#[tokio::test]
async fn the_same_bytes_twice_are_two_jobs() {
    let mill = Mill::new().await;
    lpush(&mill, b"again").await;
    lpush(&mill, b"again").await;
    let claims = mill.claim(10).await;
    assert_eq!(claims.len(), 2);
    assert_ne!(claims[0].lease.job, claims[1].lease.job);
}

#[tokio::test]
async fn an_adopted_job_lives_like_any_other() {
    let mill = Mill::new().await;
    let claim = adopt(&mill, b"hello").await;
    mill.settle(&claim, retry(10)).await;
    assert!(matches!(mill.state(&claim.job.spec).await, Some(JobState::Delayed { .. })));
    mill.pass(10);
    mill.migrate().await;
    let again = mill.claim(1).await.pop().unwrap();
    assert_eq!((&again.job, again.attempt), (&claim.job, 2));
    mill.settle(&again, Verdict::Bury(failure(Reason::Trap))).await;
    let dead = mill.store.dead(&topic("mail"), 0, 9).await.unwrap();
    assert_eq!(dead[0].job, *claim.job);
}

/// `{"1": "job-7", "2": "other", "3": 2, "4": "hi", "5": 1799999990}`
const FIELDS: &[u8] = b"\x85\xa11\xa5job-7\xa12\xa5other\xa13\x02\xa14\xc4\x02hi\xa15\xce\x6b\x49\xd1\xf6";

#[tokio::test]
async fn a_map_with_the_known_keys_becomes_the_job_that_it_describes() {
    let mill = Mill::new().await;
    let claim = adopt(&mill, FIELDS).await;
    assert_eq!((claim.lease.job.as_str(), claim.job.spec.body.data.as_slice()), ("job-7", &b"hi"[..]));
    assert_eq!(claim.job.spec.topic, topic("mail"), "the List decides");
    assert_eq!(mill.now().since(claim.job.enqueued_at), Duration::from_secs(10));
    assert_eq!(claim.job.due_at.since(claim.job.enqueued_at), Duration::from_secs(2));
    // The same again while the first one runs: its id is taken.
    let again = adopt(&mill, FIELDS).await;
    assert!(again.lease.job.as_str().starts_with("raw-"));
    assert_eq!(again.job.spec.body, claim.job.spec.body);
}

#[tokio::test]
async fn fields_that_make_no_sense_are_left_out() {
    let mill = Mill::new().await;
    let claim = adopt(&mill, b"\x82\xa11\xcd\x01\x00\xa14\xa2hi").await;
    assert_eq!(claim.lease.job.as_str(), "256");
    // An id with a space, and a time in the future.
    let claim = adopt(&mill, b"\x83\xa11\xa3a b\xa14\xa2hi\xa15\xce\xff\xff\xff\xff").await;
    assert!(claim.lease.job.as_str().starts_with("raw-"));
    assert_eq!((claim.job.spec.body.data.as_slice(), claim.job.enqueued_at), (&b"hi"[..], mill.now()));
}

#[tokio::test]
async fn raw_topics_are_found_without_a_signal() {
    let mill = Mill::new().await;
    assert_eq!(polled(&mill).await, PendingWork::default());
    lpush(&mill, b"hello").await;
    let due = (mill.now().as_millis() + 500) as f64 - 0.5;
    mill.raw(cmd("ZADD").arg(keys().delayed(&mail())).arg(due).arg("later")).await;
    let found = polled(&mill).await;
    assert_eq!((found.ready, found.next_due_in), (vec![topic("mail")], Some(Duration::from_millis(500))));
    assert_eq!(mill.claim(10).await[0].job.spec.body.data, b"hello");

    mill.pass(500);
    assert_eq!(mill.migrate().await, 1);
    assert_eq!(mill.claim(10).await[0].job.spec.body.data, b"later");
    assert_eq!(polled(&mill).await, PendingWork::default());
}

#[tokio::test]
async fn any_score_can_be_lived_with() {
    let mill = Mill::new().await;
    let scores = ["-inf", "-5", "0.25", "1e20", "inf"];
    for score in scores {
        mill.raw(cmd("ZADD").arg(keys().delayed(&mail())).arg(score).arg(score)).await;
    }
    assert_eq!(polled(&mill).await.next_due_in, Some(Duration::ZERO));
    assert_eq!(mill.migrate().await, 3);
    assert!(polled(&mill).await.next_due_in.is_some());
    assert_eq!((mill.claim(9).await.len(), mill.counts("mail").await.delayed), (3, 2));
}

#[tokio::test]
async fn a_paused_raw_topic_is_not_wanted() {
    let mill = Mill::new().await;
    mill.store.set_paused(&topic("mail"), true).await.unwrap();
    lpush(&mill, b"hello").await;
    assert!(polled(&mill).await.ready.is_empty());
    mill.store.set_paused(&topic("mail"), false).await.unwrap();
    assert_eq!(polled(&mill).await.ready, [topic("mail")]);
}

/// What `docs/redis-keys.md` tells producers to send.
#[tokio::test]
async fn the_recipe_for_raw_producers_starts_a_job_at_once() {
    let mill = Mill::new().await;
    let mut signals = mill.store.signals(&[tenant()]).await.unwrap();
    mill.raw(cmd("LPUSH").arg("gm:{acme/0}:ready:mail").arg(r#"{"name":"Ada"}"#)).await;
    mill.raw(cmd("SADD").arg("gm:{acme/0}:active").arg("mail")).await;
    mill.raw(cmd("PUBLISH").arg("gm:{acme/0}:wake").arg("ready mail")).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
    assert_eq!(mill.claim(1).await[0].job.spec.body.data, br#"{"name":"Ada"}"#);

    let due = mill.now().as_millis() + 60_000;
    mill.raw(cmd("ZADD").arg("gm:{acme/0}:delayed:mail").arg(due).arg("later")).await;
    mill.raw(cmd("ZADD").arg("gm:{acme/0}:due").arg("LT").arg(due).arg("mail")).await;
    mill.raw(cmd("PUBLISH").arg("gm:{acme/0}:wake").arg("due 60000")).await;
    assert_eq!(next(&mut signals).await, Signal::Due(tenant(), Duration::from_secs(60)));
    mill.pass(60_000);
    assert_eq!(mill.migrate().await, 1);
    assert_eq!(mill.claim(1).await[0].job.spec.body.data, b"later");
}
