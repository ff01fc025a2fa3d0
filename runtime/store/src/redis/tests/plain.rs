//! What plain jobs cost the server, in commands: that does not depend on the machine.

use std::time::Duration;

use redis::{cmd, from_redis_value};

use super::server::TestRedis;
use crate::Settlement;
use crate::prelude::*;
use crate::tests::{job, of_priority};
use gristmill_core::job::{NewJob, Priority};
use gristmill_core::outcome::Verdict;

/// How many commands the server has run, those of scripts too, but for those of connections and of this question.
async fn commands(store: &TestRedis) -> u64 {
    const NOT_OF_JOBS: [&str; 6] = ["info", "hello", "client", "ping", "select", "auth"];
    let text: String = from_redis_value(store.raw(cmd("INFO").arg("commandstats")).await).unwrap();
    let of_jobs = text.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
    let of_jobs = of_jobs.filter(|(name, _)| !NOT_OF_JOBS.contains(&name.split('|').next().unwrap_or_default()));
    of_jobs.map(|(_, rest)| rest.split(',').next().unwrap_or_default().parse::<u64>().unwrap()).sum()
}

/// What it takes to push these jobs in one call, to claim them in one, and to ack them in one.
async fn cost(store: &TestRedis, jobs: &[NewJob]) -> [u64; 3] {
    let before = commands(store).await;
    store.push(jobs).await;
    let pushed = commands(store).await;
    // One more than there are, so that the topic is empty for this call, too.
    let claims = store.claim(jobs.len() + 1).await;
    assert_eq!(claims.len(), jobs.len());
    let claimed = commands(store).await;
    let acks: Vec<_> = claims.iter().map(|claim| Settlement::of(claim, Verdict::Ack(None), Duration::ZERO)).collect();
    store.store.settle(&acks).await.unwrap();
    [pushed - before, claimed - pushed, commands(store).await - claimed]
}

#[tokio::test]
async fn plain_jobs_cost_few_commands_however_many_they_are_also_after_special_ones() {
    let store = TestRedis::new().await;
    let plain = |n: usize| -> Vec<NewJob> { (0..n).map(|_| job("mail")).collect() };
    // The first calls load the scripts.
    cost(&store, &plain(1)).await;
    assert_eq!(cost(&store, &plain(1)).await, [12, 12, 12]);
    assert_eq!(cost(&store, &plain(100)).await, [12, 20, 13]);
    cost(&store, &[of_priority(Priority::High)]).await;
    assert_eq!(cost(&store, &plain(1)).await, [12, 12, 12]);
}
