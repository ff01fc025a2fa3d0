//! What is left of the rates of keys, and what they do not touch.

use std::time::Duration;

use redis::{Value, cmd};

use super::claiming::calls;
use super::server::TestRedis;
use crate::prelude::*;
use crate::tests::{LEASE, tenant, topic, with, worker};
use crate::{ClaimFrom, Claimed};
use gristmill_core::job::NewJob;
use gristmill_core::topic::{FleetLimits, KeyLimits, Rate};

fn keyed(key: &str) -> NewJob {
    with("mail", |spec| spec.options.key = Some(key.to_owned()))
}

async fn claim(store: &TestRedis, rate: Option<Rate>) -> Claimed {
    let per_key = KeyLimits { rate, ..KeyLimits::DEFAULT };
    let from = ClaimFrom::new(topic("mail"), 100, LEASE).within(FleetLimits { per_key, ..FleetLimits::NONE });
    store.store.claim(&worker(), &[from]).await.unwrap()
}

fn each_second() -> Option<Rate> {
    Some(Rate::new(1, Duration::from_secs(1)))
}

#[tokio::test]
async fn buckets_that_are_full_again_are_forgotten() {
    let store = TestRedis::new().await;
    let buckets = store.store.first().keys(&tenant()).key_rates();
    for round in 0..5 {
        store.push(&(0..10).map(|n| keyed(&format!("k{}", round * 10 + n))).collect::<Vec<_>>()).await;
        assert_eq!(claim(&store, each_second()).await.claims.len(), 10);
        assert_eq!(store.raw(cmd("ZCARD").arg(&buckets)).await, Value::Int(10), "in round {round}");
        store.pass(1000);
    }
}

#[tokio::test]
async fn a_job_that_is_twice_in_line_starts_and_is_not_held_back() {
    let store = TestRedis::new().await;
    let (job, keys) = (keyed("k"), store.store.first().keys(&tenant()));
    store.push(std::slice::from_ref(&job)).await;
    let line = keys.ready(job.spec.options.priority, &topic("mail").topic);
    store.raw(cmd("LPUSH").arg(line).arg(job.spec.id.as_str())).await;
    let claimed = claim(&store, each_second()).await;
    assert_eq!((claimed.claims.len(), claimed.strays), (1, 1));
    assert_eq!(store.counts("mail").await.delayed, 0);
}

#[tokio::test]
async fn a_topic_whose_keys_have_no_rate_asks_nothing_about_one() {
    let store = TestRedis::new().await;
    store.push(&(0..10).map(|n| keyed(&format!("k{n}"))).collect::<Vec<_>>()).await;
    let asked = async || [calls(&store, "hmget").await, calls(&store, "hget").await, calls(&store, "zscore").await];
    let before = asked().await;
    assert_eq!(claim(&store, None).await.claims.len(), 10);
    let after = asked().await;
    // What is stored of the jobs, and what is known of them.
    assert_eq!([after[0] - before[0], after[1] - before[1], after[2] - before[2]], [2, 0, 0]);
}
