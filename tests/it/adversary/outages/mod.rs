//! A Redis that stands still, dies or is full while jobs run and producers push.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gristmill::server::RemoteStore;
use gristmill::store::prelude::*;
use gristmill_tests::guests;
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::test_runner::tenant;
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use puppet::{End, Script, Step};
use rustix::process::Signal;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use super::{is_long, kills::served};

/// A lease is ten seconds longer than the timeout.
const LEASE: Duration = Duration::from_secs(11);
const MANIFEST: &str = r#"
    [journal]
    path = "journal.jsonl"
    [topics.puppet]
    timeout = "1s"
    attempts = 2
"#;

#[derive(Debug, Clone, Copy)]
enum Outage {
    StandsStill,
    Dies,
    HasNoMemory,
}

/// Pushed in a second; each runs for a fifth of a second.
const RATE: u32 = 50;

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_redis_loses_nothing_and_repeats_nothing() {
    let mut lengths = vec![LEASE / 100, LEASE / 10];
    if is_long() {
        lengths.extend([LEASE, 3 * LEASE]);
    }
    println!("| outage | pushed | lost | run again though finished | first job done after | goal | holds |");
    println!("|---|---|---|---|---|---|---|");
    for outage in [Outage::StandsStill, Outage::Dies, Outage::HasNoMemory] {
        for length in &lengths {
            row(outage, *length).await;
        }
    }
}

async fn row(outage: Outage, length: Duration) {
    let mut project = TestProject::on_redis(MANIFEST, &[("puppet", guests::PUPPET)]).await;
    let (_process, client) = served(&project).await;
    done(&client).await;
    let mut pushed = JoinSet::new();
    let mut tick = interval(Duration::from_secs(1) / RATE);
    let producer = async {
        for number in 0.. {
            tick.tick().await;
            let client = client.clone();
            pushed.spawn(async move { push(&client, number).await });
        }
    };
    let recovery = tokio::select! {
        () = producer => unreachable!("it pushes for ever"),
        recovery = interrupt(&mut project, outage, length) => recovery,
    };
    let pushed = pushed.join_all().await;
    let store = RemoteStore::connect(client.address).await.unwrap();
    let counts = until("all to be over", 4 * SOON, async || {
        let counts = store.counts(&tenant()).await.ok()?.into_iter().next()?;
        (counts.ready + counts.delayed + counts.running == 0).then_some(counts)
    })
    .await;
    assert_eq!(counts.dead, 0, "{outage:?} for {length:?}: {counts:?}");
    // A line is written after its job is settled.
    let completed = until("the lines of all jobs", SOON, async || {
        let completed = completed(&project);
        pushed.iter().all(|id| completed.contains_key(id)).then_some(completed)
    })
    .await;
    let again = completed.values().filter(|times| **times > 1).count();
    let holds = if recovery <= Duration::from_secs(2) { "yes" } else { "no" };
    println!(
        "| {outage:?} for {:.1} s | {} | 0 | {again} | {:.2} s | 0, 0, at most 2 s | {holds} |",
        length.as_secs_f64(),
        pushed.len(),
        recovery.as_secs_f64(),
    );
    assert_eq!(again, 0, "{outage:?} for {length:?}");
}

/// How often each job was completed, by the journal.
fn completed(project: &TestProject) -> BTreeMap<String, u32> {
    let journal = std::fs::read_to_string(project.manifest().with_file_name("journal.jsonl")).unwrap();
    let mut completed = BTreeMap::new();
    for line in journal.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["outcome"] == "complete" {
            *completed.entry(line["job"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    completed
}

/// Interrupts Redis in the middle of the load. How long it took, once Redis was back, until the next job was done: the first of
/// those that waited.
async fn interrupt(project: &mut TestProject, outage: Outage, length: Duration) -> Duration {
    let redis = project.redis.as_mut().unwrap();
    // The load before the outage and the outage itself: nothing is waited for.
    sleep(Duration::from_millis(500)).await;
    match outage {
        Outage::StandsStill => redis.signal(Signal::STOP),
        Outage::Dies => redis.kill(),
        Outage::HasNoMemory => _ = redis.ask::<String>("CONFIG", &["SET", "maxmemory", "1"]).await.unwrap(),
    }
    sleep(length).await;
    match outage {
        Outage::StandsStill => redis.signal(Signal::CONT),
        Outage::Dies => redis.resume().await,
        Outage::HasNoMemory => _ = redis.ask::<String>("CONFIG", &["SET", "maxmemory", "0"]).await.unwrap(),
    }
    let (back, before) = (Instant::now(), completed(project).len());
    until("work to go on", 4 * SOON, async || (completed(project).len() > before).then_some(())).await;
    back.elapsed()
}

fn body() -> Vec<u8> {
    Script::new([Step::SleepMs(200), Step::End(End::Complete)]).to_json()
}

/// Pushes a job, again and again until the server acknowledges it. Its id makes that safe.
async fn push(client: &HttpClient, number: u32) -> String {
    let id = format!("outage-{number}");
    let begun = Instant::now();
    loop {
        let request = Request::post(format!("/v1/tenants/default/topics/puppet/jobs?id={id}"));
        let answer = client.try_send(request.header("content-type", "application/octet-stream"), body()).await;
        if answer.is_some_and(|answer| answer.status < 300) {
            return id;
        }
        assert!(begun.elapsed() < 4 * SOON, "a push is not acknowledged");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until a new job was pushed and is done.
async fn done(client: &HttpClient) {
    until("a job to be done", 4 * SOON, async || {
        let request = Request::post("/v1/tenants/default/topics/puppet/jobs?wait_ms=60000&keep_result_ms=60000");
        let answer = client.try_send(request.header("content-type", "application/octet-stream"), body()).await?;
        (answer.status < 300 && answer.json()["job"]["state"] == "finished").then_some(())
    })
    .await;
}
