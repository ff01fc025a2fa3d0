//! Which of a topic's ready jobs come first.

use std::time::Duration;

use super::mill::{Mill, delayed, failure, job, retry, tenant, topic};
use crate::{Inspect, Settlement, Store};
use gristmill_core::job::{Claim, NewJob, Priority};
use gristmill_core::outcome::{Reason, Verdict};

fn of(priority: Priority, mut job: NewJob) -> NewJob {
    job.spec.priority = priority;
    job
}

/// So many jobs of each priority, the low ones first.
async fn push(mill: &Mill, high: usize, normal: usize, low: usize) -> Vec<NewJob> {
    let mut jobs = Vec::new();
    for (priority, n) in [(Priority::Low, low), (Priority::Normal, normal), (Priority::High, high)] {
        jobs.extend((0..n).map(|_| of(priority, job("mail"))));
    }
    mill.push(&jobs).await;
    jobs
}

fn priorities(claims: &[Claim]) -> Vec<Priority> {
    claims.iter().map(|claim| claim.job.spec.priority).collect()
}

#[tokio::test]
async fn turns_are_taken_across_claims_and_none_starves() {
    let mill = Mill::new().await;
    push(&mill, 20, 20, 20).await;
    let mut taken = Vec::new();
    for max in [3, 1, 7, 5] {
        taken.extend(priorities(&mill.claim(max).await));
    }
    assert_eq!(taken, [Priority::TURNS, Priority::TURNS].concat());
}

#[tokio::test]
async fn whose_turn_it_is_leaves_it_to_the_highest_if_nothing_is_ready() {
    use Priority::{High, Low, Normal};
    let mill = Mill::new().await;
    push(&mill, 2, 0, 2).await;
    assert_eq!(priorities(&mill.claim(9).await), [High, High, Low, Low]);
    // Four turns are gone; with normal jobs alone there is nothing to count.
    push(&mill, 0, 3, 0).await;
    assert_eq!(priorities(&mill.claim(9).await), [Normal; 3]);
    push(&mill, 1, 1, 1).await;
    assert_eq!(priorities(&mill.claim(9).await), [Normal, High, Low]);
}

#[tokio::test]
async fn among_equals_the_first_to_become_ready_is_first() {
    let mill = Mill::new().await;
    let jobs = push(&mill, 3, 0, 3).await;
    let claims = mill.claim(6).await;
    let ids =
        |wanted| claims.iter().filter(move |claim| claim.job.spec.priority == wanted).map(|claim| &claim.lease.job);
    assert!(ids(Priority::Low).eq(jobs[..3].iter().map(|job| &job.spec.id)));
    assert!(ids(Priority::High).eq(jobs[3..].iter().map(|job| &job.spec.id)));
}

#[tokio::test]
async fn a_job_keeps_its_priority_on_every_way_back_to_ready() {
    let mill = Mill::new().await;
    let low = || of(Priority::Low, job("mail"));
    mill.push(&[low(), low(), of(Priority::Low, delayed("mail", 5))]).await;
    mill.pass(5);
    mill.migrate().await;
    let claims = mill.claim(3).await;
    mill.settle(&claims[0], retry(0)).await;
    mill.settle(&claims[1], Verdict::Release(Duration::ZERO)).await;
    mill.settle(&claims[2], Verdict::Bury(failure(Reason::Trap))).await;
    mill.store.respawn(&topic("mail"), &[claims[2].lease.job.clone()]).await.unwrap();
    mill.push(&[job("mail"), of(Priority::High, job("mail"))]).await;
    assert_eq!(mill.counts("mail").await.ready, 5);
    let taken = priorities(&mill.claim(9).await);
    let low = taken.iter().filter(|priority| **priority == Priority::Low).count();
    assert_eq!((taken.len(), low, taken.last()), (5, 3, Some(&Priority::Low)));
}

#[tokio::test]
async fn follow_ups_have_their_own_priority() {
    let mill = Mill::new().await;
    let claim = mill.running().await;
    let follow_ups = vec![job("next"), of(Priority::High, job("next"))];
    mill.settle_with(Settlement { follow_ups, ..Settlement::new(claim.lease, Verdict::Ack(None)) }).await;
    let claims = mill.claim_as(&super::mill::worker(), "next", 2).await.claims;
    assert_eq!(priorities(&claims), [Priority::High, Priority::Normal]);
}

#[tokio::test]
async fn nothing_is_left_of_a_priority_when_its_jobs_are_gone() {
    let mill = Mill::new().await;
    push(&mill, 5, 0, 0).await;
    let claims = mill.claim(4).await;
    mill.settle(&claims[0], Verdict::Ack(None)).await;
    mill.settle(&claims[1], Verdict::Expire).await;
    mill.settle(&claims[2], Verdict::Bury(failure(Reason::Trap))).await;
    mill.settle(&claims[3], Verdict::Bury(failure(Reason::Trap))).await;
    mill.store.delete_dead(&topic("mail"), &[claims[2].lease.job.clone()]).await.unwrap();
    let limits = super::sweep::limits(0, Duration::MAX);
    assert_eq!(mill.store.sweep(&[limits]).await.unwrap(), [1]);
    let ready = mill.claim(1).await[0].lease.job.clone();
    mill.store.cancel(&tenant(), &[ready]).await.unwrap();
    let last = push(&mill, 1, 0, 0).await.remove(0);
    mill.store.cancel(&tenant(), &[last.spec.id]).await.unwrap();
    let left = mill.raw(redis::cmd("HLEN").arg(mill.store.keys(&tenant()).priorities())).await;
    assert_eq!(left, redis::Value::Int(1), "the running one's");
}
