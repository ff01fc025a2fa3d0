//! Pushes that wait for replicas or disks.

use std::time::Duration;

use gristmill_config::{AcknowledgedBy, Acknowledgement, RedisSettings};
use gristmill_test_servers::redis::{Redis, Settings};
use gristmill_test_servers::sentinels::Watched;

use super::ledger::{Ledger, ServerFailure, rounds};
use super::server::until;
use crate::prelude::*;
use crate::redis::RedisStore;
use crate::redis::key_names::read_key;
use crate::tests::{job, tenant};
use crate::{Pushed, StoreError};

fn settings(by: AcknowledgedBy, replicas: u32, within: Duration) -> RedisSettings {
    RedisSettings { acknowledgement: Acknowledgement { by, replicas, within }, ..RedisSettings::default() }
}

async fn open(url: &str, settings: &RedisSettings) -> RedisStore {
    let mut store = None;
    until("the store is there", async || {
        store = RedisStore::open(url, settings).await.ok();
        store.is_some()
    })
    .await;
    store.unwrap()
}

const PATIENT: Duration = Duration::from_secs(4);

#[tokio::test]
async fn a_push_that_no_replica_has_is_stored_and_not_acknowledged() {
    let primary = Redis::start_with(Settings::default().listens()).await;
    let store = open(&primary.url(), &settings(AcknowledgedBy::Replicas, 1, Duration::from_millis(10))).await;
    let jobs = [job("mail")];
    let error = store.push(&jobs).await.unwrap_err();
    assert!(matches!(error, StoreError::Unconfirmed { .. }), "{error:?}");
    let error = format!("{:#}", anyhow::Error::from(error));
    assert!(error.contains("0 of the 1 replicas"), "{error}");
    assert!(store.job(&tenant(), &jobs[0].spec.id).await.unwrap().is_some());
    let again = store.push(&jobs).await.unwrap_err();
    assert!(matches!(again, StoreError::Unconfirmed { .. }), "a push that changes nothing waits, too: {again:?}");
    let ready = format!("{:#}", anyhow::Error::from(store.unavailable().await.unwrap_err()));
    assert!(ready.ends_with(" ms"), "it is not ready either, and says no more than why: {ready}");

    let port = primary.port().to_string();
    let replica = Redis::start_with(Settings::default().listens().options(&["--replicaof", "127.0.0.1", &port])).await;
    until("the replica has it", async || matches!(store.push(&jobs).await, Ok(answers) if answers == [Pushed::Exists]))
        .await;
    assert!(replica.ask::<u64>("DBSIZE", &[]).await.unwrap() > 0);
    until("it is ready", async || store.unavailable().await.is_ok()).await;
}

#[tokio::test]
async fn what_a_connection_writes_to_ask_the_replicas_is_no_damage() {
    let primary = Redis::start_with(Settings::default().listens()).await;
    let mut names = Vec::<String>::new();
    until("a connection has written its key", async || {
        open(&primary.url(), &settings(AcknowledgedBy::Replicas, 0, PATIENT)).await;
        names = primary.ask("KEYS", &["gm:probe:*"]).await.unwrap();
        !names.is_empty()
    })
    .await;
    for name in names {
        assert!(read_key("gm", &name).is_some_and(|known| known.expires), "{name}");
    }
}

#[tokio::test]
async fn pushes_that_come_together_share_a_round() {
    let primary = Redis::start_with(Settings::default().listens()).await;
    let port = primary.port().to_string();
    let _replica = Redis::start_with(Settings::default().listens().options(&["--replicaof", "127.0.0.1", &port])).await;
    let store = open(&primary.url(), &settings(AcknowledgedBy::Replicas, 1, PATIENT)).await;
    until("the replica answers", async || store.push(&[job("mail")]).await.is_ok()).await;
    let waits = async || {
        let stats: String = primary.ask("INFO", &["commandstats"]).await.unwrap();
        let calls = stats.split_once("cmdstat_wait:calls=").unwrap().1.split(',').next().unwrap().to_owned();
        calls.parse::<usize>().unwrap()
    };
    let before = waits().await;
    let pushes = (0..64).map(|_| async { store.push(&[job("mail")]).await.unwrap() });
    futures_util::future::join_all(pushes).await;
    let rounds = waits().await - before;
    assert!((1..64).contains(&rounds), "{rounds} rounds for 64 pushes");
}

#[tokio::test]
async fn a_large_push_that_no_replica_has_is_stored_whole() {
    let primary = Redis::start_with(Settings::default().listens()).await;
    let store = open(&primary.url(), &settings(AcknowledgedBy::Replicas, 1, Duration::from_millis(10))).await;
    // More than go out in one round trip.
    let jobs: Vec<_> = (0..8500).map(|_| job("mail")).collect();
    let error = store.push(&jobs).await.unwrap_err();
    assert!(matches!(error, StoreError::Unconfirmed { .. }), "{error:?}");
    assert_eq!(store.counts(&tenant()).await.unwrap()[0].ready, 8500);
}

#[tokio::test]
async fn pushes_whose_callers_give_up_hold_up_no_later_one() {
    let primary = Redis::start_with(Settings::default().listens()).await;
    let store = open(&primary.url(), &settings(AcknowledgedBy::Replicas, 1, Duration::from_secs(1))).await;
    for _ in 0..16 {
        let jobs = [job("mail")];
        let stored =
            until("the job is stored", async || store.job(&tenant(), &jobs[0].spec.id).await.unwrap().is_some());
        tokio::select! {
            biased;
            _ = store.push(&jobs) => {}
            () = stored => {}
        }
    }
    // One round for each would take longer than the store waits for an answer.
    let error = store.push(&[job("mail")]).await.unwrap_err();
    let error = format!("{:#}", anyhow::Error::from(error));
    assert!(error.contains("0 of the 1 replicas"), "{error}");
}

#[tokio::test]
async fn an_address_that_leads_to_two_servers_confirms_nothing() {
    let (old, new) = (Redis::start_with(Settings::default()).await, Redis::start_with(Settings::default()).await);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("either.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let sockets = [old.socket(), new.socket()];
    let forward = tokio::spawn(async move {
        for socket in sockets.iter().cycle() {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = tokio::net::UnixStream::connect(socket).await.unwrap();
            tokio::spawn(async move { drop(tokio::io::copy_bidirectional(&mut client, &mut server).await) });
        }
    });
    let url = format!("redis+unix://{}", path.display());
    let error = RedisStore::open(&url, &settings(AcknowledgedBy::Replicas, 0, PATIENT)).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    let error = format!("{:#}", anyhow::Error::from(error));
    assert!(error.contains("two servers"), "{error}");
    forward.abort();
}

#[tokio::test]
async fn a_server_that_cannot_wait_for_its_disk_is_refused() {
    let server = Redis::start_without_log().await;
    let error = RedisStore::open(&server.url(), &settings(AcknowledgedBy::Disks, 0, PATIENT)).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    let error = format!("{:#}", anyhow::Error::from(error));
    assert!(error.contains("`acknowledged-by`") && error.contains("`appendonly yes`"), "{error}");
}

#[tokio::test]
async fn a_failover_under_load_loses_no_acknowledged_push() {
    let mut watched = Watched::start(1).await;
    let store = open(&watched.url(), &settings(AcknowledgedBy::Replicas, 1, PATIENT)).await;
    until("the replica confirms", async || store.push(&[job("mail")]).await.is_ok()).await;
    let ledger = Ledger::default();
    let failovers = async {
        for round in 0..rounds() {
            ledger.until_more().await;
            let old = watched.primary().await;
            let failure = ServerFailure::of(round);
            failure.begin(&mut watched.servers[old]);
            let new = watched.fail_over().await;
            // It has no replica yet: it acknowledges nothing until the old one has come back as one.
            failure.end(&mut watched.servers[old]).await;
            let port = watched.servers[new].port().to_string();
            watched.servers[old].ask::<String>("REPLICAOF", &["127.0.0.1", &port]).await.unwrap();
            ledger.until_more().await;
        }
        ledger.end();
    };
    let produce = || ledger.produce(&store);
    tokio::join!(failovers, produce(), produce(), produce(), produce());
    ledger.assert_stored(&store).await;
}
