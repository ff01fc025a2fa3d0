//! A process that works on a store's file until it is killed, and says what was acknowledged to it.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use gristmill::job::{Claim, Due, JobSpec, NewJob, Payload, TopicId, WorkerId};
use gristmill::outcome::{Failure, FailureDetail, Reason, Verdict};
use gristmill::store::embedded::{Durability, EmbeddedStore};
use gristmill::store::prelude::*;
use gristmill::store::{ClaimFrom, Settlement};

use crate::random::seeded;

/// Names the file, in the environment of the binary under test: then it does this and nothing else.
pub const FILE: &str = "GRISTMILL_TEST_LOAD";

/// Long enough to be found after any kill.
pub const KEPT: Duration = Duration::from_secs(3600);

/// Pushes, claims and settles, several at a time, for ever. Each acknowledged push is a line of ids on standard output.
pub async fn run(file: &Path) -> ! {
    let mut random = seeded();
    let store = EmbeddedStore::open(file, Durability::Process).await.unwrap();
    let worker = WorkerId::new(&format!("load-{}", std::process::id()));
    for _ in 0..3 {
        let (store, worker, mut random) = (store.clone(), worker.clone(), random.fork());
        tokio::spawn(async move {
            loop {
                work(&store, &worker, &mut random).await;
            }
        });
    }
    loop {
        let jobs: Vec<NewJob> = (0..10).map(|_| job("work", &mut random)).collect();
        store.push(&jobs).await.unwrap();
        let ids: Vec<&str> = jobs.iter().map(|job| job.spec.id.as_str()).collect();
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", ids.join(" ")).unwrap();
        out.flush().unwrap();
    }
}

/// One round: some jobs are claimed, and each ends in one of the ways in which attempts end.
async fn work(store: &EmbeddedStore, worker: &WorkerId, random: &mut Rng) {
    let line = ClaimFrom::new(topic("work"), 8, Duration::from_millis(1));
    let claims = store.claim(worker, &[line]).await.unwrap().claims;
    let settlements: Vec<Settlement> = claims.iter().map(|claim| settlement(claim, random)).collect();
    store.settle(&settlements).await.unwrap();
    store.migrate(&topic("work").tenant, 100).await.unwrap();
    // The runtime's only thread is for all.
    tokio::task::yield_now().await;
}

fn settlement(claim: &Claim, random: &mut Rng) -> Settlement {
    let detail = FailureDetail::default();
    let failure = Failure::new(Reason::Failed, detail);
    let verdict = match random.u8(..8) {
        0 => Verdict::Retry { after: Duration::from_millis(1), failure },
        1 => Verdict::Release(Duration::ZERO),
        2 => Verdict::Bury(failure),
        _ => Verdict::Ack(None),
    };
    Settlement { follow_ups: vec![job("next", random)], ..Settlement::of(claim, verdict, KEPT) }
}

pub fn topic(name: &str) -> TopicId {
    name.parse().unwrap()
}

fn job(of: &str, random: &mut Rng) -> NewJob {
    let body = Payload { data: vec![7; random.usize(..2000)], content_type: None };
    NewJob { spec: JobSpec::new(topic(of), body), due: Due::Now }
}
