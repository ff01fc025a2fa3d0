//! A primary behind sentinels: found, lost in a failover, and found again.

use gristmill_config::RedisSettings;
use gristmill_test_servers::redis::{Redis, Settings};
use gristmill_test_servers::sentinels::Watched;

use super::server::until;
use crate::prelude::*;
use crate::redis::RedisStore;
use crate::tests::{LEASE, job, topic, worker};
use crate::{ClaimFrom, Pushed, StoreError};

async fn open(url: &str) -> RedisStore {
    let mut store = None;
    until("the primary is found", async || {
        store = RedisStore::open(url, &RedisSettings::default()).await.ok();
        store.is_some()
    })
    .await;
    store.unwrap()
}

#[tokio::test]
async fn a_failover_is_an_outage_after_which_the_new_primary_is_found() {
    let mut watched = Watched::start(2).await;
    let store = open(&watched.url()).await;
    store.push(&[job("mail")]).await.unwrap();
    watched.until_replicated().await;

    watched.servers[0].kill();
    assert!(store.push(&[job("mail")]).await.unwrap_err().is_unavailable());
    let primary = watched.fail_over().await;
    assert_ne!(primary, 0);
    until("the new primary is found", async || store.heartbeat(&worker()).await.is_ok()).await;
    assert_eq!(store.push(&[job("mail")]).await.unwrap(), [Pushed::Stored]);
    let claimed = store.claim(&worker(), &[ClaimFrom::new(topic("mail"), 9, LEASE)]).await.unwrap();
    assert_eq!(claimed.claims.len(), 2, "what had reached the replica is there, and what came after");

    // One sentinel less.
    watched.sentinels[0].kill();
    open(&watched.url()).await.push(&[job("mail")]).await.unwrap();
}

#[tokio::test]
async fn a_sentinel_that_names_the_last_primary_is_outvoted() {
    let watched = Watched::start(1).await;
    // It is not among those that agree on a failover, and names what is a replica.
    let alone = Redis::start_with(Settings::default().sentinel("main", watched.servers[1].port())).await;
    let [first, second] = [&watched.sentinels[0], &watched.sentinels[1]].map(Redis::port);
    let url = format!("redis+sentinel://127.0.0.1:{},127.0.0.1:{first},127.0.0.1:{second}/main", alone.port());
    open(&url).await.push(&[job("mail")]).await.unwrap();

    let url = format!("redis+sentinel://127.0.0.1:{}/main", alone.port());
    let error = RedisStore::open(&url, &RedisSettings::default()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    let error = format!("{:#}", anyhow::Error::from(error));
    assert!(error.contains("which is no primary"), "{error}");
}

#[tokio::test]
async fn a_name_that_the_sentinels_do_not_know_is_refused() {
    let watched = Watched::start(0).await;
    let url = watched.url().replace("/main", "/mian");
    let mut refused = None;
    until("the sentinels answer", async || {
        refused = RedisStore::open(&url, &RedisSettings::default()).await.err().filter(|error| !error.is_unavailable());
        refused.is_some()
    })
    .await;
    let error = refused.unwrap();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    let error = format!("{:#}", anyhow::Error::from(error));
    assert!(error.contains("`mian`") && error.contains("`url`"), "{error}");
}

#[tokio::test]
async fn a_server_and_a_sentinel_that_are_mixed_up_are_refused_with_the_right_address() {
    let watched = Watched::start(0).await;
    let (server, sentinel) = (watched.servers[0].port(), watched.sentinels[0].port());
    for (url, remedy) in [
        (format!("redis+sentinel://127.0.0.1:{server}/main"), "begin it with `redis://`"),
        (format!("redis://127.0.0.1:{sentinel}"), "begin the store's URL with redis+sentinel://"),
    ] {
        let error = RedisStore::open(&url, &RedisSettings::default()).await.unwrap_err();
        let error = format!("{:#}", anyhow::Error::from(error));
        assert!(error.contains("refused to connect") && error.contains(remedy), "{error}");
    }
}
