//! What is nobody's fault: lost replies, processes that stand still, a store that dies in mid-load.

use std::process::Stdio;
use std::time::Duration;

use gristmill::job::{Due, JobOptions, JobSpec, NewJob, TopicId, WorkerId};
use gristmill::store::prelude::*;
use gristmill::store::redis::RedisStore;
use gristmill::store::{ClaimFrom, JobState, Settled, Settlement};
use gristmill_tests::guests;
use gristmill_tests::process::{Process, command};
use gristmill_tests::redis::Redis;
use gristmill_tests::test_project::FREE_PORT;
use gristmill_tests::test_runner::{TestRunner, drop_in, spec, tenant, with_clock};
use gristmill_tests::test_store::retry;
use gristmill_tests::wait::{SOON, until};
use puppet::{Cause, End, Script, Step};
use rustix::process::Signal;
use tempfile::TempDir;

/// A manifest, and the puppet, for a process of its own.
async fn rig(redis: &Redis, topics: &str) -> (RedisStore, TempDir) {
    let store = RedisStore::connect(&redis.url(), "gm").await.unwrap();
    let folder = TempDir::with_prefix("gristmill-").unwrap();
    std::fs::create_dir(folder.path().join("handlers")).unwrap();
    drop_in(&folder.path().join("handlers"), "puppet", &std::fs::read(guests::PUPPET).unwrap());
    let text = format!("[server]\nconcurrency = 200\n{FREE_PORT}[store]\nurl = \"{}\"\n{topics}", redis.url());
    std::fs::write(folder.path().join("gristmill.toml"), with_clock(&text)).unwrap();
    (store, folder)
}

async fn total(store: &RedisStore, topic: &str, what: &str) -> u64 {
    let topic: TopicId = topic.parse().unwrap();
    let counts = store.counts(&tenant()).await.unwrap_or_default();
    let counts = counts.into_iter().find(|counts| counts.topic == topic);
    counts.and_then(|counts| counts.totals.get(what).copied()).unwrap_or_default()
}

/// Until a call of the runner has failed: the listener for signals comes and goes by itself.
async fn outage_is_noticed(process: &Process) {
    let is_noticed = || process.log().contains("running attempts go on, trying again");
    until("the runner to notice", SOON, async || is_noticed().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_with_a_lost_reply_are_released_after_the_outage() {
    let mut redis = Redis::start().await;
    let (store, folder) = rig(&redis, "[topics.puppet]\n[topics.lost]\nhandler = \"nobody\"\n").await;
    let process = Process::run(&folder.path().join("gristmill.toml"));
    let worker: String =
        until("the worker", SOON, async || redis.ask::<Vec<String>>("ZRANGE", &["gm:workers", "0", "0"]).await?.pop())
            .await;
    // What a claim does whose reply is lost on its way to the runner.
    let lost = spec("lost", b"");
    let id = lost.id.clone();
    store.push(&[NewJob { spec: lost, due: Due::Now }]).await.unwrap();
    let from = ClaimFrom::new("lost".parse().unwrap(), 1, Duration::from_secs(3600));
    assert_eq!(store.claim(&WorkerId::new(&worker), &[from]).await.unwrap().claims.len(), 1);

    redis.stop();
    outage_is_noticed(&process).await;
    redis.resume().await;
    let view = until("the job to be back", SOON, async || {
        let view = store.job(&tenant(), &id).await.ok()??;
        (view.state == JobState::Ready).then_some(view)
    })
    .await;
    assert_eq!(view.attempts, 0, "no attempt is used up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_stood_still_loses_its_lease() {
    let redis = Redis::start().await;
    let (store, folder) = rig(&redis, "[topics.puppet]\ntimeout = \"60s\"\n").await;
    let manifest = folder.path().join("gristmill.toml");
    let sleeper = Process::run(&manifest);
    // Long enough to be stopped in the midst of it.
    let job = spec("puppet", &Script::new([Step::SleepMs(20_000), Step::End(End::Complete)]).to_json());
    let id = job.id.clone();
    store.push(&[NewJob { spec: job, due: Due::Now }]).await.unwrap();
    let running = async || Some(store.job(&tenant(), &id).await.unwrap()?.state);
    until("the job to run", SOON, async || matches!(running().await, Some(JobState::Running { .. })).then_some(()))
        .await;
    sleeper.signal(Signal::STOP);

    let other = Process::run(&manifest);
    until("the job to be done", 4 * SOON, async || (total(&store, "puppet", "acked").await == 1).then_some(())).await;
    sleeper.signal(Signal::CONT);
    until("the late one", SOON, async || sleeper.log().contains("lease lost").then_some(())).await;
    assert_eq!((total(&store, "puppet", "acked").await, total(&store, "puppet", "retried").await), (1, 1));
    drop(other);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_guests_may_sleep_at_once() {
    let redis = Redis::start().await;
    let (store, folder) = rig(&redis, "[topics.puppet]\nconcurrency = 200\ntimeout = \"60s\"\n").await;
    // Long enough to be seen asleep all together.
    let body = Script::new([Step::SleepMs(15_000), Step::End(End::Complete)]).to_json();
    let job = || NewJob { spec: JobSpec { options: JobOptions::default(), ..spec("puppet", &body) }, due: Due::Now };
    store.push(&(0..200).map(|_| job()).collect::<Vec<_>>()).await.unwrap();
    let _process = Process::run(&folder.path().join("gristmill.toml"));
    let running = async || store.counts(&tenant()).await.unwrap().first().map(|counts| counts.running);
    until("all to sleep", SOON, async || running().await.filter(|running| *running == 200)).await;
    until("all to be done", 4 * SOON, async || (total(&store, "puppet", "acked").await == 200).then_some(())).await;
    assert_eq!(total(&store, "puppet", "released").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_sixty_kilobytes_of_headers_runs() {
    let runner = TestRunner::start("[topics.puppet]\n", &[("puppet", guests::PUPPET)]).await;
    let mut job = spec("puppet", &Script::end(End::Complete).to_json());
    job.metadata = (0..60).map(|number| (format!("x-{number}"), "v".repeat(1020))).collect();
    let id = runner.push_job(job, Due::Now).await;
    assert_eq!(runner.end_of(&id).await.state, JobState::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_stands_still_in_mid_load_loses_nothing() {
    const JOBS: u64 = 5_000;
    let redis = Redis::start().await;
    let (store, folder) = rig(&redis, "[topics.puppet]\nconcurrency = 200\n").await;
    let body = Script::end(End::Complete).to_json();
    let job = || NewJob { spec: JobSpec { options: JobOptions::default(), ..spec("puppet", &body) }, due: Due::Now };
    store.push(&(0..JOBS).map(|_| job()).collect::<Vec<_>>()).await.unwrap();
    let process = Process::run(&folder.path().join("gristmill.toml"));
    until("some work", SOON, async || (total(&store, "puppet", "acked").await > 500).then_some(())).await;
    redis.signal(Signal::STOP);
    outage_is_noticed(&process).await;
    redis.signal(Signal::CONT);
    until("all to be done", 4 * SOON, async || (total(&store, "puppet", "acked").await == JOBS).then_some(())).await;
    assert_eq!(total(&store, "puppet", "retried").await, 0, "nobody's lease ran out, nobody was called dead");
    println!("given back: {}", total(&store, "puppet", "released").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_killed_in_mid_load_loses_nothing() {
    const JOBS: u64 = 5_000;
    let mut redis = Redis::start().await;
    let (store, folder) = rig(&redis, "[topics.puppet]\nconcurrency = 200\n").await;
    let body = Script::end(End::Complete).to_json();
    let job = || NewJob { spec: JobSpec { options: JobOptions::default(), ..spec("puppet", &body) }, due: Due::Now };
    store.push(&(0..JOBS).map(|_| job()).collect::<Vec<_>>()).await.unwrap();
    let process = Process::run(&folder.path().join("gristmill.toml"));
    until("some work", SOON, async || (total(&store, "puppet", "acked").await > 500).then_some(())).await;
    redis.kill();
    outage_is_noticed(&process).await;
    redis.resume().await;
    until("all to be done", 4 * SOON, async || (total(&store, "puppet", "acked").await == JOBS).then_some(())).await;
    assert_eq!(total(&store, "puppet", "retried").await, 0, "nobody's lease ran out, nobody was called dead");
    println!("given back: {}", total(&store, "puppet", "released").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_with_a_megabyte_of_text_is_a_short_log_line() {
    let redis = Redis::start().await;
    let (store, folder) = rig(&redis, "[topics.puppet]\nattempts = 2\nbackoff = \"10ms\"\n").await;
    let cause = Cause { code: "long".into(), message: "x".repeat(900_000), ..Cause::default() };
    for end in [End::Retry(cause.clone()), End::Reject(cause)] {
        let body = Script::end(end).to_json();
        store.push(&[NewJob { spec: spec("puppet", &body), due: Due::Now }]).await.unwrap();
    }
    let process = Process::run(&folder.path().join("gristmill.toml"));
    until("both to be dead", SOON, async || (process.log().matches("dead: ").count() == 2).then_some(())).await;
    let log = process.log();
    assert!(log.contains("failed: xxx") && log.contains("(900000 bytes)"), "{log}");
    assert!(log.lines().all(|line| line.len() < 6_000), "{}", log.len());
}

/// The outage is one of permissions, so that the test can look at the store meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_ends_in_an_outage_longer_than_its_lease_is_settled_after_it() {
    let redis = Redis::start().await;
    let (store, folder) = rig(&redis, "[topics.puppet]\ntimeout = \"5s\"\nattempts = 1\n").await;
    let process = Process::run(&folder.path().join("gristmill.toml"));
    let steps = [Step::SleepMs(3000), Step::Log("the end".into()), Step::End(End::Complete)];
    let job = spec("puppet", &Script::new(steps).to_json());
    let id = job.id.clone();
    store.push(&[NewJob { spec: job, due: Due::Now }]).await.unwrap();
    let running = async || Some(store.job(&tenant(), &id).await.unwrap()?.state);
    until("the job to run", SOON, async || matches!(running().await, Some(JobState::Running { .. })).then_some(()))
        .await;
    redis.ask::<String>("ACL", &["SETUSER", "default", "-evalsha"]).await.unwrap();

    until("the attempt to end", SOON, async || process.log().contains("the end").then_some(())).await;
    until("the lease to run out", SOON, async || {
        let lease: Vec<(String, f64)> = redis.ask("ZRANGE", &["gm:{default/0}:leases", "0", "0", "WITHSCORES"]).await?;
        let (seconds, _): (f64, f64) = redis.ask("TIME", &[]).await?;
        lease.first().is_some_and(|(_, end)| *end < seconds * 1000.0).then_some(())
    })
    .await;
    assert!(
        process.log().contains("no permissions"),
        "the log does not say what the server refuses: {}",
        process.log()
    );
    redis.ask::<String>("ACL", &["SETUSER", "default", "+evalsha"]).await.unwrap();

    until("the job to be done", SOON, async || (total(&store, "puppet", "acked").await == 1).then_some(())).await;
    let (retried, dead) = (total(&store, "puppet", "retried").await, total(&store, "puppet", "dead").await);
    assert_eq!((retried, dead), (0, 0), "{}", process.log());
}

#[tokio::test]
async fn a_user_who_may_not_publish_is_refused_at_the_connection_and_loses_no_job_later() {
    let redis = Redis::start().await;
    redis.ask::<String>("ACL", &["SETUSER", "mute", "on", ">pw", "~gm:*", "+@all", "resetchannels"]).await.unwrap();
    let mute = redis.url() + "?user=mute&pass=pw";
    let refused = RedisStore::connect(&mute, "gm").await.unwrap_err();
    assert!(format!("{:#}", anyhow::Error::from(refused)).contains("channels"), "it names what is missing");

    // An operator takes the right from users that are connected.
    let (store, worker) = (RedisStore::connect(&redis.url(), "gm").await.unwrap(), WorkerId::new("w"));
    redis.ask::<String>("ACL", &["SETUSER", "default", "resetchannels"]).await.unwrap();
    let jobs: Vec<_> = (0..10).map(|_| NewJob { spec: spec("mail", b""), due: Due::Now }).collect();
    store.push(&jobs).await.unwrap();
    store.push(&[NewJob { spec: spec("mail", b""), due: Due::After(Duration::from_secs(60)) }]).await.unwrap();
    let from = ClaimFrom::new("mail".parse().unwrap(), 20, Duration::from_secs(60));
    let claimed = store.claim(&worker, &[from]).await.unwrap().claims;
    let settle = |claim| Settlement::of(claim, retry(0), Duration::ZERO);
    let settled = store.settle(&claimed.iter().map(settle).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(settled, vec![Settled::Done; 10]);
    let counts = store.counts(&tenant()).await.unwrap();
    assert_eq!((counts[0].ready, counts[0].delayed, counts[0].running), (10, 1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_not_read_stops_no_job_and_no_shutdown() {
    let redis = Redis::start().await;
    let (store, folder) = rig(&redis, "[topics.puppet]\n").await;
    // More than a pipe and the lines that wait in memory can hold.
    let body = Script::new([Step::LogFlood { lines: 500, bytes: 100 }, Step::End(End::Complete)]).to_json();
    let job = || NewJob { spec: spec("puppet", &body), due: Due::Now };
    store.push(&(0..50).map(|_| job()).collect::<Vec<_>>()).await.unwrap();
    let mut command = command(&folder.path().join("gristmill.toml"));
    let mut process = command.arg("run").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("all to be done", SOON, async || (total(&store, "puppet", "acked").await == 50).then_some(())).await;
    rustix::process::kill_process(rustix::process::Pid::from_child(&process), Signal::TERM).unwrap();
    let ended = until("the process to end", SOON, async || process.try_wait().unwrap()).await;
    assert!(ended.success(), "{ended}");
}
