//! Servers of a cluster: found, asked each for its tenants, and followed when slots move or a replica takes over.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gristmill_config::{AcknowledgedBy, Acknowledgement, RedisSettings};
use gristmill_test_servers::cluster::Cluster;
use gristmill_test_servers::redis::Redis;
use parking_lot::Mutex;

use super::server::until;
use crate::prelude::*;
use crate::redis::RedisStore;
use crate::tests::{LEASE, job, tenant, topic, worker};
use crate::{ClaimFrom, Settled, Settlement, Signal, StoreError};
use gristmill_core::job::{JobId, JobSpec, Name, NewJob, Payload, TopicId};
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
    let lines: Vec<_> = topics.iter().map(|topic| ClaimFrom { topic: topic.clone(), max: 5, lease: LEASE }).collect();
    let claims = store.claim(&worker(), &lines).await.unwrap().claims;
    assert_eq!(claims.len(), topics.len());
    let settlements: Vec<_> =
        claims.iter().map(|claim| Settlement::of(claim, Verdict::Ack(None), Duration::ZERO)).collect();
    assert_eq!(store.settle(&settlements).await.unwrap(), vec![Settled::Done; topics.len()]);
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

/// What became of the jobs of a test's producers.
#[derive(Default)]
struct Ledger {
    acknowledged: Mutex<Vec<JobId>>,
    done: Mutex<HashSet<JobId>>,
    ends: AtomicBool,
}

impl Ledger {
    fn acknowledged(&self) -> usize {
        self.acknowledged.lock().len()
    }

    async fn produce(&self, store: &RedisStore) {
        while !self.ends.load(Ordering::SeqCst) {
            let jobs = [job("mail"), job("mail")];
            match store.push(&jobs).await {
                Ok(_) => self.acknowledged.lock().extend(jobs.map(|job| job.spec.id)),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    /// Claims and acks until the producers have ended, and nothing is left.
    async fn consume(&self, store: &RedisStore) {
        loop {
            let is_last = self.ends.load(Ordering::SeqCst);
            let claimed = store.claim(&worker(), &[ClaimFrom { topic: topic("mail"), max: 50, lease: LEASE }]).await;
            let Some(claimed) = claimed.ok().filter(|claimed| claimed.refused.is_empty()) else {
                tokio::task::yield_now().await;
                continue;
            };
            if claimed.claims.is_empty() && is_last {
                return;
            }
            for claim in claimed.claims {
                let settlements = [Settlement::of(&claim, Verdict::Ack(None), Duration::ZERO)];
                until("the job is settled", async || match store.settle(&settlements).await {
                    Ok(settled) if settled == [Settled::Done] => {
                        assert!(self.done.lock().insert(claim.job.spec.id.clone()), "a job is done twice");
                        true
                    }
                    Ok(settled) => panic!("{settled:?}"),
                    Err(_) => false,
                })
                .await;
            }
        }
    }

    async fn until_more(&self) {
        let before = self.acknowledged();
        until("pushes are acknowledged", async || self.acknowledged() > before + 200).await;
    }
}

/// Few, or as many as `scripts/failovers.sh` says.
fn rounds() -> usize {
    std::env::var("GRISTMILL_FAILOVERS").map_or(2, |count| count.parse().unwrap())
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
        ledger.ends.store(true, Ordering::SeqCst);
    };
    tokio::join!(moves, ledger.consume(&store), ledger.produce(&store), ledger.produce(&store));
    // Pushed behind the consumer's last look.
    ledger.consume(&store).await;
    let (acknowledged, done) = (ledger.acknowledged.into_inner(), ledger.done.into_inner());
    println!("{} pushed jobs were acknowledged, {} done", acknowledged.len(), done.len());
    let lost = acknowledged.iter().filter(|id| !done.contains(*id)).count();
    assert_eq!(lost, 0, "of {} acknowledged", acknowledged.len());
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
        for _ in 0..rounds() {
            ledger.until_more().await;
            cluster.servers[primary].kill();
            cluster.order(replica, &["FAILOVER", "TAKEOVER"]).await;
            // It finds out that it is a replica now.
            cluster.servers[primary].resume().await;
            (primary, replica) = (replica, primary);
            ledger.until_more().await;
        }
        ledger.ends.store(true, Ordering::SeqCst);
    };
    tokio::join!(failovers, ledger.produce(&store), ledger.produce(&store));
    let acknowledged = ledger.acknowledged.into_inner();
    println!("{} pushed jobs were acknowledged", acknowledged.len());
    let mut lost = 0;
    for id in &acknowledged {
        lost += usize::from(store.job(&tenant(), id).await.unwrap().is_none());
    }
    assert_eq!(lost, 0, "of {} acknowledged", acknowledged.len());
}
