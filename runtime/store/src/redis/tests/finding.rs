//! What becomes of workers and jobs in places that only Redis has.

use redis::cmd;

use super::server::TestRedis;
use crate::prelude::*;
use crate::redis::{DEFAULT_PREFIX, RedisStore};
use crate::tests::{DEAD_AFTER, delayed, failure, job, tenant, topic, worker};
use crate::{PollTenant, Settled, StateFilter};
use gristmill_core::job::Priority;
use gristmill_core::outcome::{Reason, Verdict};

#[tokio::test]
async fn a_worker_is_forgotten_in_the_end_and_its_jobs_are_not() {
    let store = TestRedis::new().await;
    store.store.heartbeat(&worker()).await.unwrap();
    store.running().await;
    store.pass(3_600_000);
    let found = store.store.overdue(&[tenant()], DEAD_AFTER, 100).await.unwrap().jobs;
    assert_eq!((found.len(), found[0].worker_died), (1, false));
}

#[tokio::test]
async fn a_job_named_twice_runs_once_and_the_second_is_set_aside() {
    let store = TestRedis::new().await;
    let later = delayed("mail", 1000);
    store.push(&[job("mail"), job("mail"), later.clone()]).await;
    let claims = store.claim(2).await;
    let (running, dead) = (&claims[0].lease.job, &claims[1].lease.job);
    store.settle(&claims[1], Verdict::Bury(failure(Reason::Trap))).await;
    let keys = store.store.first().keys(&tenant());
    let ready = keys.ready(Priority::Normal, &topic("mail").topic);
    for id in [running, dead, &later.spec.id] {
        store.raw(redis::cmd("LPUSH").arg(&ready).arg(id.as_str())).await;
    }
    let claimed = store.claim_as(&worker(), "mail", 10).await;
    assert_eq!((claimed.claims.len(), claimed.strays, store.total("stray").await), (0, 3, 3));
    let strays = store.raw(redis::cmd("LLEN").arg(keys.strays(&topic("mail").topic))).await;
    assert_eq!(strays, redis::Value::Int(3));
    assert_eq!(store.settle(&claims[0], Verdict::Ack(None)).await, Settled::Done);
    let left = store.raw(redis::cmd("KEYS").arg("*:processing:*")).await;
    assert_eq!(left, redis::Value::Array(Vec::new()));
    assert_eq!(store.raw(redis::cmd("EXISTS").arg(keys.leases())).await, redis::Value::Int(0));
}

#[tokio::test]
async fn an_unreadable_job_is_buried_and_the_others_go_on() {
    let store = TestRedis::new().await;
    let jobs = [job("mail"), job("mail")];
    store.push(&jobs).await;
    let keys = store.store.first().keys(&tenant());
    store.raw(redis::cmd("HSET").arg(keys.jobs()).arg(jobs[0].spec.id.as_str()).arg("garbage")).await;
    let claims = store.claim(10).await;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].job.spec, jobs[1].spec);
    let dead = store.store.jobs(&topic("mail"), StateFilter::Dead, None, 10).await.unwrap().jobs.pop().unwrap();
    assert_eq!(dead.job.unwrap().spec.body.data, b"garbage");
    let failure = dead.last_failure.unwrap();
    assert_eq!((failure.reason, failure.detail.code.as_str()), (Reason::Rejected, "unreadable"));
}

#[tokio::test]
async fn tenants_are_found_without_a_look_at_every_key_also_when_their_list_was_lost() {
    let store = TestRedis::new().await;
    store.push(&[job("mail")]).await;
    let tenants = store.store.tenants().await.unwrap();
    assert_eq!(tenants, [tenant()]);
    store.raw(cmd("DEL").arg("gm:tenants")).await;
    assert_eq!(store.store.tenants().await.unwrap(), tenants);
    let other = RedisStore::connect(&store.server.url(), DEFAULT_PREFIX).await.unwrap();
    assert_eq!(other.tenants().await.unwrap(), tenants, "listed again, for all to see");
}

#[tokio::test]
async fn a_full_server_that_lists_no_tenant_is_polled_all_the_same() {
    let store = TestRedis::new().await;
    store.push(&[job("mail")]).await;
    store.raw(cmd("DEL").arg("gm:tenants")).await;
    store.raw(cmd("CONFIG").arg("SET").arg("maxmemory").arg(1)).await;
    let other = RedisStore::connect(&store.server.url(), DEFAULT_PREFIX).await.unwrap();
    let polls = [PollTenant { tenant: tenant(), raw: vec![topic("mail").topic] }];
    let polled = other.poll_work(&polls).await.unwrap().pop().unwrap().unwrap();
    assert_eq!(polled.ready, [topic("mail")]);
    assert_eq!(store.store.tenants().await.unwrap(), [tenant()]);
}
