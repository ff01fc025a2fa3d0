//! What pushes and claims read, and in how many commands.

use std::time::Duration;

use redis::{Value, cmd};

use super::server::TestRedis;
use crate::prelude::*;
use crate::tests::{DEAD_AFTER, LEASE, job, tenant, topic, unique, with, worker};
use crate::{Cancelled, ClaimFrom, PollTenant, Pushed, Settled, Settlement};
use gristmill_core::job::{Claim, Name, NewJob, Priority, TopicId};
use gristmill_core::outcome::Verdict;

fn of_bytes(bytes: usize) -> NewJob {
    with("mail", |spec| spec.body.data = vec![b'x'; bytes])
}

/// How often scripts and clients have called a command.
pub(super) async fn calls(store: &TestRedis, command: &str) -> u64 {
    let info: String = redis::from_redis_value(store.raw(cmd("INFO").arg("commandstats")).await).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls="))?.split(',').next());
    line.map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test]
async fn a_claim_of_many_small_jobs_takes_few_commands() {
    let store = TestRedis::new().await;
    store.push(&(0..500).map(|_| job("mail")).collect::<Vec<_>>()).await;
    let before = [calls(&store, "hmget").await, calls(&store, "lrange").await];
    assert_eq!(store.claim(500).await.len(), 500);
    let after = [calls(&store, "hmget").await, calls(&store, "lrange").await];
    // Of 16 elements, 64, 256 and the rest; a HMGET for the jobs and one for what is known of them.
    assert_eq!([after[0] - before[0], after[1] - before[1]], [8, 4]);
}

#[tokio::test]
async fn large_jobs_are_claimed_in_their_order_and_nothing_is_left_of_them() {
    let store = TestRedis::new().await;
    let sizes = [10, 5_000, 20, 4_000, 70_000, 30];
    let jobs: Vec<NewJob> = sizes.into_iter().map(of_bytes).collect();
    store.push(&jobs).await;
    let large = store.store.first().keys(&tenant()).large();
    assert_eq!(store.raw(cmd("SCARD").arg(&large)).await, Value::Int(2));
    let claims = store.claim(10).await;
    assert_eq!(
        claims.iter().map(|claim| &claim.job.spec).collect::<Vec<_>>(),
        jobs.iter().map(|job| &job.spec).collect::<Vec<_>>()
    );
    store.settle(&claims[1], Verdict::Release(Duration::ZERO)).await;
    assert_eq!(store.raw(cmd("SCARD").arg(&large)).await, Value::Int(2));
    let again = store.claim(10).await;
    assert_eq!(again[0].job, claims[1].job);
    store.settle(&again[0], Verdict::Ack(None)).await;
    store.settle(&claims[4], Verdict::Expire).await;
    assert_eq!(store.raw(cmd("EXISTS").arg(&large)).await, Value::Int(0));
}

#[tokio::test]
async fn long_elements_of_raw_producers_are_read_few_at_a_time() {
    let store = TestRedis::new().await;
    let ready = store.store.first().keys(&tenant()).ready(Priority::Normal, &topic("mail").topic);
    store.poll(&[topic("mail").topic]).await;
    for n in 0..100_u8 {
        store.raw(cmd("LPUSH").arg(&ready).arg(vec![n; 1000])).await;
    }
    let before = calls(&store, "lrange").await;
    let claims = store.claim(200).await;
    assert_eq!(
        claims.iter().map(|claim| claim.job.spec.body.data[0]).collect::<Vec<_>>(),
        (0..100).collect::<Vec<u8>>()
    );
    assert_eq!(calls(&store, "lrange").await - before, 7, "sixteen at a time");
}

#[tokio::test]
async fn a_push_of_many_plain_jobs_takes_few_commands() {
    let store = TestRedis::new().await;
    let known = [job("mail"), of_bytes(5_000)];
    store.push(&known).await;
    let jobs: Vec<NewJob> = (0..500).map(|n| job(if n % 2 == 0 { "mail" } else { "audit" })).collect();
    let pushed = [&known[..], &jobs, &jobs[..1]].concat();
    let before = [calls(&store, "hset").await, calls(&store, "hmget").await, calls(&store, "lpush").await];
    let answers = store.store.push(&pushed).await.unwrap();
    let after = [calls(&store, "hset").await, calls(&store, "hmget").await, calls(&store, "lpush").await];
    assert_eq!([0, 1, 2].map(|n| after[n] - before[n]), [1, 1, 2]);
    let exists: Vec<usize> = (0..pushed.len()).filter(|n| answers[*n] == Pushed::Exists).collect();
    assert_eq!(exists, [0, 1, 502], "the known ones, and the one that comes twice");
    let claims: Vec<_> = store.claim(1000).await.iter().map(|claim| claim.lease.job.clone()).collect();
    let of_mail = jobs.iter().filter(|job| job.spec.topic == topic("mail"));
    assert_eq!(claims, known.iter().chain(of_mail).map(|job| job.spec.id.clone()).collect::<Vec<_>>());
}

#[tokio::test]
async fn ends_that_are_alike_take_few_commands() {
    let store = TestRedis::new().await;
    store.push(&(0..200).map(|n| unique("mail", &n.to_string(), None)).collect::<Vec<_>>()).await;
    let claims = store.claim(200).await;
    let ack = |claim: &Claim| Settlement {
        follow_ups: vec![job("next")],
        ..Settlement::of(claim, Verdict::Ack(None), Duration::from_secs(60))
    };
    let settlements: Vec<_> = claims.iter().map(ack).collect();
    const COMMANDS: [&str; 7] = ["hmget", "hget", "hexists", "hdel", "hset", "lpush", "set"];
    let mut before = Vec::new();
    for command in COMMANDS {
        before.push(calls(&store, command).await);
    }
    assert_eq!(store.store.settle(&settlements).await.unwrap(), vec![Settled::Done; 200]);
    let mut took = Vec::new();
    for (command, before) in COMMANDS.into_iter().zip(before) {
        took.push(calls(&store, command).await - before);
    }
    // HMGET of what is known of the jobs, of the unique values and of the ids of follow-up jobs; HDEL of jobs, what is known of them, and
    // unique values; a SET for each result and one for the record of the call.
    assert_eq!(took, [3, 0, 0, 3, 1, 1, 201]);
}

#[tokio::test]
async fn tenants_without_jobs_are_polled_together() {
    let store = TestRedis::new().await;
    let tenants: Vec<Name> = (0..300).map(|number| format!("t{number}").parse().unwrap()).collect();
    let polls: Vec<PollTenant> =
        tenants.iter().map(|tenant| PollTenant { tenant: tenant.clone(), raw: Vec::new() }).collect();
    let count =
        async || [calls(&store, "exists").await, calls(&store, "smembers").await + calls(&store, "zdiff").await];
    let poll = async || {
        let before = count().await;
        let found = store.store.poll_work(&polls).await.unwrap();
        let after = count().await;
        let ready: Vec<TopicId> = found.into_iter().flat_map(|pending| pending.unwrap().ready).collect();
        (ready, [after[0] - before[0], after[1] - before[1]])
    };
    assert_eq!(poll().await, (vec![], [2, 0]));
    let topic: TopicId = "t299/mail".parse().unwrap();
    store.push(&[with("mail", |spec| spec.topic = topic.clone())]).await;
    // The tenants that were asked together with it.
    assert_eq!(poll().await, (vec![topic.clone()], [2, 2 * 44]));
    assert_eq!(poll().await, (vec![topic.clone()], [2, 2]));
    let from = [ClaimFrom::new(topic, 2, LEASE)];
    let claimed = store.store.claim(&worker(), &from).await.unwrap();
    assert_eq!(poll().await, (vec![], [2, 2]));
    assert_eq!(poll().await, (vec![], [2, 0]));

    let overdue = async || store.store.overdue(&tenants, DEAD_AFTER, 9).await.unwrap().jobs.len();
    assert_eq!(overdue().await, 0);
    store.pass(LEASE.as_millis() as u64);
    assert_eq!(overdue().await, claimed.claims.len());
}

#[tokio::test]
async fn jobs_that_are_cancelled_far_back_in_a_long_line_take_several_calls() {
    let store = TestRedis::new().await;
    let jobs: Vec<_> = (0..3000).map(|_| job("mail")).collect();
    store.push(&jobs).await;
    let ids: Vec<_> = jobs[2000..].iter().map(|job| job.spec.id.clone()).collect();
    let before = calls(&store, "evalsha").await;
    let cancelled = store.store.cancel(&tenant(), &ids).await.unwrap();
    assert_eq!(cancelled, vec![Cancelled::Gone; 1000]);
    assert_eq!(calls(&store, "evalsha").await - before, 4, "2.5 million entries, a million in each call of 500 jobs");
}
