//! `kill -9` of the process that owns a store's file, in the middle of everything that can be done to it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gristmill::job::{Due, JobId, JobOptions, JobSpec, NewJob};
use gristmill::outcome::{Failure, FailureDetail, Reason, Verdict};
use gristmill::server::RemoteStore;
use gristmill::store::embedded::{Durability, EmbeddedStore, fsck_file, owner};
use gristmill::store::prelude::*;
use gristmill::store::{Settled, Settlement, StoreError, TopicCounts};
use gristmill_tests::guests;
use gristmill_tests::load::{FILE, topic};
use gristmill_tests::process::{Process, kills, program};
use gristmill_tests::random::seeded;
use gristmill_tests::test_runner::{drop_in, spec, tenant, with_clock};
use gristmill_tests::wait::{SOON, until};
use tempfile::TempDir;

/// Lets a process work on the file until it has acknowledged so many pushes, and kills it. The ids that it acknowledged.
fn life(file: &Path, pushes: usize) -> Vec<JobId> {
    let mut load = Command::new(program()).env(FILE, file).stdout(Stdio::piped()).spawn().unwrap();
    // Its first line is its seed, and acknowledges nothing.
    let mut lines = BufReader::new(load.stdout.take().unwrap()).lines().skip(1);
    let mut acknowledged: Vec<String> = lines.by_ref().take(pushes).map(Result::unwrap).collect();
    kill(&mut load);
    // What it said before it died counts, as far as the line is whole.
    acknowledged.extend(lines.map_while(Result::ok));
    let ids = acknowledged.iter().flat_map(|line| line.split(' '));
    ids.filter(|id| id.len() == 26).map(|id| id.parse().unwrap()).collect()
}

fn kill(process: &mut Child) {
    process.kill().unwrap();
    process.wait().unwrap();
}

async fn open(file: &Path) -> EmbeddedStore {
    let opened = async || match EmbeddedStore::open(file, Durability::Process).await {
        Err(StoreError::Owned { .. }) => None,
        opened => Some(opened.unwrap()),
    };
    until("the file to be free", SOON, opened).await
}

/// None: the topic never held a job.
async fn counts(store: &EmbeddedStore, of: &str) -> Option<TopicCounts> {
    let counts = store.counts(&topic(of).tenant).await.unwrap();
    counts.into_iter().find(|counts| counts.topic == topic(of))
}

fn total(counts: &TopicCounts, what: &str) -> u64 {
    counts.totals.get(what).copied().unwrap_or_default()
}

/// Takes back all that is in flight; how much that was.
async fn take_back(store: &EmbeddedStore) -> u64 {
    let tenant = topic("work").tenant;
    let dead_after = Duration::from_secs(3600);
    let mut taken = 0;
    loop {
        let overdue = store.overdue(std::slice::from_ref(&tenant), dead_after, 1000).await.unwrap().jobs;
        let failure = Failure::new(Reason::WorkerDied, FailureDetail::default());
        let retry = Verdict::Retry { after: Duration::ZERO, failure };
        let reap = |claim: &gristmill::job::Claim| Settlement {
            only_if_overdue: Some(dead_after),
            ..Settlement::new(claim.lease.clone(), retry.clone())
        };
        let batch: Vec<Settlement> = overdue.iter().map(|overdue| reap(&overdue.claim)).collect();
        let settled = store.settle(&batch).await.unwrap();
        assert!(settled.iter().all(|settled| *settled == Settled::Done));
        taken += settled.len() as u64;
        if settled.is_empty() {
            return taken;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_owner_is_killed_again_and_again_keeps_what_was_acknowledged() {
    let folder = TempDir::with_prefix("gristmill-").unwrap();
    let file = folder.path().join("jobs.db");
    let mut random = seeded();
    let (mut acknowledged, mut in_flight) = (BTreeSet::new(), 0);
    let lives = kills(8);
    for _ in 0..lives {
        let pushes = random.usize(1..60);
        let path = file.clone();
        acknowledged.extend(tokio::task::spawn_blocking(move || life(&path, pushes)).await.unwrap());

        let store = open(&file).await;
        let (work, next) = (counts(&store, "work").await.unwrap(), counts(&store, "next").await);
        assert_eq!(store.fsck().await.unwrap().findings, []);
        for id in &acknowledged {
            let view = store.job(&topic("work").tenant, id).await.unwrap();
            assert!(view.is_some(), "{id} was acknowledged and is gone");
        }
        assert!(total(&work, "pushed") >= acknowledged.len() as u64);
        let here = work.ready + work.delayed + work.running + work.dead;
        assert_eq!(total(&work, "pushed"), here + total(&work, "acked"), "each job is in one place: {work:?}");
        let follow_ups = next.map_or(0, |next| next.ready);
        assert_eq!(follow_ups, total(&work, "acked"), "one follow-up an ack");
        assert_eq!(take_back(&store).await, work.running, "whatever was in flight comes back");
        assert_eq!(counts(&store, "work").await.unwrap().running, 0);
        in_flight += work.running;
    }
    println!("{lives} kills: {} pushes acknowledged and there, {in_flight} attempts in flight", acknowledged.len());
}

/// A runner on a file, and a backlog of orders in it. Each order enqueues one follow-up with its ack.
struct Load {
    folder: TempDir,
}

impl Load {
    async fn of(orders: usize) -> Self {
        let load = Self { folder: TempDir::with_prefix("gristmill-").unwrap() };
        let handlers = load.folder.path().join("handlers");
        std::fs::create_dir(&handlers).unwrap();
        drop_in(&handlers, "order-timeout", &std::fs::read(guests::ORDER_TIMEOUT).unwrap());
        std::fs::write(load.manifest(), with_clock(MANIFEST)).unwrap();
        let jobs = (0..orders).map(|order| {
            let body = format!(r#"{{"order_id": "{order}", "customer": "c"}}"#);
            NewJob {
                spec: JobSpec { options: JobOptions::default(), ..spec("order-timeout", body.as_bytes()) },
                due: Due::Now,
            }
        });
        open(&load.file()).await.push(&jobs.collect::<Vec<_>>()).await.unwrap();
        load
    }

    fn manifest(&self) -> PathBuf {
        self.folder.path().join("gristmill.toml")
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("jobs.db")
    }

    /// Asks the runner that owns the file until there are so many acks, and so many attempts were taken back.
    async fn wait_for(&self, acks: u64, taken_back: u64) {
        until(format!("{acks} acks and {taken_back} attempts taken back"), 4 * SOON, async || {
            let address = owner(&self.file()).ok()??.http?;
            let store = RemoteStore::connect(address).await.ok()?;
            let counts = store.counts(&tenant()).await.ok()?;
            let orders = counts.iter().find(|counts| counts.topic.topic.as_str() == "order-timeout")?;
            (total(orders, "acked") >= acks && total(orders, "retried") >= taken_back).then_some(())
        })
        .await;
    }

    /// What nobody owns at this moment: orders and notifications.
    async fn look(&self) -> (TopicCounts, u64) {
        assert_eq!(fsck_file(&self.file()).unwrap().findings, []);
        let counts = open(&self.file()).await.counts(&tenant()).await.unwrap();
        let of = |topic: &str| counts.iter().find(|counts| counts.topic.topic.as_str() == topic).cloned();
        (of("order-timeout").unwrap(), of("notify").map_or(0, |notify| notify.ready))
    }
}

/// More attempts than kills: a job that is unlucky each time must still not die.
const MANIFEST: &str = r#"
    [store]
    url = "sqlite:jobs.db"
    durability = "process"
    [http]
    listen = "127.0.0.1:0"
    [topics.order-timeout]
    attempts = 50
    [topics.notify]
    handler = "nobody"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_on_a_file_killed_again_and_again_acks_everything_once() {
    let kills = kills(5);
    let orders_pushed = kills * 300;
    let mut random = seeded();
    let load = Load::of(orders_pushed as usize).await;
    let mut in_flight = 0;
    for kill in 1..=kills {
        let process = Process::run(&load.manifest());
        let share = orders_pushed / (kills + 1);
        // What the one before had in flight is back, or it would be counted twice.
        load.wait_for((kill - 1) * share + random.u64(1..share), in_flight).await;
        process.kill();
        let (orders, notifications) = load.look().await;
        assert_eq!(notifications, total(&orders, "acked"), "one follow-up an ack");
        in_flight += orders.running;
    }
    let last = Process::run(&load.manifest());
    load.wait_for(orders_pushed, in_flight).await;
    last.kill();
    let (orders, notifications) = load.look().await;
    assert_eq!((orders.ready, orders.delayed, orders.running, orders.dead), (0, 0, 0, 0), "{orders:?}");
    assert_eq!((total(&orders, "acked"), notifications), (orders_pushed, orders_pushed));
    assert_eq!(total(&orders, "retried"), in_flight, "made again is what was in flight at a kill, each once");
    println!(
        "{orders_pushed} orders, {kills} kills: {orders_pushed} acks, {in_flight} attempts in flight at a kill and made again"
    );
}
