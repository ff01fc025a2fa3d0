//! What runners that have little or nothing to do cost their Redis.

use std::time::{Duration, Instant};

use anyhow::Context;
use redis::aio::MultiplexedConnection;
use tokio::time::interval;

use super::figure::Figure;
use super::load::{drain, fill_topics};
use super::scenario::push_to_start;
use super::stopwatch::{Stopwatch, figure};
use super::test_bed::{TestBed, counted, reach, recorded, topic};
use gristmill_core::job::{Due, TopicId};

/// How many runners there are, from case to case.
pub const HERDS: [usize; 3] = [1, 10, 50];

/// From one push to the next, at least: time for every runner to fall idle again.
const PERIOD: Duration = Duration::from_millis(10);
/// For how long the delayed jobs are delayed.
const DELAY: Duration = Duration::from_millis(30);
/// Of jobs that come at a fixed rate: so many at once, so often.
const AT_ONCE: usize = 20;
const OFTEN: Duration = Duration::from_millis(1);
/// Within so long, runners that have just started have subscribed and looked for jobs. A tiny run waits less: it only shows that it works.
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
    serve_tenants(bed, tenants);
    let herd = bed.run_herd(runners, recorded().0).await?;
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
    let (observer, mut records) = recorded();
    let herd = bed.run_herd(runners, observer).await?;
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

/// Gives the runners a topic of each of so many tenants to work on. Returns them, the bed's own first.
fn serve_tenants(bed: &TestBed, tenants: usize) -> Vec<TopicId> {
    let name = |number: usize| TopicId { tenant: topic(&format!("bench-{number}")).topic, ..bed.topic.clone() };
    let topics: Vec<TopicId> = [bed.topic.clone()].into_iter().chain((1..tenants).map(name)).collect();
    bed.serve(topics.iter().map(|topic| bed.topic_setup(topic.clone())).collect());
    topics
}

/// Runners that share jobs which come at a fixed rate, 20 each millisecond, each of the next tenant: what each job costs the Redis. Without
/// runners, what its push costs.
///
/// # Errors
/// If the store is not a Redis, or fails.
pub async fn shared(bed: &TestBed, runners: usize, tenants: usize, jobs: usize) -> anyhow::Result<Figure> {
    let who = if runners == 0 { "pushes alone".to_owned() } else { format!("{runners} runners, pushes included") };
    let case = if tenants == 1 { who } else { format!("{who}, {tenants} tenants") };
    bed.settings.progress.begin(format!("fleet, {case}"), 2 * jobs);
    let mut topics = serve_tenants(bed, tenants);
    let (observer, done) = counted();
    let herd = bed.run_herd(runners, observer).await?;
    let mut redis = connect(bed).await?;
    tokio::time::sleep(START.min(Duration::from_millis(2 * jobs as u64))).await;
    let (before, stopwatch) = (used(&mut redis).await?, Stopwatch::begin(bed, None));
    let mut ticks = interval(OFTEN);
    for pushed in (0..jobs).step_by(AT_ONCE) {
        ticks.tick().await;
        fill_topics(bed, &topics, AT_ONCE.min(jobs - pushed), Due::Now).await?;
        topics.rotate_left(AT_ONCE % tenants);
    }
    if runners > 0 {
        reach(&done, jobs, &bed.settings.progress).await;
    }
    let (after, figure) = (used(&mut redis).await?, stopwatch.end(bed, "fleet", jobs));
    for runner in herd {
        runner.end().await;
    }
    for topic in &topics {
        drain(bed, topic).await?;
    }
    Ok(Figure {
        store_cpu_us_per_job: Some((after.cpu_us - before.cpu_us) / jobs as f64),
        store_commands_per_job: Some((after.commands - before.commands) / jobs as f64),
        ..figure.case(case)
    })
}

/// Waits until runners that have just started are idle, and for so long.
async fn idle_rate(redis: &mut MultiplexedConnection, lasting: Duration) -> anyhow::Result<Rate> {
    tokio::time::sleep(START.min(lasting)).await;
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
