//! How soon a job starts. A push and a due time wake the runner; a tick once a second is only the safety net. A runner that
//! works by the tick alone takes half a second to a second for each job, and these tests notice.

use std::time::{Duration, Instant};

use gristmill::job::{Due, Name, NewJob, WorkerId};
use gristmill::store::Signal;
use gristmill::store::prelude::*;
use gristmill::store::redis::RedisStore;
use gristmill_tests::guests;
use gristmill_tests::test_runner::{On, TestRunner, spec};

/// A quarter of the jobs must start this soon. They take milliseconds; a machine that stands still delays the others.
const AWAKE: Duration = Duration::from_millis(400);
const JOBS: usize = 20;

async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, "", &[("echo", guests::ECHO)]).await
}

on_both_stores! {
    a_push_wakes_the_runner
    a_due_time_wakes_the_runner
}

/// The time that the fifth-fastest of the jobs needed.
async fn quartile(mut job: impl AsyncFnMut() -> Duration) -> Duration {
    let mut took = Vec::new();
    for _ in 0..JOBS {
        took.push(job().await);
    }
    took.sort();
    took[JOBS / 4]
}

async fn a_push_wakes_the_runner(runner: TestRunner) {
    let took = quartile(async || {
        let pushed = Instant::now();
        runner.work("echo", b"hello").await;
        pushed.elapsed()
    });
    let took = took.await;
    assert!(took < AWAKE, "{took:?} from push to end");
}

async fn a_due_time_wakes_the_runner(runner: TestRunner) {
    let delay = Duration::from_millis(20);
    let took = quartile(async || {
        let pushed = Instant::now();
        let job = runner.push_job(spec("echo", b"hello"), Due::After(delay)).await;
        runner.end_of(&job).await;
        pushed.elapsed()
    });
    let took = took.await;
    assert!(took >= delay, "{took:?} is before the due time");
    assert!(took < delay + AWAKE, "{took:?} from push to end");
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_find_the_jobs_of_a_runner_that_was_woken_and_died() {
    let runner = runner(On::Redis).await;
    let (tenant, topics): (Name, _) = ("default".parse().unwrap(), ["echo".parse().unwrap()]);
    let dead = WorkerId::new("dead");
    let mut calls = runner.store.wake_ups(&dead, &[tenant], &topics).await.unwrap();
    // What another process pushes is signalled to one of the runners that wait; after each job the living one waits behind the dead one.
    let elsewhere = RedisStore::connect(&runner.redis.as_ref().unwrap().url(), "gm").await.unwrap();
    let work = async |body| {
        let spec = spec("echo", body);
        let id = spec.id.clone();
        elsewhere.push(&[NewJob { spec, due: Due::Now }]).await.unwrap();
        runner.end_of(&id).await
    };
    work(b"for the living").await;
    while calls.try_recv().is_err() {
        work(b"for the dead").await;
    }

    let mut calls = runner.store.wake_ups(&dead, &["default".parse().unwrap()], &topics).await.unwrap();
    work(b"for the living").await;
    let job = runner.push_job(spec("echo", b"for the dead"), Due::After(Duration::from_millis(20))).await;
    runner.end_of(&job).await;
    assert!(matches!(calls.try_recv(), Ok(Signal::Due { .. })));
}
