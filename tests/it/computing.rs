//! Handlers that compute: each job gets its time, however many there are.

use std::time::Duration;

use gristmill::job::{Due, NewJob};
use gristmill::outcome::Verdict;
use gristmill::runner::AttemptRecord;
use gristmill_tests::guests;
use gristmill_tests::test_runner::{TestRunner, spec};
use gristmill_tests::wait::{SOON, until};
use puppet::{End, Script, Step};

/// What one job computes.
const ALONE: Duration = Duration::from_millis(20);
const TOPICS: [&str; 2] = ["puppet", "puppet-2"];
/// Eight times as long, and a quarter of what each thread of two has to compute.
const MANIFEST: &str = "[topics.puppet]\ntimeout = \"160ms\"\nattempts = 1\n[topics.puppet-2]\nhandler = \"puppet\"\ntimeout = \"160ms\"\n\
    attempts = 1\n[topics.measure]\nhandler = \"puppet\"\n";
const JOBS: usize = 64;

fn work(rounds: u64) -> Vec<u8> {
    Script::new([Step::Burn(rounds), Step::End(End::Complete)]).to_json()
}

/// Rounds that take [`ALONE`].
async fn rounds(runner: &TestRunner) -> u64 {
    const SOME: u64 = 4_000_000;
    for _ in 0..3 {
        runner.work("measure", &work(SOME)).await;
    }
    let quickest = runner.records().iter().filter_map(|record| record.run).map(|run| run.duration).min().unwrap();
    (SOME as f64 * ALONE.as_secs_f64() / quickest.as_secs_f64()) as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_compute_are_all_done_however_many_begin_at_once() {
    let runner = TestRunner::start(MANIFEST, &[("puppet", guests::PUPPET)]).await;
    let body = work(rounds(&runner).await);
    let job = |number: usize| NewJob { spec: spec(TOPICS[number % TOPICS.len()], &body), due: Due::Now };
    runner.store.push(&(0..JOBS).map(job).collect::<Vec<_>>()).await.unwrap();
    let of_topics = |record: &AttemptRecord| TOPICS.contains(&record.claim.lease.topic.topic.as_str());
    let records = until("all attempts", 4 * SOON, async || {
        let records: Vec<AttemptRecord> = runner.records().into_iter().filter(of_topics).collect();
        (records.len() >= JOBS).then_some(records)
    })
    .await;
    for record in &records {
        assert!(matches!(record.verdict, Verdict::Ack(_)), "{record:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_never_ends_has_a_thread_for_its_timeout_and_delays_no_other_topic() {
    let runner = TestRunner::start(MANIFEST, &[("puppet", guests::PUPPET)]).await;
    let endless = Script::end(End::InfiniteLoop).to_json();
    let mut loops = Vec::new();
    for _ in 0..5 {
        loops.push(runner.push("puppet", &endless).await);
    }
    runner.work("puppet-2", &work(1)).await;
    for job in loops {
        runner.end_of(&job).await;
        let run = runner.attempts_at(&job)[0].run.unwrap();
        assert!(run.duration >= Duration::from_millis(160), "{run:?}");
    }
}
