//! The claim that a job was taken with: its processing List, its lease and its number.

use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{Value, cmd};

use super::server::{TestRedis, until};
use crate::prelude::*;
use crate::redis::holder::Holder;
use crate::tests::{LEASE, job, tenant, topic, worker};
use crate::{ClaimFrom, Settled, Settlement};
use gristmill_core::job::{Claim, Lease, WorkerId};
use gristmill_core::outcome::Verdict;

async fn list(store: &TestRedis, claim: &Claim) -> Vec<String> {
    let list = store.store.first().keys(&tenant()).processing(Holder::of(&claim.lease));
    redis::from_redis_value(store.raw(cmd("LRANGE").arg(list).arg(0).arg(-1)).await).unwrap()
}

async fn keys_left(store: &TestRedis) -> Vec<String> {
    let mut left: Vec<String> = redis::from_redis_value(store.raw(cmd("KEYS").arg("*")).await).unwrap();
    left.retain(|key| {
        !["counts", "topics", "active", "format", "tenants"].iter().any(|kept| key.ends_with(kept))
            && [":settled:", ":ended:"].iter().all(|kept| !key.contains(kept))
    });
    left
}

#[tokio::test]
async fn the_jobs_of_a_claim_stand_in_its_own_list_until_they_are_settled() {
    let store = TestRedis::new().await;
    store.push(&(0..5).map(|_| job("mail")).collect::<Vec<_>>()).await;
    let (first, second) = (store.claim(3).await, store.claim(2).await);
    let ids = |claims: &[Claim]| claims.iter().rev().map(|claim| claim.lease.job.to_string()).collect::<Vec<_>>();
    assert_eq!((list(&store, &first[0]).await, list(&store, &second[0]).await), (ids(&first), ids(&second)));
    store.settle(&first[1], Verdict::Ack(None)).await;
    assert_eq!(list(&store, &first[0]).await, [ids(&first[2..]), ids(&first[..1])].concat());
    store.settle(&first[0], Verdict::Expire).await;
    assert_eq!(list(&store, &first[0]).await, ids(&first[2..]));
    let acks: Vec<_> = first[2..]
        .iter()
        .chain(&second)
        .map(|claim| Settlement::new(claim.lease.clone(), Verdict::Ack(None)))
        .collect();
    assert_eq!(store.store.settle(&acks).await.unwrap(), [Settled::Done; 3]);
    assert_eq!(keys_left(&store).await, [""; 0]);
}

#[tokio::test]
async fn jobs_with_leases_of_two_lengths_are_of_two_claims() {
    let store = TestRedis::new().await;
    store.push(&[job("mail"), job("audit"), job("report")]).await;
    let line = |of: &str, lease| ClaimFrom::new(topic(of), 1, lease);
    let lines = [line("mail", LEASE), line("audit", 2 * LEASE), line("report", LEASE)];
    let claims = store.store.claim(&worker(), &lines).await.unwrap().claims;
    let batch = |of: &str| claims.iter().find(|claim| claim.lease.topic == topic(of)).unwrap().lease.batch;
    assert_eq!(batch("mail"), batch("report"));
    assert_ne!(batch("mail"), batch("audit"));
    let until: Vec<_> = claims.iter().map(|claim| claim.lease_until.since(store.now())).collect();
    assert_eq!(until, [LEASE, LEASE, 2 * LEASE]);
}

#[tokio::test]
async fn a_lease_that_does_not_say_its_claim_is_looked_up() {
    let store = TestRedis::new().await;
    store.push(&[job("mail"), job("mail")]).await;
    let claims = store.claim(2).await;
    let bare = |claim: &Claim| Lease { batch: None, ..claim.lease.clone() };
    assert_eq!(store.store.extend(&[bare(&claims[0]), claims[1].lease.clone()], LEASE).await.unwrap(), [true, true]);
    assert!(store.store.checkpoint(&bare(&claims[0]), b"half").await.unwrap());
    let settle = async |lease: Lease| store.store.settle(&[Settlement::new(lease, Verdict::Ack(None))]).await.unwrap();
    assert_eq!(settle(Lease { worker: WorkerId::new("impostor"), ..bare(&claims[0]) }).await, [Settled::LeaseLost]);
    assert_eq!(settle(bare(&claims[0])).await, [Settled::Done]);
    assert_eq!(settle(bare(&claims[0])).await, [Settled::LeaseLost]);
    assert_eq!(settle(bare(&claims[1])).await, [Settled::Done]);
    assert_eq!(keys_left(&store).await, [""; 0]);
}

#[tokio::test]
async fn a_claim_that_the_server_lost_is_not_mistaken_for_a_later_one() {
    let mut store = TestRedis::new().await;
    let lost = job("mail");
    store.push(std::slice::from_ref(&lost)).await;
    let before = store.claim(1).await.pop().unwrap();
    // As after a failover to a server that did not get the last writes.
    store.server.replace().await;
    until("the store answers", async || store.store.heartbeat(&worker()).await.is_ok()).await;
    store.push(&[lost]).await;
    let after = store.claim(1).await.pop().unwrap();
    assert_eq!((&before.lease, before.lease.delivery), (&after.lease, 1), "the same delivery to the same worker");
    assert!(before.lease.batch < after.lease.batch);
    assert_eq!(store.settle(&before, Verdict::Ack(None)).await, Settled::LeaseLost);
    assert_eq!(store.store.extend(&[before.lease], LEASE).await.unwrap(), [false]);
    assert_eq!(store.settle(&after, Verdict::Ack(None)).await, Settled::Done);
}

#[tokio::test]
async fn a_number_that_is_in_use_is_refused_and_nothing_is_claimed() {
    let store = TestRedis::new().await;
    store.push(&[job("mail")]).await;
    // Higher than any that the clock gives.
    let next = u64::MAX / 256 * 128;
    let taken = store.store.first().keys(&tenant()).processing(Holder { worker: &worker(), batch: next });
    store.raw(cmd("LPUSH").arg(&taken).arg("x")).await;
    store.store.first().last_batch.store(next - 128, Ordering::Relaxed);
    let claimed = store.claim_as(&worker(), "mail", 1).await;
    let [(refused, error)] = claimed.refused.as_slice() else { panic!("{claimed:?}") };
    assert_eq!((refused, claimed.claims.len()), (&topic("mail"), 0));
    assert!(format!("{error:?}").contains("a claim with this number"), "{error:?}");
    assert_eq!(store.claim(1).await.len(), 1);
}

#[tokio::test]
async fn a_claim_whose_jobs_were_all_extended_is_looked_at_when_the_first_of_these_leases_ends() {
    let store = TestRedis::new().await;
    store.push(&[job("mail"), job("mail")]).await;
    let claims = store.claim(2).await;
    for claim in &claims {
        store.pass(1000);
        assert_eq!(store.store.extend(std::slice::from_ref(&claim.lease), LEASE).await.unwrap(), [true]);
    }
    store.pass(LEASE.as_millis() as u64 - 1500);
    let found = store.store.overdue(&[tenant()], Duration::from_secs(7), 9).await.unwrap();
    assert!(found.jobs.is_empty() && found.refused.is_empty());
    let head = store
        .raw(cmd("ZRANGE").arg(store.store.first().keys(&tenant()).leases()).arg(0).arg(0).arg("WITHSCORES"))
        .await;
    let head: Vec<(String, u64)> = redis::from_redis_value(head).unwrap();
    assert_eq!(head[0].1, store.now().as_millis() + 500);
    store.settle(&claims[0], Verdict::Ack(None)).await;
    store.settle(&claims[1], Verdict::Release(Duration::ZERO)).await;
    store.claim(1).await;
    assert_eq!(store.raw(cmd("EXISTS").arg(store.store.first().keys(&tenant()).extended())).await, Value::Int(0));
}

#[tokio::test]
async fn of_a_large_claim_one_job_is_overdue_another_was_extended_and_the_others_have_ended() {
    const DEAD_AFTER: Duration = Duration::from_secs(3600);
    let store = TestRedis::new().await;
    store.push(&(0..300).map(|_| job("mail")).collect::<Vec<_>>()).await;
    let mut claims = store.claim(300).await;
    let (overdue, extended) = (claims.remove(200), claims.remove(70));
    store.pass(1000);
    assert_eq!(store.store.extend(std::slice::from_ref(&extended.lease), LEASE).await.unwrap(), [true]);
    // Some from the middle of the List, and then all others at once.
    for claim in claims.drain(100..110) {
        assert_eq!(store.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    }
    let acks: Vec<_> = claims.iter().map(|claim| Settlement::new(claim.lease.clone(), Verdict::Ack(None))).collect();
    assert!(store.store.settle(&acks).await.unwrap().iter().all(|answer| *answer == Settled::Done));
    assert_eq!(list(&store, &overdue).await, [overdue.lease.job.as_str(), extended.lease.job.as_str()]);

    store.pass(LEASE.as_millis() as u64 - 1000);
    let found = store.store.overdue(&[tenant()], DEAD_AFTER, 9).await.unwrap().jobs;
    assert_eq!(found.iter().map(|found| &found.claim.lease).collect::<Vec<_>>(), [&overdue.lease]);
    assert_eq!(store.settle(&overdue, Verdict::Release(Duration::ZERO)).await, Settled::Done);
    assert_eq!(store.settle(&store.claim(1).await[0], Verdict::Ack(None)).await, Settled::Done);
    // It is the only one left, so the lease is that of the claim again.
    assert_eq!(store.store.extend(std::slice::from_ref(&extended.lease), LEASE).await.unwrap(), [true]);
    assert_eq!(store.raw(cmd("EXISTS").arg(store.store.first().keys(&tenant()).extended())).await, Value::Int(0));
    store.pass(LEASE.as_millis() as u64 - 1);
    assert!(store.store.overdue(&[tenant()], DEAD_AFTER, 9).await.unwrap().jobs.is_empty());
    store.pass(1);
    assert_eq!(store.store.overdue(&[tenant()], DEAD_AFTER, 9).await.unwrap().jobs.len(), 1);
    assert_eq!(store.settle(&extended, Verdict::Ack(None)).await, Settled::Done);
    assert_eq!(keys_left(&store).await, [""; 0]);
}

#[tokio::test]
async fn all_claims_of_a_dead_worker_are_looked_at_in_one_round() {
    const CLAIMS: usize = 1200;
    const SOON: Duration = Duration::from_secs(7);
    let store = TestRedis::new().await;
    store.push(&(0..CLAIMS).map(|_| job("mail")).collect::<Vec<_>>()).await;
    for _ in 0..CLAIMS {
        assert_eq!(store.claim(1).await.len(), 1);
    }
    store.pass(LEASE.as_millis() as u64);
    let found = store.store.overdue(&[tenant()], SOON, 1000).await.unwrap().jobs;
    assert_eq!(found.len(), 1000, "five hundred of each call of the script");
    let ends: Vec<_> =
        found.into_iter().map(|found| Settlement::new(found.claim.lease, Verdict::Release(Duration::ZERO))).collect();
    assert!(store.store.settle(&ends).await.unwrap().iter().all(|settled| *settled == Settled::Done));
    assert_eq!(store.store.overdue(&[tenant()], SOON, 1000).await.unwrap().jobs.len(), CLAIMS - 1000);
}
