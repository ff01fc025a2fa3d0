//! A primary behind sentinels: found, lost in a failover, and found again.

use gristmill_config::{AcknowledgedBy, Acknowledgement, RedisSettings};
use gristmill_test_servers::redis::{Redis, Settings};
use gristmill_test_servers::sentinels::Watched;

use super::server::until;
use crate::prelude::*;
use crate::redis::RedisStore;
use crate::tests::{LEASE, job, tenant, topic, worker};
use crate::{ClaimFrom, Pushed, StoreError};

async fn open(url: &str, settings: &RedisSettings) -> RedisStore {
    let mut store = None;
    until("the primary is found", async || {
        store = RedisStore::open(url, settings).await.ok();
        store.is_some()
    })
    .await;
    store.unwrap()
}

#[tokio::test]
async fn a_failover_is_an_outage_after_which_the_new_primary_is_found() {
    let mut watched = Watched::start(2).await;
    let store = open(&watched.url(), &RedisSettings::default()).await;
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
    open(&watched.url(), &RedisSettings::default()).await.push(&[job("mail")]).await.unwrap();
}

/// How many connections the server has but for its replicas' and the sentinels', and the one that asks.
async fn clients(server: &Redis) -> usize {
    let list: String = server.ask("CLIENT", &["LIST"]).await.unwrap();
    let is_ours =
        |line: &&str| !line.contains("name=sentinel") && !line.contains("flags=S") && !line.contains("cmd=client");
    list.lines().filter(is_ours).count()
}

#[tokio::test]
async fn a_primary_that_goes_on_answering_after_a_failover_is_left() {
    let watched = Watched::start(1).await;
    let settings = RedisSettings {
        acknowledgement: Acknowledgement { by: AcknowledgedBy::Replicas, replicas: 0, within: LEASE },
        ..RedisSettings::default()
    };
    let store = open(&watched.url(), &settings).await;
    let signals = store.signals(&[tenant()]).await.unwrap();
    store.push(&[job("mail")]).await.unwrap();
    watched.until_replicated().await;
    let old = &watched.servers[0];
    assert!(clients(old).await >= 3, "for calls, confirmations and signals");

    // The sentinels cannot make it a replica, which would refuse pushes: only their word says that it is the primary no more.
    let _: String = old.ask("ACL", &["SETUSER", "default", "-slaveof", "-replicaof"]).await.unwrap();
    let new = watched.fail_over().await;
    let direct = open(&watched.servers[new].url(), &RedisSettings::default()).await;
    until("pushes go to the new primary", async || {
        let jobs = [job("mail")];
        store.push(&jobs).await.is_ok() && direct.job(&tenant(), &jobs[0].spec.id).await.unwrap().is_some()
    })
    .await;
    until("no connection to the last primary is left", async || clients(old).await == 0).await;
    let jobs = [job("mail"), job("mail")];
    store.push(&jobs).await.unwrap();
    for job in &jobs {
        assert!(direct.job(&tenant(), &job.spec.id).await.unwrap().is_some(), "what is acknowledged now is there");
    }
    drop(signals);
}

#[tokio::test]
async fn a_sentinel_that_names_the_last_primary_is_outvoted() {
    let watched = Watched::start(1).await;
    // It is not among those that agree on a failover, and names what is a replica.
    let alone = Redis::start_with(Settings::default().sentinel("main", watched.servers[1].port())).await;
    let [first, second] = [&watched.sentinels[0], &watched.sentinels[1]].map(Redis::port);
    let url = format!("redis+sentinel://127.0.0.1:{},127.0.0.1:{first},127.0.0.1:{second}/main", alone.port());
    open(&url, &RedisSettings::default()).await.push(&[job("mail")]).await.unwrap();

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
