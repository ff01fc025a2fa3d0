//! `kill -9` of the process that owns a store's file, in the middle of everything that can be done to it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gristmill::job::JobId;
use gristmill::outcome::{Failure, FailureDetail, Reason, Verdict};
use gristmill::store::embedded::{Durability, EmbeddedStore};
use gristmill::store::{Inspect, Settled, Settlement, Store, StoreError, TopicCounts};
use gristmill_tests::load::{FILE, topic};
use gristmill_tests::process::program;
use gristmill_tests::wait::{SOON, until};
use tempfile::TempDir;

const LIVES: usize = 20;

/// Lets a process work on the file until it has acknowledged so many pushes, and kills it. The ids that it acknowledged.
fn life(file: &Path, pushes: usize) -> Vec<JobId> {
    let mut load = Command::new(program()).env(FILE, file).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(load.stdout.take().unwrap()).lines();
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
        let overdue = store.overdue(&tenant, dead_after, 1000).await.unwrap();
        let failure = Failure { reason: Reason::WorkerDied, detail: FailureDetail::default(), backtrace: None };
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
async fn a_file_whose_owner_is_killed_twenty_times_keeps_what_was_acknowledged() {
    let folder = TempDir::with_prefix("gristmill-").unwrap();
    let file = folder.path().join("jobs.db");
    let (mut acknowledged, mut in_flight) = (BTreeSet::new(), 0);
    for _ in 0..LIVES {
        let pushes = fastrand::usize(1..60);
        let path = file.clone();
        acknowledged.extend(tokio::task::spawn_blocking(move || life(&path, pushes)).await.unwrap());

        let store = open(&file).await;
        let (work, next) = (counts(&store, "work").await.unwrap(), counts(&store, "next").await);
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
    println!("{LIVES} kills: {} pushes acknowledged and there, {in_flight} attempts in flight", acknowledged.len());
}
