//! Leases, heartbeats and checkpoints: how jobs come back from workers that do not.

use std::collections::HashSet;
use std::time::Duration;

use super::mill::{DEAD_AFTER, LEASE, Mill, delayed, failure, job, retry, tenant, topic, worker};
use crate::job::{Priority, WorkerId};
use crate::outcome::{Reason, Verdict};
use crate::store::{JobState, Overdue, Settled, Settlement, Store};

async fn overdue(mill: &Mill) -> Vec<Overdue> {
    mill.store.overdue(&tenant(), DEAD_AFTER, 100).await.unwrap()
}

fn reaped(overdue: &Overdue) -> Settlement {
    let lease = overdue.claim.lease.clone();
    Settlement { only_if_overdue: Some(DEAD_AFTER), ..Settlement::new(lease, retry(0)) }
}

#[tokio::test]
async fn a_lease_that_ran_out_is_found_and_reaped() {
    let mill = Mill::new().await;
    let claim = mill.running().await;
    mill.pass(29_999);
    assert!(overdue(&mill).await.is_empty());
    mill.pass(1);
    let found = overdue(&mill).await;
    assert_eq!((found.len(), found[0].worker_died), (1, false));
    assert_eq!(found[0].claim.lease, claim.lease);
    assert_eq!(found[0].claim.job, claim.job);
    assert_eq!(found[0].claim.attempt, 1);
    assert_eq!(mill.settle_with(reaped(&found[0])).await, Settled::Done);
    assert!(overdue(&mill).await.is_empty());
    assert_eq!(mill.settle(&claim, Verdict::Ack(None)).await, Settled::LeaseLost);
    assert_eq!(mill.claim(1).await[0].attempt, 2);
}

#[tokio::test]
async fn what_a_worker_holds_can_be_asked_for() {
    let mill = Mill::new().await;
    mill.push(&[job("mail"), job("mail"), job("mail")]).await;
    let claims = mill.claim(2).await;
    mill.claim_as(&WorkerId::new("other"), "mail", 1).await;
    let held = async |except| mill.store.held(&tenant(), &worker(), &except).await.unwrap();
    assert_eq!(held(HashSet::new()).await, claims.iter().map(|claim| claim.lease.clone()).rev().collect::<Vec<_>>());
    let known = HashSet::from([claims[0].lease.job.clone()]);
    assert_eq!(held(known.clone()).await, [claims[1].lease.clone()]);
    mill.settle(&claims[1], Verdict::Release(Duration::ZERO)).await;
    assert!(held(known).await.is_empty());
}

#[tokio::test]
async fn a_lease_that_was_extended_is_not_reaped() {
    let mill = Mill::new().await;
    let claim = mill.running().await;
    mill.pass(30_000);
    let found = overdue(&mill).await;
    assert_eq!(mill.store.extend(std::slice::from_ref(&claim.lease), LEASE).await.unwrap(), [true]);
    assert_eq!(mill.settle_with(reaped(&found[0])).await, Settled::LeaseLost);
    mill.pass(29_999);
    assert!(overdue(&mill).await.is_empty());
    let until = mill.now().plus(Duration::from_millis(1));
    assert_eq!(
        mill.state(&claim.job.spec).await,
        Some(JobState::Running { worker: worker().to_string(), lease_until: until, cancelled: false })
    );
    assert_eq!(mill.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    assert_eq!(mill.store.extend(&[claim.lease], LEASE).await.unwrap(), [false]);
}

#[tokio::test]
async fn a_dead_workers_jobs_are_found_before_their_leases_run_out() {
    let mill = Mill::new().await;
    let alive = WorkerId::new("alive");
    mill.store.heartbeat(&worker()).await.unwrap();
    let claim = mill.running().await;
    mill.push(&[job("mail")]).await;
    let other = mill.claim_as(&alive, "mail", 1).await.claims.pop().unwrap();
    mill.pass(9_999);
    mill.store.heartbeat(&alive).await.unwrap();
    assert!(overdue(&mill).await.is_empty());
    mill.pass(1);
    let found = overdue(&mill).await;
    assert_eq!((found.len(), found[0].worker_died), (1, true));
    assert_eq!(found[0].claim.lease, claim.lease);
    assert_eq!(mill.settle_with(reaped(&found[0])).await, Settled::Done);
    let not_overdue = Overdue { claim: other, worker_died: true };
    assert_eq!(mill.settle_with(reaped(&not_overdue)).await, Settled::LeaseLost);
}

#[tokio::test]
async fn a_worker_that_comes_back_keeps_its_jobs() {
    let mill = Mill::new().await;
    mill.store.heartbeat(&worker()).await.unwrap();
    let claim = mill.running().await;
    mill.pass(10_000);
    let found = overdue(&mill).await;
    mill.store.heartbeat(&worker()).await.unwrap();
    assert_eq!(mill.settle_with(reaped(&found[0])).await, Settled::LeaseLost);
    assert_eq!(mill.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
}

#[tokio::test]
async fn overdue_jobs_are_found_in_bounded_numbers_and_once_each() {
    let mill = Mill::new().await;
    mill.store.heartbeat(&worker()).await.unwrap();
    mill.push(&(0..5).map(|_| job("mail")).collect::<Vec<_>>()).await;
    mill.claim(5).await;
    mill.pass(30_000);
    assert_eq!(overdue(&mill).await.len(), 5, "dead worker and lost lease at once");
    assert_eq!(mill.store.overdue(&tenant(), DEAD_AFTER, 3).await.unwrap().len(), 3);
    assert!(mill.store.overdue(&tenant(), DEAD_AFTER, 0).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_retired_worker_is_never_called_dead() {
    let mill = Mill::new().await;
    mill.store.heartbeat(&worker()).await.unwrap();
    mill.running().await;
    mill.store.retire(&worker()).await.unwrap();
    mill.pass(20_000);
    assert!(overdue(&mill).await.is_empty());
}

#[tokio::test]
async fn a_worker_is_forgotten_in_the_end_and_its_jobs_are_not() {
    let mill = Mill::new().await;
    mill.store.heartbeat(&worker()).await.unwrap();
    mill.running().await;
    mill.pass(3_600_000);
    let found = overdue(&mill).await;
    assert_eq!((found.len(), found[0].worker_died), (1, false));
}

#[tokio::test]
async fn the_next_attempt_sees_the_checkpoint() {
    let mill = Mill::new().await;
    let first = mill.running().await;
    assert!(mill.store.checkpoint(&first.lease, b"step 1").await.unwrap());
    assert!(mill.store.checkpoint(&first.lease, b"step 2").await.unwrap());
    mill.settle(&first, retry(0)).await;
    assert!(!mill.store.checkpoint(&first.lease, b"too late").await.unwrap());
    let second = mill.claim(1).await.pop().unwrap();
    assert_eq!(second.checkpoint.as_deref(), Some(&b"step 2"[..]));
    assert_eq!(second.previous, Some(Reason::Failed));
    mill.settle(&second, Verdict::Ack(None)).await;
    let left = mill.raw(redis::cmd("EXISTS").arg(mill.store.keys(&tenant()).checkpoints())).await;
    assert_eq!(left, redis::Value::Int(0), "an ack takes the checkpoint with it");
}

#[tokio::test]
async fn a_job_named_twice_runs_once_and_the_second_is_set_aside() {
    let mill = Mill::new().await;
    let later = delayed("mail", 1000);
    mill.push(&[job("mail"), job("mail"), later.clone()]).await;
    let claims = mill.claim(2).await;
    let (running, dead) = (&claims[0].lease.job, &claims[1].lease.job);
    mill.settle(&claims[1], Verdict::Bury(failure(Reason::Trap))).await;
    let keys = mill.store.keys(&tenant());
    let ready = keys.ready(Priority::Normal, &topic("mail").topic);
    for id in [running, dead, &later.spec.id] {
        mill.raw(redis::cmd("LPUSH").arg(&ready).arg(id.as_str())).await;
    }
    let claimed = mill.claim_as(&worker(), "mail", 10).await;
    assert_eq!((claimed.claims.len(), claimed.strays, mill.total("stray").await), (0, 3, 3));
    let strays = mill.raw(redis::cmd("LLEN").arg(keys.strays(&topic("mail").topic))).await;
    assert_eq!(strays, redis::Value::Int(3));
    assert_eq!(mill.settle(&claims[0], Verdict::Ack(None)).await, Settled::Done);
    let left = mill.raw(redis::cmd("LLEN").arg(keys.processing(&worker()))).await;
    assert_eq!(left, redis::Value::Int(0));
}

#[tokio::test]
async fn an_unreadable_job_is_buried_and_the_others_go_on() {
    let mill = Mill::new().await;
    let jobs = [job("mail"), job("mail")];
    mill.push(&jobs).await;
    let keys = mill.store.keys(&tenant());
    mill.raw(redis::cmd("HSET").arg(keys.jobs()).arg(jobs[0].spec.id.as_str()).arg("garbage")).await;
    let claims = mill.claim(10).await;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].job.spec, jobs[1].spec);
    let dead = crate::store::Inspect::dead(&mill.store, &topic("mail"), 0, 10).await.unwrap().pop().unwrap();
    assert_eq!(dead.job.spec.body.data, b"garbage");
    let failure = dead.failure.unwrap();
    assert_eq!((failure.reason, failure.detail.code.as_str()), (Reason::Rejected, "unreadable"));
}
