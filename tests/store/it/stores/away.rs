//! A store that is away, and the tenants of the others.

use std::sync::Arc;
use std::time::Duration;

use gristmill_config::RedisSettings;
use gristmill_core::job::WorkerId;
use gristmill_core::outcome::Verdict;
use gristmill_store::embedded::EmbeddedStore;
use gristmill_store::prelude::*;
use gristmill_store::redis::RedisStore;
use gristmill_store::sharded::{ShardSpec, ShardedStore};
use gristmill_store::{ClaimFrom, Settled, Settlement};
use gristmill_store_tests::test_store::poll;
use gristmill_test_servers::redis::Redis;
use gristmill_test_servers::wait::{SOON, until};

use super::{job, join, name, topic};

fn lines() -> [ClaimFrom; 2] {
    let lease = Duration::from_secs(600);
    [ClaimFrom::new(topic("acme/mail"), 5, lease), ClaimFrom::new(topic("mail"), 5, lease)]
}

/// Home in memory; `acme` lives in Redis.
async fn with(redis: &Redis) -> ShardedStore {
    let home = EmbeddedStore::in_memory().await.unwrap();
    let far = Arc::new(RedisStore::at(&redis.url(), &RedisSettings::default()).unwrap());
    join(&home, ShardSpec { name: name("far"), store: far, is_remote: true }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_store_affects_only_its_own_tenants() {
    let mut redis = Redis::start().await;
    let (several, worker) = (with(&redis).await, WorkerId::new("w"));
    several.push(&[job("acme/mail"), job("mail")]).await.unwrap();
    let before = several.claim(&worker, &lines()).await.unwrap();
    assert_eq!(before.claims.len(), 2);
    redis.stop();

    assert!(several.push(&[job("acme/mail")]).await.unwrap_err().is_unavailable());
    several.push(&[job("mail")]).await.unwrap();
    // One store is enough, and that has a second each time.
    until("the heartbeat to be heard", SOON, async || several.heartbeat(&worker).await.ok()).await;
    let claimed = several.claim(&worker, &lines()).await.unwrap();
    assert_eq!(claimed.claims.iter().map(|claim| &claim.lease.topic).collect::<Vec<_>>(), [&topic("mail")]);
    assert!(claimed.drained.contains(&topic("acme/mail")), "it is not asked for again at once");
    assert!(poll(&several, &name("acme")).await.ready.is_empty());
    assert!(several.migrate(&name("acme"), 10).await.unwrap().next_due_in.is_some(), "it is looked for again");
    assert!(several.overdue(&[name("acme")], Duration::from_secs(7), 10).await.unwrap().jobs.is_empty());

    let settle = |topic_of: &str| {
        let lease = before.claims.iter().find(|claim| claim.lease.topic == topic(topic_of)).unwrap().lease.clone();
        Settlement::new(lease, Verdict::Ack(None))
    };
    assert_eq!(several.settle(&[settle("mail")]).await.unwrap(), [Settled::Done]);
    assert!(several.settle(&[settle("acme/mail")]).await.unwrap_err().is_unavailable());
    let away = several.unavailable().await.unwrap();
    assert!(away.len() == 1 && away[0].to_string().contains("redis.sock"), "{away:?}");

    redis.resume().await;
    let settled = until("the store to be back", SOON, async || several.settle(&[settle("acme/mail")]).await.ok()).await;
    assert_eq!(settled, [Settled::Done]);
    several.push(&[job("acme/mail")]).await.unwrap();
    let after = several.claim(&worker, &lines()).await.unwrap();
    assert_eq!((after.claims.len(), after.shard_returns > before.shard_returns), (1, true));
    assert!(several.unavailable().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_refuses_every_connection_affects_only_its_own_tenants() {
    let redis = Redis::start().await;
    let home = EmbeddedStore::in_memory().await.unwrap();
    let far = RedisStore::at(&format!("{}?db=99", redis.url()), &RedisSettings::default()).unwrap();
    let several = join(&home, ShardSpec { name: name("far"), store: Arc::new(far), is_remote: true }).await;
    several.push(&[job("mail")]).await.unwrap();
    let tenants = [name("acme"), name("default")];
    assert!(several.overdue(&tenants, Duration::from_secs(7), 10).await.unwrap().jobs.is_empty());
    assert_eq!(poll(&several, &name("default")).await.ready, [topic("mail")]);
    let error = several.push(&[job("acme/mail")]).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(format!("{:#}", anyhow::Error::from(error)).contains("no database of the number"));
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_that_a_partition_may_have_lost_are_looked_for() {
    let redis = Redis::start().await;
    let home = EmbeddedStore::in_memory().await.unwrap();
    let far = RedisStore::at(&redis.url(), &RedisSettings::default()).unwrap().all_spread(3);
    let far = ShardSpec { name: name("far"), store: Arc::new(far), is_remote: true };
    let (several, worker) = (join(&home, far).await, WorkerId::new("w"));
    several.push(&[(); 64].map(|()| job("acme/mail"))).await.unwrap();
    let line = |max| [ClaimFrom::new(topic("acme/mail"), max, Duration::from_secs(600))];
    let before = several.claim(&worker, &line(8)).await.unwrap();
    // One partition can be read, and does not answer to claims.
    let rights = ["SETUSER", "default", "resetkeys", "%R~gm:*", "~gm:[^{]*", "~gm:{acme/[013]}:*"];
    redis.ask::<String>("ACL", &rights).await.unwrap();
    let after = several.claim(&worker, &line(64)).await.unwrap();
    assert!(!after.claims.is_empty() && after.claims.len() < 56, "{}", after.claims.len());
    assert!(after.shard_returns > before.shard_returns);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_unavailable_at_the_start_is_used_once_it_answers() {
    let mut redis = Redis::start().await;
    redis.stop();
    let several = with(&redis).await;
    several.push(&[job("mail")]).await.unwrap();
    let mut signals = several.signals(&[name("acme")]).await.unwrap();
    assert!(several.push(&[job("acme/mail")]).await.unwrap_err().is_unavailable());
    redis.resume().await;
    until("the store to be joined", SOON, async || several.push(&[job("acme/mail")]).await.ok()).await;
    tokio::time::timeout(SOON, signals.recv()).await.unwrap().expect("a signal, if only that some were lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_worker_is_declared_dead_for_heartbeats_lost_in_an_outage() {
    let mut redis = Redis::start().await;
    let several = with(&redis).await;
    let (worker, dead_after) = (WorkerId::new("w"), Duration::from_millis(1));
    // By itself: among several, a store that is slow to hear it is not waited for.
    RedisStore::connect(&redis.url(), "gm").await.unwrap().heartbeat(&worker).await.unwrap();
    several.push(&[job("acme/mail")]).await.unwrap();
    assert_eq!(several.claim(&worker, &lines()).await.unwrap().claims.len(), 1);
    redis.stop();
    assert!(several.push(&[job("acme/mail")]).await.is_err());
    redis.resume().await;
    let long = Duration::from_secs(3600);
    until("the store to be back", SOON, async || several.push(&[job("acme/other")]).await.ok()).await;
    assert!(several.overdue(&[name("acme")], long, 10).await.unwrap().jobs.is_empty());
    let found = until("the silence to count", SOON, async || {
        let found = several.overdue(&[name("acme")], dead_after, 10).await.unwrap().jobs;
        (!found.is_empty()).then_some(found)
    })
    .await;
    assert!(found[0].worker_died);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attempt_is_lost_for_a_lease_that_ran_out_in_an_outage() {
    let mut redis = Redis::start().await;
    let (several, worker) = (with(&redis).await, WorkerId::new("w"));
    several.push(&[job("acme/mail")]).await.unwrap();
    let from = ClaimFrom::new(topic("acme/mail"), 1, Duration::from_millis(1));
    assert_eq!(several.claim(&worker, &[from]).await.unwrap().claims.len(), 1);
    redis.stop();
    assert!(several.push(&[job("acme/mail")]).await.is_err());
    redis.resume().await;
    until("the store to be back", SOON, async || several.push(&[job("acme/other")]).await.ok()).await;
    let overdue = async |dead_after| several.overdue(&[name("acme")], dead_after, 10).await.unwrap();
    let found = overdue(Duration::from_secs(3600)).await;
    assert!(found.jobs.is_empty() && !found.none_run, "its worker could not extend it: {found:?}");
    until("the lease to count", SOON, async || {
        (!overdue(Duration::from_millis(1)).await.jobs.is_empty()).then_some(())
    })
    .await;
}
