//! What is left in Redis when jobs are gone: nothing that the contract does not ask for.

use std::time::Duration;

use super::server::TestRedis;
use crate::prelude::*;
use crate::tests::{bury, job, of_priority, retry, tenant, topic, unique};
use crate::{DeadLimits, JobState, Pushed, Settlement};
use gristmill_core::job::{JobId, Priority};
use gristmill_core::outcome::Verdict;

pub(super) fn limits(keep: u64) -> DeadLimits {
    DeadLimits { topic: topic("mail"), keep, retention: Duration::MAX }
}

#[tokio::test]
async fn nothing_is_left_of_a_priority_when_its_jobs_are_gone() {
    let store = TestRedis::new().await;
    store.push(&[(); 5].map(|()| of_priority(Priority::High))).await;
    let claims = store.claim(4).await;
    store.settle(&claims[0], Verdict::Ack(None)).await;
    store.settle(&claims[1], Verdict::Expire).await;
    store.settle(&claims[2], bury()).await;
    store.settle(&claims[3], bury()).await;
    store.store.delete_dead(&topic("mail"), &[claims[2].lease.job.clone()]).await.unwrap();
    assert_eq!(store.store.sweep(&[limits(0)]).await.unwrap(), [1]);
    let ready = store.claim(1).await[0].lease.job.clone();
    store.store.cancel(&tenant(), &[ready]).await.unwrap();
    let last = of_priority(Priority::High);
    store.push(std::slice::from_ref(&last)).await;
    store.store.cancel(&tenant(), &[last.spec.id]).await.unwrap();
    let left = store.raw(redis::cmd("HLEN").arg(store.store.first().keys(&tenant()).priorities())).await;
    assert_eq!(left, redis::Value::Int(1), "the running one's");
}

#[tokio::test]
async fn whatever_belongs_to_a_dropped_job_goes_with_it_but_its_result() {
    let store = TestRedis::new().await;
    let claim = store.running().await;
    store.store.checkpoint(&claim.lease, b"step").await.unwrap();
    store.settle(&claim, retry(0)).await;
    let claim = store.claim(1).await.pop().unwrap();
    let bury = Settlement::new(claim.lease.clone(), bury());
    store.settle_with(Settlement { keep_result: Duration::from_secs(60), ..bury }).await;
    assert_eq!(store.store.sweep(&[limits(0)]).await.unwrap(), [1]);
    assert_eq!(store.state(&claim.job.spec).await, Some(JobState::Finished));
    let keys = store.store.first().keys(&tenant());
    let mut exists = redis::cmd("EXISTS");
    for key in [keys.jobs(), keys.claims(), keys.failures(), keys.checkpoints(), keys.perishable()] {
        exists.arg(key);
    }
    assert_eq!(store.raw(&mut exists).await, redis::Value::Int(0));
}

#[tokio::test]
async fn an_unreadable_job_sets_its_unique_value_free() {
    let store = TestRedis::new().await;
    let jobs = [unique("mail", "a", None), unique("mail", "b", None)];
    store.push(&jobs).await;
    let keys = store.store.first().keys(&tenant());
    store.raw(redis::cmd("HSET").arg(keys.jobs()).arg(jobs[0].spec.id.as_str()).arg("garbage")).await;
    assert_eq!(store.claim(2).await.len(), 1);
    let again = [unique("mail", "a", None), unique("mail", "b", None)];
    let pushed = store.store.push(&again).await.unwrap();
    assert_eq!(pushed, [Pushed::Stored, Pushed::Duplicate(jobs[1].spec.id.clone())]);
}

#[tokio::test]
async fn windows_that_have_passed_do_not_pile_up() {
    let store = TestRedis::new().await;
    for n in 0..50 {
        store.push(&[unique("mail", &format!("u{n}"), Some(1))]).await;
        store.pass(1);
    }
    let keys = store.store.first().keys(&tenant());
    for (command, key) in [("HLEN", keys.unique(&topic("mail").topic)), ("ZCARD", keys.windows(&topic("mail").topic))] {
        assert_eq!(store.raw(redis::cmd(command).arg(key)).await, redis::Value::Int(1));
    }
    store.store.sweep(&[limits(9)]).await.unwrap();
    let left = store.raw(redis::cmd("EXISTS").arg(keys.unique(&topic("mail").topic)).arg(keys.perishable())).await;
    assert_eq!(left, redis::Value::Int(0));
}

#[tokio::test]
async fn the_server_forgets_a_result_by_itself() {
    let store = TestRedis::new().await;
    let claim = store.running().await;
    let ack = Settlement::new(claim.lease.clone(), Verdict::Ack(None));
    store.settle_with(Settlement { keep_result: Duration::from_secs(60), ..ack }).await;
    let key = store.store.first().keys(&tenant()).result(&claim.lease.job);
    let left = store.raw(redis::cmd("PTTL").arg(key)).await;
    assert!(matches!(left, redis::Value::Int(1..=60_000)), "{left:?}");
}

#[tokio::test]
async fn an_ack_takes_the_checkpoint_with_it() {
    let store = TestRedis::new().await;
    let first = store.running().await;
    assert!(store.store.checkpoint(&first.lease, b"step 1").await.unwrap());
    store.settle(&first, Verdict::Ack(None)).await;
    let left = store.raw(redis::cmd("EXISTS").arg(store.store.first().keys(&tenant()).checkpoints())).await;
    assert_eq!(left, redis::Value::Int(0));
}

#[tokio::test]
async fn no_mark_is_left_of_a_move_that_is_over() {
    let (from, to) = (TestRedis::new().await, TestRedis::new().await);
    from.push(&[job("mail"), job("mail")]).await;
    let jobs = from.store.export(&topic("mail"), 9).await.unwrap();
    let ids: Vec<JobId> = jobs.iter().map(|stored| stored.job.spec.id.clone()).collect();
    to.store.import(&jobs).await.unwrap();
    to.store.clear_move_marks(&tenant(), &ids).await.unwrap();
    let marks = to.raw(redis::cmd("EXISTS").arg(to.store.first().keys(&tenant()).moved())).await;
    assert_eq!(marks, redis::Value::Int(0));
}
