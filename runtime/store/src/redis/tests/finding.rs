//! What becomes of workers and jobs in places that only Redis has.

use super::mill::{DEAD_AFTER, Mill, delayed, failure, job, tenant, topic, worker};
use crate::{Settled, Store};
use gristmill_core::job::Priority;
use gristmill_core::outcome::{Reason, Verdict};

#[tokio::test]
async fn a_worker_is_forgotten_in_the_end_and_its_jobs_are_not() {
    let mill = Mill::new().await;
    mill.store.heartbeat(&worker()).await.unwrap();
    mill.running().await;
    mill.pass(3_600_000);
    let found = mill.store.overdue(&tenant(), DEAD_AFTER, 100).await.unwrap();
    assert_eq!((found.len(), found[0].worker_died), (1, false));
}

#[tokio::test]
async fn an_ack_takes_the_checkpoint_with_it() {
    let mill = Mill::new().await;
    let first = mill.running().await;
    assert!(mill.store.checkpoint(&first.lease, b"step 1").await.unwrap());
    mill.settle(&first, Verdict::Ack(None)).await;
    let left = mill.raw(redis::cmd("EXISTS").arg(mill.store.keys(&tenant()).checkpoints())).await;
    assert_eq!(left, redis::Value::Int(0));
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
    assert_eq!((claimed.claims.len(), claimed.unreadable, mill.total("stray").await), (0, 3, 3));
    let unreadable = mill.raw(redis::cmd("LLEN").arg(keys.strays(&topic("mail").topic))).await;
    assert_eq!(unreadable, redis::Value::Int(3));
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
    let dead = crate::Inspect::dead(&mill.store, &topic("mail"), 0, 10).await.unwrap().pop().unwrap();
    assert_eq!(dead.job.spec.body.data, b"garbage");
    let failure = dead.failure.unwrap();
    assert_eq!((failure.reason, failure.detail.code.as_str()), (Reason::Rejected, "unreadable"));
}
