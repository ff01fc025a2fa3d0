//! The limits of the dead.

use std::time::Duration;

use super::mill::{Mill, failure, job, retry, tenant, topic};
use crate::{DeadLimits, Inspect, JobState, Settlement, Store};
use gristmill_core::job::JobId;
use gristmill_core::outcome::{Reason, Verdict};

pub(super) fn limits(keep: u64, retention: Duration) -> DeadLimits {
    DeadLimits { topic: topic("mail"), keep, retention }
}

/// Buries so many jobs, a millisecond apart.
async fn bury(mill: &Mill, n: usize) -> Vec<JobId> {
    mill.push(&(0..n).map(|_| job("mail")).collect::<Vec<_>>()).await;
    let mut buried = Vec::new();
    for claim in mill.claim(n).await {
        let bury = Settlement::new(claim.lease.clone(), Verdict::Bury(failure(Reason::Trap)));
        mill.settle_with(Settlement { keep_result: Duration::from_secs(60), ..bury }).await;
        buried.push(claim.lease.job);
        mill.pass(1);
    }
    buried
}

async fn dead(mill: &Mill) -> Vec<JobId> {
    let dead = mill.store.dead(&topic("mail"), 0, 99).await.unwrap();
    dead.into_iter().map(|dead| dead.job.spec.id).rev().collect()
}

#[tokio::test]
async fn the_oldest_beyond_the_number_are_dropped() {
    let mill = Mill::new().await;
    let buried = bury(&mill, 5).await;
    let other = DeadLimits { topic: topic("other"), ..limits(0, Duration::ZERO) };
    assert_eq!(mill.store.sweep(&[other.clone(), limits(5, Duration::MAX)]).await.unwrap(), [0, 0]);
    assert_eq!(mill.store.sweep(&[limits(2, Duration::MAX), other]).await.unwrap(), [3, 0]);
    assert_eq!(dead(&mill).await, buried[3..]);
    assert_eq!((mill.counts("mail").await.dead, mill.total("discarded").await), (2, 3));
}

#[tokio::test]
async fn the_aged_are_dropped_at_their_time_and_not_before() {
    let mill = Mill::new().await;
    let buried = bury(&mill, 3).await;
    // The first one is three milliseconds old by now.
    assert_eq!(mill.store.sweep(&[limits(9, Duration::from_millis(4))]).await.unwrap(), [0]);
    assert_eq!(mill.store.sweep(&[limits(9, Duration::from_millis(3))]).await.unwrap(), [1]);
    assert_eq!(dead(&mill).await, buried[1..]);
    mill.pass(1);
    assert_eq!(mill.store.sweep(&[limits(1, Duration::from_millis(3))]).await.unwrap(), [1], "either limit");
}

#[tokio::test]
async fn whatever_belongs_to_a_dropped_job_goes_with_it_but_its_result() {
    let mill = Mill::new().await;
    let claim = mill.running().await;
    mill.store.checkpoint(&claim.lease, b"step").await.unwrap();
    mill.settle(&claim, retry(0)).await;
    let claim = mill.claim(1).await.pop().unwrap();
    let bury = Settlement::new(claim.lease.clone(), Verdict::Bury(failure(Reason::Trap)));
    mill.settle_with(Settlement { keep_result: Duration::from_secs(60), ..bury }).await;
    assert_eq!(mill.store.sweep(&[limits(0, Duration::MAX)]).await.unwrap(), [1]);
    assert_eq!(mill.state(&claim.job.spec).await, Some(JobState::Finished));
    let keys = mill.store.keys(&tenant());
    let mut exists = redis::cmd("EXISTS");
    for key in [keys.jobs(), keys.claims(), keys.failures(), keys.checkpoints(), keys.perishable()] {
        exists.arg(key);
    }
    assert_eq!(mill.raw(&mut exists).await, redis::Value::Int(0));
}

#[tokio::test]
async fn a_call_drops_a_bounded_number() {
    let mill = Mill::new().await;
    mill.push(&(0..1003).map(|_| job("mail")).collect::<Vec<_>>()).await;
    let bury = |claim: gristmill_core::job::Claim| Settlement::new(claim.lease, Verdict::Bury(failure(Reason::Trap)));
    let settlements: Vec<_> = mill.claim(1003).await.into_iter().map(bury).collect();
    mill.store.settle(&settlements).await.unwrap();
    assert_eq!(mill.store.sweep(&[limits(1, Duration::MAX)]).await.unwrap(), [1000]);
    assert_eq!(mill.store.sweep(&[limits(1, Duration::MAX)]).await.unwrap(), [2]);
}
