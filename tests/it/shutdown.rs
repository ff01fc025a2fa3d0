//! Ending in order, and in time.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use gristmill::job::NewJob;
use gristmill::job::{Due, JobId};
use gristmill::store::JobState;
use gristmill::store::prelude::*;
use gristmill::store::redis::RedisStore;
use gristmill_tests::guests;
use gristmill_tests::process::{Process, run_command};
use gristmill_tests::redis::Redis;
use gristmill_tests::test_project::FREE_PORT;
use gristmill_tests::test_runner::{drop_in, spec, tenant, with_clock};
use gristmill_tests::wait::{SOON, until};
use puppet::{End, Script, Step};
use rustix::process::Signal;
use tempfile::TempDir;

/// A manifest with this grace, and the puppet.
async fn rig(redis: &Redis, grace: &str) -> (RedisStore, TempDir, PathBuf) {
    let store = RedisStore::connect(&redis.url(), "gm").await.unwrap();
    let folder = TempDir::with_prefix("gristmill-").unwrap();
    let manifest = folder.path().join("gristmill.toml");
    let url = redis.url();
    let text = format!("[server]\nshutdown-grace = \"{grace}\"\n{FREE_PORT}[store]\nurl = \"{url}\"\n[topics.puppet]");
    std::fs::write(&manifest, with_clock(&text)).unwrap();
    std::fs::create_dir(folder.path().join("handlers")).unwrap();
    drop_in(&folder.path().join("handlers"), "puppet", &std::fs::read(guests::PUPPET).unwrap());
    (store, folder, manifest)
}

/// Runs one job with this grace, ends the runner in the middle of it, and says what became of the job.
async fn ended_while_running(script: Script, grace: &str) -> JobState {
    let redis = Redis::start().await;
    let (store, _folder, manifest) = rig(&redis, grace).await;
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

/// All steps of the end have one time of some three seconds after the grace. One after the other, they took twenty.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hangs_holds_up_the_end_by_seconds_only() {
    const AT_MOST: Duration = Duration::from_secs(14);
    let redis = Redis::start().await;
    let (store, _folder, manifest) = rig(&redis, "50ms").await;
    let jobs: Vec<NewJob> = (0..3)
        .map(|_| spec("puppet", &Script::new([Step::SleepMs(3_600_000)]).to_json()))
        .map(|spec| NewJob { spec, due: Due::Now })
        .collect();
    store.push(&jobs).await.unwrap();
    let mut process = Process::run(&manifest);
    for job in &jobs {
        let is_running = async || matches!(state(&store, &job.spec.id).await, JobState::Running { .. }).then_some(());
        until("the job to run", SOON, is_running).await;
    }
    redis.signal(Signal::STOP);
    let begun = Instant::now();
    process.signal(Signal::TERM);
    until("the runner to end", SOON, async || process.ended()).await;
    let took = begun.elapsed();
    redis.signal(Signal::CONT);
    assert!(took < AT_MOST, "{took:?}: {}", process.log());
    assert!(process.log().contains("come back when their leases run out"), "{}", process.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_that_nobody_reads_holds_up_no_end() {
    let redis = Redis::start().await;
    let (store, _folder, manifest) = rig(&redis, "50ms").await;
    // More than the pipe and the queue of lines take.
    let flood = || spec("puppet", &Script::new([Step::LogFlood { lines: 3000, bytes: 5 }]).to_json());
    let jobs: Vec<NewJob> = (0..4).map(|_| NewJob { spec: flood(), due: Due::Now }).collect();
    store.push(&jobs).await.unwrap();
    let (unread, pipe) = io::pipe().unwrap();
    let mut command = run_command(&manifest, &["--log", "gristmill=info"]);
    let mut process = Process::spawn(command.stdout(pipe.try_clone().unwrap()).stderr(pipe), &manifest);
    drop(command);
    for job in &jobs {
        until("the job to be done", SOON, async || {
            (state(&store, &job.spec.id).await == JobState::Finished).then_some(())
        })
        .await;
    }
    process.signal(Signal::TERM);
    until("the runner to end", SOON, async || process.ended()).await;
    drop(unread);
}
