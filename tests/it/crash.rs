//! What no order can be given to: `kill -9` of the runner, and Redis going away, in mid-load.
//!
//! Every job enqueues one follow-up for a topic that nobody works on. Follow-ups become visible with the ack, so their
//! number is the number of acks that counted, however often a job ran.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gristmill::job::{Due, JobOptions, JobSpec, NewJob, TopicId};
use gristmill::store::TopicCounts;
use gristmill::store::prelude::*;
use gristmill::store::redis::RedisStore;
use gristmill_tests::guests;
use gristmill_tests::process::{Process, kills};
use gristmill_tests::random::seeded;
use gristmill_tests::redis::Redis;
use gristmill_tests::test_project::FREE_PORT;
use gristmill_tests::test_runner::{drop_in, spec, tenant, with_clock};
use gristmill_tests::wait::{SOON, until};
use tempfile::TempDir;

const CONCURRENCY: u64 = 64;

/// A Redis with a backlog of orders, and a manifest to work them off.
struct Load {
    redis: Redis,
    store: RedisStore,
    folder: TempDir,
}

impl Load {
    async fn of(jobs: usize) -> Self {
        let redis = Redis::start().await;
        let store = RedisStore::connect(&redis.url(), "gm").await.unwrap();
        let folder = TempDir::with_prefix("gristmill-").unwrap();
        let load = Self { redis, store, folder };
        std::fs::create_dir(load.folder.path().join("handlers")).unwrap();
        drop_in(&load.folder.path().join("handlers"), "order-timeout", &std::fs::read(guests::ORDER_TIMEOUT).unwrap());
        std::fs::write(load.manifest(), with_clock(&load.manifest_text())).unwrap();
        load.push(0..jobs).await;
        load
    }

    fn manifest(&self) -> PathBuf {
        self.folder.path().join("gristmill.toml")
    }

    /// More attempts than kills: a job that is unlucky each time must still not die.
    fn manifest_text(&self) -> String {
        format!(
            r#"
            [server]
            concurrency = {CONCURRENCY}
            {FREE_PORT}
            [store]
            url = "{}"
            [topics.order-timeout]
            concurrency = {CONCURRENCY}
            attempts = 50
            [topics.notify]
            handler = "nobody"
            "#,
            self.redis.url()
        )
    }

    async fn push(&self, orders: std::ops::Range<usize>) {
        let jobs = orders.map(|order| {
            let body = format!(r#"{{"order_id": "{order}", "customer": "c"}}"#);
            let spec = JobSpec { options: JobOptions::default(), ..spec("order-timeout", body.as_bytes()) };
            NewJob { spec, due: Due::Now }
        });
        self.store.push(&jobs.collect::<Vec<_>>()).await.unwrap();
    }

    /// None while Redis is away.
    async fn counts(&self, topic: &str) -> Option<TopicCounts> {
        let topic: TopicId = topic.parse().unwrap();
        self.store.counts(&tenant()).await.ok()?.into_iter().find(|counts| counts.topic == topic)
    }

    async fn acked(&self) -> Option<u64> {
        Some(total(&self.counts("order-timeout").await?, "acked"))
    }

    async fn wait_for_acks(&self, acks: u64) {
        until(format!("{acks} acks"), 4 * SOON, async || (self.acked().await? >= acks).then_some(())).await;
    }

    /// The name of the worker in this process, once it has been heard of.
    async fn worker_in(&self, process: &Process) -> String {
        let pid = process.pid().to_string();
        until("the worker", SOON, async || {
            let all: Vec<String> = self.redis.ask("ZRANGE", &["gm:workers", "0", "-1"]).await?;
            all.into_iter().find(|worker| worker.rsplit('-').nth(1) == Some(&*pid))
        })
        .await
    }

    /// How many jobs the worker has claimed and not settled.
    async fn held_by(&self, worker: &str) -> u64 {
        let holders: Vec<String> = self.redis.ask("ZRANGE", &["gm:{default/0}:leases", "0", "-1"]).await.unwrap();
        let mut held = 0;
        for holder in holders.iter().filter(|holder| holder.rsplit_once(':').is_some_and(|(name, _)| name == worker)) {
            let list = format!("gm:{{default/0}}:processing:{holder}");
            held += self.redis.ask::<u64>("LLEN", &[&list]).await.unwrap();
        }
        held
    }

    /// Every job was acked once, whatever happened, and nothing is left anywhere.
    async fn assert_all_done_once(&self, jobs: u64) -> TopicCounts {
        self.wait_for_acks(jobs).await;
        let orders = self.counts("order-timeout").await.unwrap();
        assert_eq!((orders.ready, orders.delayed, orders.running, orders.dead), (0, 0, 0, 0), "{orders:?}");
        assert_eq!(total(&orders, "acked"), jobs);
        assert_eq!(self.counts("notify").await.unwrap().ready, jobs, "one follow-up an ack");
        assert_eq!(self.store.fsck().await.unwrap().findings, []);
        orders
    }
}

fn total(counts: &TopicCounts, name: &str) -> u64 {
    counts.totals.get(name).copied().unwrap_or_default()
}

fn runner_says(process: &Process, text: &str, times: usize) -> bool {
    process.log().matches(text).count() >= times
}

async fn started(manifest: &Path) -> Process {
    let process = Process::run(manifest);
    until("the runner to start", SOON, async || runner_says(&process, "ready for jobs", 1).then_some(())).await;
    process
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_again_and_again_it_loses_nothing_and_acks_everything_once() {
    let kills = kills(6);
    let jobs = kills * 200;
    let mut random = seeded();
    let load = Load::of(jobs as usize).await;
    let mut in_flight = 0;
    for kill in 1..=kills {
        let process = Process::run(&load.manifest());
        // A random moment in the kill's share of the work.
        let share = jobs / (kills + 1);
        load.wait_for_acks((kill - 1) * share + random.u64(1..share)).await;
        let worker = load.worker_in(&process).await;
        process.kill();
        assert_eq!(load.store.fsck().await.unwrap().findings, []);
        in_flight += load.held_by(&worker).await;
    }
    let last = Process::run(&load.manifest());
    let orders = load.assert_all_done_once(jobs).await;
    drop(last);
    assert_eq!(total(&orders, "retried"), in_flight, "made again is what was in flight at a kill, each once");
    println!("{jobs} jobs, {kills} kills: {jobs} acks, {in_flight} attempts in flight at a kill and made again");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_runners_give_back_the_places_that_a_limit_of_running_jobs_counts() {
    const LIMIT: u64 = 8;
    let kills = kills(3);
    let jobs = (kills + 1) * 300;
    let mut random = seeded();
    let load = Load::of(jobs as usize).await;
    let limited = load.manifest_text().replace("attempts = 50", &format!("attempts = 50\nmax-running = {LIMIT}"));
    std::fs::write(load.manifest(), with_clock(&limited)).unwrap();
    let mut runners: Vec<Process> = (0..3).map(|_| Process::run(&load.manifest())).collect();
    for kill in 1..=kills {
        let acks = (kill - 1) * 300 + random.u64(1..300);
        until(format!("{acks} acks"), 4 * SOON, async || {
            let orders = load.counts("order-timeout").await?;
            assert!(orders.running <= LIMIT, "{orders:?}");
            (total(&orders, "acked") >= acks).then_some(())
        })
        .await;
        runners.remove(0).kill();
        runners.push(Process::run(&load.manifest()));
    }
    load.assert_all_done_once(jobs).await;
}

/// How soon the first ack must come after the shortest of some outages. It takes about a second.
const RECOVERY: Duration = Duration::from_secs(4);

/// What the runner logs when it notices an outage.
const NOTICED: &str = "running attempts go on";

#[tokio::test(flavor = "multi_thread")]
async fn when_redis_comes_back_the_work_goes_on() {
    const JOBS: usize = 4_000;
    // A machine that stands still delays one of them, not all.
    const OUTAGES: usize = 3;
    let mut load = Load::of(JOBS).await;
    let process = started(&load.manifest()).await;
    load.wait_for_acks(500).await;
    let mut recoveries = Vec::new();
    for outage in 0..OUTAGES {
        let noticed = process.log().matches(NOTICED).count();
        load.redis.stop();
        until("the runner to notice", SOON, async || runner_says(&process, NOTICED, noticed + 1).then_some(())).await;

        load.redis.resume().await;
        let back = Instant::now();
        let before = until("the counts", SOON, async || load.acked().await).await;
        // However much was done before: there is work to go on with.
        load.push(JOBS + outage..JOBS + outage + 1).await;
        load.wait_for_acks(before + 1).await;
        recoveries.push(back.elapsed());
        until("the end of the outage to be logged", SOON, async || {
            runner_says(&process, "the store is available again", outage + 1).then_some(())
        })
        .await;
    }
    let shortest = recoveries.iter().min().unwrap();
    assert!(*shortest < RECOVERY, "the first acks came {recoveries:?} after Redis");
    load.assert_all_done_once((JOBS + OUTAGES) as u64).await;
    let outages = until("the return of the store to be told", SOON, async || {
        let log = process.log();
        let (away, back) = (log.matches(NOTICED).count(), log.matches("the store is available again").count());
        (away == back).then_some(away)
    })
    .await;
    // A machine that stands still may look like another one.
    assert!((OUTAGES..=OUTAGES + 1).contains(&outages), "each outage is told once: {outages} times");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_may_be_started_before_its_redis() {
    let mut load = Load::of(10).await;
    load.redis.stop();
    let process = Process::run(&load.manifest());
    until("the runner to wait", SOON, async || runner_says(&process, "until it is there", 1).then_some(())).await;
    load.redis.resume().await;
    load.assert_all_done_once(10).await;
}

/// How long an idle runner may take to show what it costs.
const IDLE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_idle_topics_cost_next_to_nothing() {
    /// The slow look happens about once a second; this many of its commands make a fair sample.
    const SAMPLE: u64 = 40;
    let load = Load::of(0).await;
    let topics: String = (0..1000).map(|topic| format!("[topics.t{topic}]\nhandler = \"order-timeout\"\n")).collect();
    std::fs::write(load.manifest(), with_clock(&(load.manifest_text() + &topics))).unwrap();
    let _process = started(&load.manifest()).await;

    let connection = load.redis.connect().await.unwrap();
    let mut asked = 0;
    let mut commands = async || {
        let stats: String = redis::cmd("INFO").arg("stats").query_async(&mut connection.clone()).await.unwrap();
        let all =
            stats.lines().find_map(|line| line.strip_prefix("total_commands_processed:")?.trim().parse::<u64>().ok());
        // Each time of asking is one command, too.
        asked += 1;
        all.unwrap() - asked
    };
    // Subscribing, loading scripts, the first looks: a start is not idle yet. Sample by sample it must come to rest.
    let watching = Instant::now();
    loop {
        let (begun, first) = (Instant::now(), commands().await);
        let (spent, took) = until("a sample of an idle runner", IDLE, async || {
            let spent = commands().await - first;
            (spent >= SAMPLE).then(|| (spent, begun.elapsed()))
        })
        .await;
        let rate = spent as f64 / took.as_secs_f64();
        println!("idle with 1,000 topics: {rate:.1} commands a second");
        if rate <= 5.5 {
            return;
        }
        assert!(watching.elapsed() < IDLE, "{rate:.1} commands a second by an idle runner");
    }
}
