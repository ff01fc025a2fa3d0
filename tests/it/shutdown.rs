//! Ending in order.

use gristmill::job::NewJob;
use gristmill::job::{Due, JobId};
use gristmill::store::JobState;
use gristmill::store::prelude::*;
use gristmill::store::redis::RedisStore;
use gristmill_tests::guests;
use gristmill_tests::process::Process;
use gristmill_tests::redis::Redis;
use gristmill_tests::test_project::FREE_PORT;
use gristmill_tests::test_runner::{drop_in, spec, tenant, with_clock};
use gristmill_tests::wait::{SOON, until};
use puppet::{End, Script, Step};
use rustix::process::Signal;
use tempfile::TempDir;

/// Runs one job with this grace, ends the runner in the middle of it, and says what became of the job.
async fn ended_while_running(script: Script, grace: &str) -> JobState {
    let redis = Redis::start().await;
    let store = RedisStore::connect(&redis.url(), "gm").await.unwrap();
    let folder = TempDir::with_prefix("gristmill-").unwrap();
    let manifest = folder.path().join("gristmill.toml");
    let url = redis.url();
    let text = format!("[server]\nshutdown-grace = \"{grace}\"\n{FREE_PORT}[store]\nurl = \"{url}\"\n[topics.puppet]");
    std::fs::write(&manifest, with_clock(&text)).unwrap();
    std::fs::create_dir(folder.path().join("handlers")).unwrap();
    drop_in(&folder.path().join("handlers"), "puppet", &std::fs::read(guests::PUPPET).unwrap());

    let job = spec("puppet", &script.to_json());
    let id = job.id.clone();
    store.push(&[NewJob { spec: job, due: Due::Now }]).await.unwrap();
    let mut process = Process::run(&manifest);
    until("the job to run", SOON, async || matches!(state(&store, &id).await, JobState::Running { .. }).then_some(()))
        .await;
    process.signal(Signal::TERM);
    let status = until("the runner to end", SOON, async || process.ended()).await;
    assert!(status.success(), "{status}: {}", process.log());
    let view = store.job(&tenant(), &id).await.unwrap().unwrap();
    assert!(matches!(view.state, JobState::Finished) || view.attempts == 0, "no attempt is used up: {view:?}");
    let workers: u64 = redis.ask("ZCARD", &["gm:workers"]).await.unwrap();
    assert_eq!(workers, 0, "the worker says goodbye");
    view.state
}

async fn state(store: &RedisStore, job: &JobId) -> JobState {
    store.job(&tenant(), job).await.unwrap().unwrap().state
}

#[tokio::test(flavor = "multi_thread")]
async fn running_attempts_may_finish_within_the_grace() {
    let asks = Script::new([Step::WaitUntilCancelled, Step::End(End::Complete)]);
    assert_eq!(ended_while_running(asks, "30s").await, JobState::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_that_outlast_the_grace_are_released_without_using_an_attempt() {
    let sleeper = Script::new([Step::SleepMs(3_600_000)]);
    assert_eq!(ended_while_running(sleeper, "50ms").await, JobState::Ready);
}
