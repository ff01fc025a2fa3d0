//! A store that is unavailable while jobs run and producers push.

mod outage;
mod wire;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use gristmill::server::RemoteStore;
use gristmill::store::prelude::*;
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::test_runner::tenant;
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use outage::{Outage, Rig};
use puppet::{End, Script, Step};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use wire::Passes;

use super::is_long;

/// A lease is ten seconds longer than the timeout of the topic.
const LEASE: Duration = Duration::from_secs(11);

/// Pushed in a second; each runs for a fifth of a second.
const RATE: u32 = 50;

/// How soon after the outage work is to go on, or after it was noticed, if that is later.
const GOAL: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_redis_loses_nothing_and_repeats_nothing() {
    use Outage::{RedisCannotWrite, RedisDies, RedisHasNoMemory, RedisStandsStill};
    table(&[RedisStandsStill, RedisDies, RedisHasNoMemory, RedisCannotWrite]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_to_redis_loses_nothing_and_repeats_nothing() {
    let kinds = [Passes::Closed, Passes::Nothing, Passes::OnlyRequests, Passes::OnlyReplies];
    table(&kinds.map(Outage::Connections)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_takes_no_writes_loses_nothing_and_repeats_nothing() {
    table(&[Outage::DiskFails, Outage::DiskIsFull]).await;
}

async fn table(outages: &[Outage]) {
    let lengths = if is_long() { vec![LEASE / 100, LEASE / 10, LEASE, 3 * LEASE] } else { vec![LEASE / 10] };
    println!(
        "| outage | pushed | lost | run again though finished | first refusal after | first job done after | goal | holds |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for outage in outages {
        for length in &lengths {
            row(*outage, *length).await;
        }
    }
}

async fn row(outage: Outage, length: Duration) {
    let mut rig = Rig::start(outage).await;
    done(&rig.client).await;
    let mut pushed = JoinSet::new();
    let mut tick = interval(Duration::from_secs(1) / RATE);
    let refused = Arc::<OnceLock<Instant>>::default();
    let client = rig.client.clone();
    let producer = async {
        for number in 0.. {
            tick.tick().await;
            let (client, refused) = (client.clone(), Arc::clone(&refused));
            pushed.spawn(async move { push(&client, number, &refused).await });
        }
    };
    let (began, back, done) = tokio::select! {
        () = producer => unreachable!("it pushes for ever"),
        times = interrupt(&mut rig, outage, length) => times,
    };
    let pushed = pushed.join_all().await;
    let store = RemoteStore::connect(rig.client.address).await.unwrap();
    let counts = until("all to be over", 4 * SOON, async || {
        let counts = store.counts(&tenant()).await.ok()?.into_iter().next()?;
        (counts.ready + counts.delayed + counts.running == 0).then_some(counts)
    })
    .await;
    assert_eq!(counts.dead, 0, "{outage:?} for {length:?}: {counts:?}");
    // A line is written after its job is settled.
    let completed = until("the lines of all jobs", SOON, async || {
        let completed = completed(&rig.project);
        pushed.iter().all(|id| completed.contains_key(id)).then_some(completed)
    })
    .await;
    let again = completed.values().filter(|times| **times > 1).count();
    let refused = refused.get().copied();
    let noticed = refused.map_or_else(|| "-".into(), |at| format!("{:.2} s", (at - began).as_secs_f64()));
    let holds = if done <= back.max(refused.unwrap_or(back)) + GOAL { "yes" } else { "no" };
    println!(
        "| {outage:?} for {:.1} s | {} | 0 | {again} | {noticed} | {:.2} s | 0, 0, at most 2 s | {holds} |",
        length.as_secs_f64(),
        pushed.len(),
        (done - back).as_secs_f64(),
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

/// Interrupts the store in the middle of the load: when that began, when the store was back, and when the next job was done, the
/// first of those that waited.
async fn interrupt(rig: &mut Rig, outage: Outage, length: Duration) -> (Instant, Instant, Instant) {
    // The load before the outage and the outage itself: nothing is waited for.
    sleep(Duration::from_millis(500)).await;
    let began = Instant::now();
    rig.begin(outage).await;
    sleep(length).await;
    if let Outage::DiskIsFull = outage {
        // What the log has room for yet is written all the same.
        let not_ready = async || (rig.client.get("/readyz").await.status == 503).then_some(());
        until("a server whose disk is full not to be ready", SOON, not_ready).await;
    }
    rig.end(outage).await;
    let (back, before) = (Instant::now(), completed(&rig.project).len());
    until("work to go on", 4 * SOON, async || (completed(&rig.project).len() > before).then_some(())).await;
    (began, back, Instant::now())
}

fn body() -> Vec<u8> {
    Script::new([Step::SleepMs(200), Step::End(End::Complete)]).to_json()
}

/// Pushes a job, again and again until the server acknowledges it. The key makes that safe, also when an earlier try was stored, was
/// not answered, and the job is over by now. Notes when it was first refused.
async fn push(client: &HttpClient, number: u32, refused: &OnceLock<Instant>) -> String {
    let begun = Instant::now();
    loop {
        let request = Request::post("/v1/tenants/default/topics/puppet/jobs");
        let request = request.header("content-type", "application/octet-stream").header("idempotency-key", number);
        if let Some(answer) = client.try_send(request, body()).await
            && answer.status < 300
        {
            return answer.json()["id"].as_str().unwrap().to_owned();
        }
        refused.get_or_init(Instant::now);
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
