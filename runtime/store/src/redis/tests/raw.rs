//! What others write to the Lists and ZSETs behind the store's back.

use std::time::Duration;

use redis::{Value, cmd};

use super::server::TestRedis;
use super::waking::next;
use crate::prelude::*;
use crate::redis::key_names::Keys;
use crate::tests::{failure, retry, tenant, topic, worker};
use crate::{ClaimFrom, JobState, PendingWork, Settled, Signal, StateFilter};
use gristmill_core::job::{Claim, Name, Priority};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_core::topic::Topic;

fn keys() -> Keys {
    Keys::new("gm", &tenant(), 0)
}

fn mail() -> Name {
    topic("mail").topic
}

async fn lpush(store: &TestRedis, element: &[u8]) {
    store.raw(cmd("LPUSH").arg(keys().ready(Priority::Normal, &mail())).arg(element)).await;
}

async fn adopt(store: &TestRedis, element: &[u8]) -> Claim {
    lpush(store, element).await;
    let claimed = store.claim_as(&worker(), "mail", 10).await;
    assert_eq!((claimed.claims.len(), claimed.strays), (1, 0));
    claimed.claims.into_iter().next().unwrap()
}

/// A store in which raw producers write to `mail`.
async fn raw_store() -> TestRedis {
    let store = TestRedis::new().await;
    wanted(&store).await;
    store
}

async fn wanted(store: &TestRedis) -> PendingWork {
    store.poll(&[mail()]).await
}

#[tokio::test]
async fn any_bytes_become_the_payload_of_a_job() {
    let store = raw_store().await;
    let long = vec![200; 70_000];
    let middle = vec![b'x'; 300];
    for element in [&b"hello"[..], b"", b"\xff\x00", b"\x81", b"\x81\xa14\x01", &middle, &long] {
        let claim = adopt(&store, element).await;
        assert_eq!(claim.job.spec.body.data, element);
        assert_eq!((claim.job.spec.topic.clone(), claim.attempt, claim.lease.delivery), (topic("mail"), 1, 1));
        assert!(claim.lease.job.as_str().starts_with("raw-"), "{}", claim.lease.job);
        assert_eq!((claim.job.enqueued_at, claim.job.due_at), (store.now(), store.now()));
        assert_eq!(store.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    }
    assert_eq!(
        (store.total("adopted").await, store.total("pushed").await, store.counts("mail").await.running),
        (7, 0, 0)
    );
    let left = store.raw(cmd("EXISTS").arg(keys().leases()).arg(keys().claims()).arg(keys().jobs())).await;
    assert_eq!(left, Value::Int(0));
}

#[tokio::test]
async fn a_claim_adopts_by_its_own_manifest_before_any_runner_has_looked() {
    let store = TestRedis::new().await;
    lpush(&store, b"hello").await;
    let topics = ["print", "mail"].map(|name| Topic {
        raw_producers: name == "mail",
        ..Topic::with_defaults(topic(name), "echo".parse().unwrap())
    });
    let from = topics.map(|topic| ClaimFrom::new(topic.id.clone(), 10, Duration::from_secs(9)).by_manifest(&topic));
    let claimed = store.store.claim(&worker(), &from).await.unwrap();
    assert_eq!((claimed.claims.len(), claimed.strays), (1, 0));
    assert_eq!(claimed.claims[0].job.spec.body.data, *b"hello");
    // Of a topic whose manifest does not say so, it is no job.
    store.raw(cmd("LPUSH").arg(keys().ready(Priority::Normal, &topic("print").topic)).arg("hello")).await;
    let claimed = store.store.claim(&worker(), &from).await.unwrap();
    assert_eq!((claimed.claims.len(), claimed.strays), (0, 1));
}

#[tokio::test]
async fn the_same_bytes_twice_are_two_jobs() {
    let store = raw_store().await;
    lpush(&store, b"again").await;
    lpush(&store, b"again").await;
    let claims = store.claim(10).await;
    assert_eq!(claims.len(), 2);
    assert_ne!(claims[0].lease.job, claims[1].lease.job);
}

#[tokio::test]
async fn an_adopted_job_lives_like_any_other() {
    let store = raw_store().await;
    let claim = adopt(&store, b"hello").await;
    store.settle(&claim, retry(10)).await;
    assert!(matches!(store.state(&claim.job.spec).await, Some(JobState::Delayed { .. })));
    store.pass(10);
    store.migrate().await;
    let again = store.claim(1).await.pop().unwrap();
    assert_eq!((&again.job, again.attempt), (&claim.job, 2));
    store.settle(&again, Verdict::Bury(failure(Reason::Trap))).await;
    let dead = store.store.jobs(&topic("mail"), StateFilter::Dead, None, 9).await.unwrap().jobs;
    assert_eq!(dead[0].job, Some((*claim.job).clone()));
}

/// `{"1": "job-7", "2": "other", "3": 2, "4": "hi", "5": 1799999990}`
const FIELDS: &[u8] = b"\x85\xa11\xa5job-7\xa12\xa5other\xa13\x02\xa14\xc4\x02hi\xa15\xce\x6b\x49\xd1\xf6";

#[tokio::test]
async fn a_map_with_the_known_keys_becomes_the_job_that_it_describes() {
    let store = raw_store().await;
    let claim = adopt(&store, FIELDS).await;
    assert_eq!((claim.lease.job.as_str(), claim.job.spec.body.data.as_slice()), ("job-7", &b"hi"[..]));
    assert_eq!(claim.job.spec.topic, topic("mail"), "the List decides");
    assert_eq!(store.now().since(claim.job.enqueued_at), Duration::from_secs(10));
    assert_eq!(claim.job.due_at.since(claim.job.enqueued_at), Duration::from_secs(2));
    // The same again while the first one runs: its id is taken.
    let again = adopt(&store, FIELDS).await;
    assert!(again.lease.job.as_str().starts_with("raw-"));
    assert_eq!(again.job.spec.body, claim.job.spec.body);
}

#[tokio::test]
async fn fields_that_make_no_sense_are_left_out() {
    let store = raw_store().await;
    let claim = adopt(&store, b"\x82\xa11\xcd\x01\x00\xa14\xa2hi").await;
    assert_eq!(claim.lease.job.as_str(), "256");
    // An id with a space, and a time in the future.
    let claim = adopt(&store, b"\x83\xa11\xa3a b\xa14\xa2hi\xa15\xce\xff\xff\xff\xff").await;
    assert!(claim.lease.job.as_str().starts_with("raw-"));
    assert_eq!((claim.job.spec.body.data.as_slice(), claim.job.enqueued_at), (&b"hi"[..], store.now()));
    for no_id in [&b"\x82\xa11\xa1.\xa14\xa2hi"[..], b"\x82\xa11\xa2..\xa14\xa2hi"] {
        assert!(adopt(&store, no_id).await.lease.job.as_str().starts_with("raw-"));
    }
}

#[tokio::test]
async fn raw_topics_are_found_without_a_signal() {
    let store = raw_store().await;
    assert_eq!(wanted(&store).await, PendingWork::default());
    lpush(&store, b"hello").await;
    let due = (store.now().as_millis() + 500) as f64 - 0.5;
    store.raw(cmd("ZADD").arg(keys().delayed(&mail())).arg(due).arg("later")).await;
    let found = wanted(&store).await;
    assert_eq!((found.ready, found.next_due_in), (vec![topic("mail")], Some(Duration::from_micros(499_500))));
    assert_eq!(store.claim(10).await[0].job.spec.body.data, b"hello");

    store.pass(500);
    assert_eq!(store.migrate().await, 1);
    assert_eq!(store.claim(10).await[0].job.spec.body.data, b"later");
    assert_eq!(wanted(&store).await, PendingWork::default());
}

#[tokio::test]
async fn any_score_can_be_lived_with() {
    let store = raw_store().await;
    let scores = ["-inf", "-5", "0.25", "1e20", "inf"];
    for score in scores {
        store.raw(cmd("ZADD").arg(keys().delayed(&mail())).arg(score).arg(score)).await;
    }
    assert_eq!(wanted(&store).await.next_due_in, Some(Duration::ZERO));
    assert_eq!(store.migrate().await, 3);
    assert_eq!(wanted(&store).await.next_due_in, None, "the others never come");
    assert_eq!((store.claim(9).await.len(), store.counts("mail").await.delayed), (3, 2));
}

#[tokio::test]
async fn a_paused_raw_topic_is_not_wanted() {
    let store = raw_store().await;
    store.store.set_paused(&topic("mail"), true).await.unwrap();
    lpush(&store, b"hello").await;
    assert!(wanted(&store).await.ready.is_empty());
    store.store.set_paused(&topic("mail"), false).await.unwrap();
    assert_eq!(wanted(&store).await.ready, [topic("mail")]);
}

/// What producers send by `docs/reference/redis-keys.md`.
#[tokio::test]
async fn the_recipe_for_raw_producers_starts_a_job_at_once() {
    let store = raw_store().await;
    let mut signals = store.store.signals(&[tenant()]).await.unwrap();
    store.raw(cmd("LPUSH").arg("gm:{acme/0}:ready:mail").arg(r#"{"name":"Ada"}"#)).await;
    store.raw(cmd("SADD").arg("gm:{acme/0}:active").arg("mail")).await;
    store.raw(cmd("PUBLISH").arg("gm:{acme/0}:wake").arg("ready mail")).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
    assert_eq!(store.claim(1).await[0].job.spec.body.data, br#"{"name":"Ada"}"#);

    let due = store.now().as_millis() + 60_000;
    store.raw(cmd("ZADD").arg("gm:{acme/0}:delayed:mail").arg(due).arg("later")).await;
    store.raw(cmd("ZADD").arg("gm:{acme/0}:due").arg("LT").arg(due).arg("mail")).await;
    store.raw(cmd("PUBLISH").arg("gm:{acme/0}:wake").arg("due 60000")).await;
    assert_eq!(next(&mut signals).await, Signal::Due { tenant: tenant(), wait: Duration::from_secs(60) });
    store.pass(60_000);
    assert_eq!(store.migrate().await, 1);
    assert_eq!(store.claim(1).await[0].job.spec.body.data, b"later");
}

#[tokio::test]
async fn raw_elements_move_to_another_store_as_jobs() {
    let store = raw_store().await;
    lpush(&store, b"one").await;
    lpush(&store, b"two").await;
    store.raw(cmd("ZADD").arg(keys().delayed(&mail())).arg(store.now().as_millis() + 5).arg("later")).await;
    let jobs = store.store.export(&topic("mail"), 100).await.unwrap();
    let payloads: Vec<&[u8]> = jobs.iter().map(|stored| stored.job.spec.body.data.as_slice()).collect();
    assert_eq!(payloads, [&b"one"[..], b"two", b"later"]);
    assert_eq!(store.total("adopted").await, 3);
    assert_eq!(store.claim(9).await.len(), 2, "they are jobs now");
}

#[tokio::test]
async fn an_element_without_a_job_is_set_aside_where_no_raw_producer_writes() {
    let store = TestRedis::new().await;
    let strays = async || store.raw(cmd("LLEN").arg(keys().strays(&mail()))).await;
    lpush(&store, b"lost").await;
    let claimed = store.claim_as(&worker(), "mail", 10).await;
    assert_eq!((claimed.claims.len(), claimed.strays), (0, 1));
    assert_eq!((strays().await, store.total("adopted").await), (Value::Int(1), 0));
    assert_eq!(store.counts("mail").await.running, 0);

    // A move does the same.
    lpush(&store, b"lost, too").await;
    store.raw(cmd("ZADD").arg(keys().delayed(&mail())).arg(5).arg("lost and late")).await;
    assert!(store.store.export(&topic("mail"), 100).await.unwrap().is_empty());
    assert_eq!((strays().await, store.total("stray").await), (Value::Int(3), 3));
    let counts = store.counts("mail").await;
    assert_eq!((counts.ready, counts.delayed), (0, 0));
    assert_eq!(store.poll(&[]).await, PendingWork::default());

    // From the first look of a runner whose manifest names the topic, and for a day after the last.
    wanted(&store).await;
    adopt(&store, b"hello").await;
    store.pass(24 * 3600 * 1000);
    lpush(&store, b"late").await;
    assert_eq!(store.claim_as(&worker(), "mail", 10).await.strays, 1);
}
