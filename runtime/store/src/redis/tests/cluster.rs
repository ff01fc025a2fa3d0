//! Servers of a cluster: found, asked each for its tenants, and followed when slots move or a replica takes over.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, Instant};

use gristmill_config::{AcknowledgedBy, Acknowledgement, RedisSettings};
use gristmill_test_servers::cluster::Cluster;
use gristmill_test_servers::redis::Redis;
use tokio::time::timeout;

use super::ledger::{Ledger, ServerFailure, rounds};
use super::server::until;
use super::waking::next;
use crate::prelude::*;
use crate::redis::RedisStore;
use crate::tests::{LEASE, job, tenant, topic, worker};
use crate::{ClaimFrom, PollTenant, Settled, Settlement, Signal, StoreError};
use gristmill_core::job::{JobSpec, Name, NewJob, Payload, TopicId};
use gristmill_core::outcome::Verdict;

async fn open(cluster: &Cluster, settings: &RedisSettings) -> RedisStore {
    let mut store = None;
    until("the cluster is there", async || {
        store = RedisStore::open(&cluster.url(), settings).await.ok();
        store.is_some()
    })
    .await;
    store.unwrap()
}

fn text(error: StoreError) -> String {
    format!("{:#}", anyhow::Error::from(error))
}

#[tokio::test]
async fn each_tenant_is_at_the_server_of_its_slot() {
    let cluster = Cluster::start(3, 0).await;
    let store = open(&cluster, &RedisSettings::default()).await;
    let tenants: Vec<Name> = (0..12).map(|number| format!("tenant-{number}").parse().unwrap()).collect();
    let topics: Vec<_> =
        tenants.iter().map(|tenant| TopicId { tenant: tenant.clone(), topic: "mail".parse().unwrap() }).collect();
    let mut signals = store.signals(&tenants).await.unwrap();
    let spec = |topic: &TopicId| JobSpec::new(topic.clone(), Payload::default());
    let jobs: Vec<_> = topics.iter().map(|topic| NewJob { spec: spec(topic), ..job("mail") }).collect();
    store.push(&jobs).await.unwrap();

    let mut servers = HashSet::new();
    for tenant in &tenants {
        servers.insert(cluster.owner(cluster.slot(&format!("{{{tenant}/0}}")).await).await);
    }
    assert_eq!(servers.len(), 3, "the tenants are of all servers");
    let listed = store.tenants().await.unwrap();
    assert_eq!(BTreeSet::from_iter(listed), BTreeSet::from_iter(tenants));
    let mut woken = BTreeSet::new();
    while woken.len() < topics.len() {
        if let Signal::Ready(topic) = signals.recv().await.unwrap() {
            woken.insert(topic);
        }
    }
    let lines: Vec<_> = topics.iter().map(|topic| ClaimFrom::new(topic.clone(), 5, LEASE)).collect();
    let claims = store.claim(&worker(), &lines).await.unwrap().claims;
    assert_eq!(claims.len(), topics.len());
    let settlements: Vec<_> =
        claims.iter().map(|claim| Settlement::of(claim, Verdict::Ack(None), Duration::ZERO)).collect();
    assert_eq!(store.settle(&settlements).await.unwrap(), vec![Settled::Done; topics.len()]);
}

#[tokio::test]
async fn a_cluster_without_one_server_is_opened_for_the_tenants_of_the_others() {
    let mut cluster = Cluster::start(3, 0).await;
    open(&cluster, &RedisSettings::default()).await.push(&[job("mail")]).await.unwrap();
    let mut used = HashSet::new();
    for key in ["gm:partitions", "gm:tenants", &format!("{{{}/0}}", tenant())] {
        used.insert(cluster.owner(cluster.slot(key).await).await);
    }
    let unused = (0..3).find(|server| !used.contains(server)).expect("the keys are at fewer servers than there are");
    cluster.servers[unused].kill();
    let store = RedisStore::open(&cluster.url(), &RedisSettings::default()).await.unwrap();
    store.push(&[job("mail")]).await.unwrap();
    assert_eq!(store.claim(&worker(), &[ClaimFrom::new(topic("mail"), 9, LEASE)]).await.unwrap().claims.len(), 2);
}

#[tokio::test]
async fn a_server_that_is_unavailable_stops_no_reaping_at_the_others() {
    let mut cluster = Cluster::start(3, 0).await;
    let store = open(&cluster, &RedisSettings::default()).await;
    let home = cluster.owner(cluster.slot("gm:workers").await).await;
    let mut tenants: BTreeMap<usize, Name> = BTreeMap::new();
    for number in 0..30 {
        let server = cluster.owner(cluster.slot(&format!("{{tenant-{number}/0}}")).await).await;
        tenants.entry(server).or_insert_with(|| format!("tenant-{number}").parse().unwrap());
    }
    let (lost, gone) = tenants.clone().into_iter().find(|(server, _)| *server != home).unwrap();
    tenants.remove(&lost);
    let remaining: Vec<Name> = tenants.into_values().collect();
    let all: Vec<Name> = [gone.clone()].into_iter().chain(remaining.clone()).collect();
    let topics: Vec<_> =
        all.iter().map(|tenant| TopicId { tenant: tenant.clone(), topic: "mail".parse().unwrap() }).collect();
    let jobs =
        topics.iter().map(|topic| NewJob { spec: JobSpec::new(topic.clone(), Payload::default()), ..job("mail") });
    store.push(&jobs.collect::<Vec<_>>()).await.unwrap();
    let lines = topics.iter().map(|topic| ClaimFrom::new(topic.clone(), 1, Duration::from_millis(1)));
    assert_eq!(store.claim(&worker(), &lines.collect::<Vec<_>>()).await.unwrap().claims.len(), 3);
    cluster.servers[lost].kill();
    until("the jobs of the others are overdue", async || {
        let Ok(found) = store.overdue(&all, Duration::from_secs(60), 10).await else { return false };
        let refused: Vec<_> = found.refused.iter().map(|(tenant, error)| (tenant, error.is_unavailable())).collect();
        let overdue: BTreeSet<_> = found.jobs.iter().map(|job| job.claim.lease.topic.tenant.clone()).collect();
        refused == [(&gone, true)] && overdue == BTreeSet::from_iter(remaining.clone())
    })
    .await;
}

#[tokio::test]
async fn a_wrong_kind_of_address_is_refused_with_the_right_one() {
    let cluster = Cluster::start(2, 0).await;
    let one = RedisStore::connect(&format!("redis://127.0.0.1:{}", cluster.servers[0].port()), "gm").await;
    let one = text(one.unwrap_err());
    assert!(one.contains("`redis+cluster://`"), "{one}");
    let alone = Redis::start_with(gristmill_test_servers::redis::Settings::default().listens()).await;
    let none = RedisStore::connect(&format!("redis+cluster://127.0.0.1:{}", alone.port()), "gm").await.unwrap_err();
    assert!(matches!(none, StoreError::Refused { .. }), "{none:?}");
    let none = text(none);
    assert!(none.contains("in no cluster") && none.contains("`redis://`"), "{none}");
}

#[tokio::test]
async fn slots_that_move_under_load_lose_no_job_and_repeat_none() {
    let cluster = Cluster::start(3, 0).await;
    let store = open(&cluster, &RedisSettings::default()).await;
    let ledger = Ledger::default();
    let slot = cluster.slot(&format!("{{{}/0}}", tenant())).await;
    let moves = async {
        for _ in 0..rounds() {
            ledger.until_more().await;
            let to = (cluster.owner(slot).await + 1) % cluster.servers.len();
            cluster.move_slot(slot, to).await;
        }
        ledger.until_more().await;
        ledger.end();
    };
    tokio::join!(moves, ledger.consume(&store), ledger.produce(&store), ledger.produce(&store));
    // Pushed behind the consumer's last look.
    ledger.consume(&store).await;
    ledger.assert_done();
}

#[tokio::test]
async fn a_replica_that_takes_over_in_a_cluster_has_every_acknowledged_push() {
    let mut cluster = Cluster::start(3, 1).await;
    let slot = cluster.slot(&format!("{{{}/0}}", tenant())).await;
    let (mut primary, mut replica) = (cluster.owner(slot).await, 3);
    cluster.order(replica, &["REPLICATE", &cluster.id(primary).await]).await;
    let acknowledgement = Acknowledgement { by: AcknowledgedBy::Replicas, replicas: 1, within: Duration::from_secs(4) };
    let store = open(&cluster, &RedisSettings { acknowledgement, ..RedisSettings::default() }).await;
    until("the replica confirms", async || store.push(&[job("mail")]).await.is_ok()).await;
    let ledger = Ledger::default();
    let failovers = async {
        for round in 0..rounds() {
            ledger.until_more().await;
            let failure = ServerFailure::of(round);
            failure.begin(&mut cluster.servers[primary]);
            cluster.order(replica, &["FAILOVER", "TAKEOVER"]).await;
            // It finds out that it is a replica now.
            failure.end(&mut cluster.servers[primary]).await;
            (primary, replica) = (replica, primary);
            ledger.until_more().await;
        }
        ledger.end();
    };
    tokio::join!(failovers, ledger.produce(&store), ledger.produce(&store));
    ledger.assert_stored(&store).await;
}

/// How often the servers have carried out this command.
async fn calls(cluster: &Cluster, command: &str) -> u64 {
    let mut sum = 0;
    for server in &cluster.servers {
        let stats: String = server.ask("INFO", &["commandstats"]).await.unwrap();
        let calls = stats.split_once(&format!("cmdstat_{command}:calls=")).and_then(|(_, rest)| rest.split_once(','));
        sum += calls.map_or(0, |(calls, _)| calls.parse::<u64>().unwrap());
    }
    sum
}

#[tokio::test]
async fn a_tenant_without_jobs_costs_one_command_a_poll() {
    let cluster = Cluster::start(3, 0).await;
    let store = open(&cluster, &RedisSettings::default()).await;
    let tenants: Vec<Name> = (0..12).map(|number| format!("tenant-{number}").parse().unwrap()).collect();
    let polls: Vec<_> = tenants.iter().map(|tenant| PollTenant { tenant: tenant.clone(), raw: Vec::new() }).collect();
    let before = calls(&cluster, "exists").await;
    assert!(store.poll_work(&polls).await.unwrap().into_iter().all(|found| found.unwrap().ready.is_empty()));
    let overdue = store.overdue(&tenants, Duration::from_secs(7), 9).await.unwrap();
    assert!(overdue.jobs.is_empty() && overdue.none_run);
    assert_eq!(calls(&cluster, "exists").await - before, 24);
    assert_eq!([calls(&cluster, "smembers").await, calls(&cluster, "zrange").await], [0, 0]);

    let topic = TopicId { tenant: tenants[5].clone(), topic: "mail".parse().unwrap() };
    let spec = JobSpec::new(topic.clone(), Payload::default());
    store.push(&[NewJob { spec, ..job("mail") }]).await.unwrap();
    let found = store.poll_work(&polls).await.unwrap();
    let ready: Vec<_> = found.into_iter().flat_map(|found| found.unwrap().ready).collect();
    assert_eq!(ready, std::slice::from_ref(&topic));
    store.claim(&worker(), &[ClaimFrom::new(topic, 1, LEASE)]).await.unwrap();
    assert!(!store.overdue(&tenants, Duration::from_secs(7), 9).await.unwrap().none_run);
}

#[tokio::test]
async fn a_runner_hears_once_what_each_server_passes_on() {
    let cluster = Cluster::start(3, 0).await;
    let store = open(&cluster, &RedisSettings::default()).await;
    let mut signals = store.wake_ups(&worker(), &[tenant()], &[topic("mail")]).await.unwrap();
    store.push(&[job("mail")]).await.unwrap();
    let owner = cluster.owner(cluster.slot(&format!("{{{}/0}}", tenant())).await).await;
    let (mut woken, mut received) = (0, HashSet::new());
    let publish = async |message: &str| {
        cluster.servers[owner].ask::<u64>("PUBLISH", &["gm:wake", message]).await.unwrap();
        message.to_owned()
    };
    for round in 0..20 {
        // Published where the job is, and passed on by each server: the signals of each of these tenants come from another one.
        for tenant in ["gamma", "elsewhere", "third"] {
            let mut last = publish(&format!("cancel {tenant} {round}")).await;
            while !received.contains(&last) {
                match timeout(Duration::from_secs(5), signals.recv()).await {
                    Ok(Some(Signal::Ready(_))) => woken += 1,
                    Ok(Some(Signal::Cancelled { tenant, id })) => {
                        let message = format!("cancel {tenant} {id}");
                        assert!(received.insert(message.clone()), "{message:?} is received again");
                    }
                    Ok(other) => panic!("{other:?}"),
                    // What servers pass on to each other is sent once and may be lost, as when they open a link anew.
                    Err(_) => {
                        last = publish(&format!("{last}-again")).await;
                        assert!(last.matches("again").count() < 10, "{last:?} is not received");
                    }
                }
            }
        }
    }
    assert_eq!(woken, 1);
}

#[tokio::test]
async fn a_replica_that_takes_over_in_order_wakes_runners() {
    let cluster = Cluster::start(3, 1).await;
    let slot = cluster.slot(&format!("{{{}/0}}", tenant())).await;
    let (primary, replica) = (cluster.owner(slot).await, 3);
    cluster.order(replica, &["REPLICATE", &cluster.id(primary).await]).await;
    until("the replica has it all", async || {
        let info: Option<String> = cluster.servers[primary].ask("INFO", &["replication"]).await;
        info.is_some_and(|info| info.contains("state=online"))
    })
    .await;
    let store = open(&cluster, &RedisSettings::default()).await;
    let mut signals = store.wake_ups(&worker(), &[tenant()], &[topic("mail")]).await.unwrap();
    let mut ordered: Option<Instant> = None;
    until("the replica takes over", async || {
        // Refused until the other servers know it as a replica. An order that is given again begins anew; the server gives one up
        // after five seconds.
        if ordered.is_none_or(|at| at.elapsed() > Duration::from_secs(6)) {
            let accepted = cluster.servers[replica].ask::<String>("CLUSTER", &["FAILOVER"]).await;
            ordered = accepted.map(|_| Instant::now());
        }
        cluster.owner(slot).await == replica
    })
    .await;
    // The last primary serves on, as a replica: no connection breaks.
    store.push(&[job("mail")]).await.unwrap();
    while next(&mut signals).await != Signal::Lost {}
    let from = [ClaimFrom::new(topic("mail"), 9, LEASE)];
    assert_eq!(store.claim(&worker(), &from).await.unwrap().claims.len(), 1);
    store.push(&[job("mail")]).await.unwrap();
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
}

#[tokio::test]
async fn the_partitions_of_a_topic_are_at_several_servers() {
    let cluster = Cluster::start(3, 0).await;
    let store = open(&cluster, &RedisSettings::default()).await;
    store.spread_after(&BTreeMap::from([(topic("mail"), 8)]), Duration::ZERO).await.unwrap();
    let jobs: Vec<_> = (0..100).map(|_| job("mail")).collect();
    store.push(&jobs).await.unwrap();
    let mut servers: BTreeMap<usize, u64> = BTreeMap::new();
    for number in 0..9 {
        let counts = store.partition(number).counts(&tenant()).await.unwrap();
        let owner = cluster.owner(cluster.slot(&format!("{{{}/{number}}}", tenant())).await).await;
        *servers.entry(owner).or_default() += counts.iter().map(|counts| counts.ready).sum::<u64>();
    }
    assert_eq!(servers.values().sum::<u64>(), 100);
    assert!(servers.len() == 3 && servers.values().all(|ready| *ready > 5), "{servers:?}");
    let mut claims = Vec::new();
    while claims.len() < 100 {
        let line = ClaimFrom::new(topic("mail"), 30, LEASE);
        claims.extend(store.claim(&worker(), &[line]).await.unwrap().claims);
    }
    let acks: Vec<_> = claims.iter().map(|claim| Settlement::of(claim, Verdict::Ack(None), Duration::ZERO)).collect();
    assert_eq!(store.settle(&acks).await.unwrap(), vec![Settled::Done; 100]);
}
