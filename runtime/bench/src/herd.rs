//! What runners that have nothing to do cost their Redis, by themselves and with each push.

use std::time::{Duration, Instant};

use anyhow::Context;
use redis::aio::MultiplexedConnection;

use super::figure::Figure;
use super::scenario::push_to_start;
use super::stopwatch::figure;
use super::test_bed::{TestBed, TopicSetup, topic};
use gristmill_core::job::{Due, TopicId};

/// How many idle runners there are, from case to case.
pub const HERDS: [usize; 3] = [1, 10, 50];

/// From one push to the next, at least: time for every runner to fall idle again.
const PERIOD: Duration = Duration::from_millis(10);
/// For how long the delayed jobs are delayed.
const DELAY: Duration = Duration::from_millis(30);
/// Within so long, runners that have just started have subscribed and looked for jobs.
const START: Duration = Duration::from_secs(2);

/// What a Redis has used since it started, by its own account.
#[derive(Debug, Clone, Copy)]
struct Used {
    at: Instant,
    cpu_us: f64,
    commands: f64,
}

/// How much of it in a second.
#[derive(Debug, Clone, Copy)]
struct Rate {
    cpu_us: f64,
    commands: f64,
}

/// Idle runners, and no jobs: commands a second for each.
///
/// # Errors
/// If the store is not a Redis, or fails.
pub async fn idle(bed: &TestBed, runners: usize, tenants: usize, lasting: Duration) -> anyhow::Result<Figure> {
    let case = format!("idle: {runners} runners, {tenants} tenants");
    bed.settings.progress.begin(format!("herd, {case}"), 1);
    let name = |number: usize| TopicId { tenant: topic(&format!("bench-{number}")).topic, ..bed.topic.clone() };
    let topics: Vec<TopicSetup> = (1..tenants).map(|number| bed.topic_setup(name(number))).collect();
    bed.serve(topics.into_iter().chain([bed.topic_setup(bed.topic.clone())]).collect());
    let (herd, _records) = bed.run_herd(runners).await?;
    let mut redis = connect(bed).await?;
    let rate = idle_rate(&mut redis, lasting).await?;
    for runner in herd {
        runner.end().await;
    }
    let store_commands_per_second = Some(rate.commands / runners as f64);
    Ok(Figure { store_commands_per_second, ..figure(bed, "herd", 0).case(case) })
}

/// Idle runners that all serve a topic, and one job at a time, due at once and then delayed: what each costs the Redis, without
/// what the runners cost by themselves.
///
/// # Errors
/// If the store is not a Redis, or fails.
pub async fn herd(bed: &TestBed, runners: usize, jobs: usize) -> anyhow::Result<[Figure; 2]> {
    bed.settings.progress.begin(format!("herd of {runners}"), 2 * jobs);
    let (herd, mut records) = bed.run_herd(runners).await?;
    let mut redis = connect(bed).await?;
    let idle = idle_rate(&mut redis, PERIOD * u32::try_from(jobs)?).await?;
    let mut measure = async |case: &str, due| {
        let before = used(&mut redis).await?;
        let delay = push_to_start(bed, &mut records, due, Some(PERIOD), jobs).await?;
        let after = used(&mut redis).await?;
        let seconds = (after.at - before.at).as_secs_f64();
        anyhow::Ok(Figure {
            store_cpu_us_per_job: Some((after.cpu_us - before.cpu_us - idle.cpu_us * seconds) / jobs as f64),
            store_commands_per_job: Some((after.commands - before.commands - idle.commands * seconds) / jobs as f64),
            delay,
            ..figure(bed, "herd", jobs).case(format!("{case}, {runners} runners"))
        })
    };
    let figures = [measure("due at once", Due::Now).await?, measure("delayed", Due::After(DELAY)).await?];
    for runner in herd {
        runner.end().await;
    }
    Ok(figures)
}

/// Waits until runners that have just started are idle, and for so long.
async fn idle_rate(redis: &mut MultiplexedConnection, lasting: Duration) -> anyhow::Result<Rate> {
    tokio::time::sleep(START).await;
    let before = used(redis).await?;
    tokio::time::sleep(lasting).await;
    let after = used(redis).await?;
    let seconds = (after.at - before.at).as_secs_f64();
    Ok(Rate {
        cpu_us: (after.cpu_us - before.cpu_us) / seconds,
        // Without the question itself.
        commands: (after.commands - before.commands - 1.0) / seconds,
    })
}

async fn connect(bed: &TestBed) -> anyhow::Result<MultiplexedConnection> {
    let (url, _) = bed.store.redis()?;
    Ok(redis::Client::open(url)?.get_multiplexed_async_connection().await?)
}

async fn used(redis: &mut MultiplexedConnection) -> anyhow::Result<Used> {
    let info: String = redis::cmd("INFO").arg("everything").query_async(redis).await?;
    let read = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let value = value.with_context(|| format!("this Redis does not say its `{name}`"))?;
        anyhow::Ok(value.trim().parse::<f64>()?)
    };
    let cpu_us = (read("used_cpu_user")? + read("used_cpu_sys")?) * 1e6;
    Ok(Used { at: Instant::now(), cpu_us, commands: read("total_commands_processed")? })
}
