//! `kill -9` of servers and of commands while producers push: what was acknowledged is there, and is done once.
//!
//! `tests/it/crash.rs` and `tests/it/killed.rs` kill runners in the same way.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use gristmill::job::JobId;
use gristmill::server::RemoteStore;
use gristmill::store::prelude::*;
use gristmill::store::redis::RedisStore;
use gristmill::store::{JobState, TopicCounts};
use gristmill_tests::guests;
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::process::{Process, command, kills, run_command};
use gristmill_tests::random::seeded;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::test_runner::tenant;
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use serde_json::Value;

/// Of each test, if no number is set.
const KILLS: u64 = 5;

const MANIFEST: &str = r#"
    [topics.echo]
    attempts = 50
    [topics.parking]
    handler = "nobody"
"#;

/// Where a server of this manifest answers: the log names the address of each one that runs.
pub(crate) async fn served(project: &TestProject) -> (Process, HttpClient) {
    served_by(project, run_command(&project.manifest(), &["--log", "gristmill=info"])).await
}

/// The same by a command of the caller's.
pub(super) async fn served_by(project: &TestProject, command: Command) -> (Process, HttpClient) {
    let process = project.serve_by(command).await;
    let log = process.log();
    let address = log.rsplit("http://").find_map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.' && letter != ':')?;
        rest[..end].parse().ok()
    });
    (process, HttpClient::new(address.unwrap_or_else(|| panic!("no address in the log:\n{log}"))))
}

/// Pushes until the server has acknowledged so many jobs; their ids.
async fn push(client: &HttpClient, jobs: usize) -> Vec<JobId> {
    let mut ids = Vec::new();
    while ids.len() < jobs {
        let request = Request::post("/v1/tenants/default/topics/echo/jobs?keep_result_ms=3600000");
        let request = request.header("content-type", "application/octet-stream");
        let Some(answer) = client.try_send(request, b"x".to_vec()).await else { continue };
        assert_eq!(answer.status, 201, "{}", answer.text());
        ids.push(answer.json()["id"].as_str().unwrap().parse().unwrap());
    }
    ids
}

fn total(counts: &TopicCounts, name: &str) -> u64 {
    counts.totals.get(name).copied().unwrap_or_default()
}

async fn servers_are_killed(project: TestProject) {
    let mut random = seeded();
    let mut acknowledged = Vec::new();
    let kills = kills(KILLS);
    for _ in 0..kills {
        let (process, client) = served(&project).await;
        acknowledged.extend(push(&client, random.usize(1..60)).await);
        // In the middle of more: what is not acknowledged may be stored or not.
        let more = tokio::spawn({
            let client = client.clone();
            async move { push(&client, 1).await }
        });
        process.kill();
        more.abort();
    }
    let (_process, client) = served(&project).await;
    let store = RemoteStore::connect(client.address).await.unwrap();
    let counts = async || {
        let counts = store.counts(&tenant()).await.unwrap();
        counts.into_iter().find(|counts| counts.topic.topic.as_str() == "echo")
    };
    until("all to be done", 4 * SOON, async || {
        let echo = counts().await?;
        // A job that is claimed between two of the numbers is in neither.
        let all_ended = total(&echo, "acked") + echo.dead >= total(&echo, "pushed");
        (all_ended && echo.ready + echo.delayed + echo.running == 0).then_some(())
    })
    .await;
    // Read anew: totals may be a moment older than what they are read with.
    let counts = counts().await.unwrap();
    for id in &acknowledged {
        let view = store.job(&tenant(), id).await.unwrap();
        let state = view.map(|view| view.state);
        assert_eq!(state, Some(JobState::Finished), "{id} was acknowledged");
    }
    assert_eq!(
        (counts.dead, total(&counts, "acked")),
        (0, total(&counts, "pushed")),
        "each job is done once: {counts:?}"
    );
    println!(
        "| {kills} kills of servers | {} pushes acknowledged, {} attempts made again | 0 lost, 0 done twice | yes |",
        acknowledged.len(),
        total(&counts, "retried"),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_a_file_that_is_killed_keeps_what_it_acknowledged() {
    servers_are_killed(TestProject::new(MANIFEST, &[("echo", guests::ECHO)]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_redis_that_is_killed_keeps_what_it_acknowledged() {
    servers_are_killed(TestProject::on_redis(MANIFEST, &[("echo", guests::ECHO)]).await).await;
}

/// Lets a command push until it has printed so many ids, and kills it. The ids that it printed.
fn killed_push(project: &TestProject, lines: usize) -> Vec<JobId> {
    let mut push = command(&project.manifest());
    push.args(["push", "parking", "--data", "x", "--count", "1000000"]);
    let mut push = push.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut printed = BufReader::new(push.stdout.take().unwrap()).lines();
    let mut ids: Vec<String> = printed.by_ref().take(lines).map(Result::unwrap).collect();
    push.kill().unwrap();
    push.wait().unwrap();
    // The last line may be cut off.
    ids.extend(printed.map_while(Result::ok));
    ids.into_iter().filter(|id| id.len() == 26).map(|id| id.parse().unwrap()).collect()
}

async fn commands_are_killed(project: TestProject) {
    let mut random = seeded();
    let mut printed = BTreeSet::new();
    let kills = kills(KILLS);
    for _ in 0..kills {
        printed.extend(killed_push(&project, random.usize(1..3000)));
    }
    let stats: Value = project.run(&["stats", "--json"]).document();
    let ready = stats["ready"].as_u64().unwrap();
    assert!(ready >= printed.len() as u64, "{ready} jobs, {} ids printed", printed.len());
    let listed = listed(&project).await;
    assert!(printed.is_subset(&listed), "printed and not there: {:?}", printed.difference(&listed).next());
    println!("| {kills} kills of commands | {} ids printed, {ready} jobs stored | 0 lost | yes |", printed.len());
}

async fn listed(project: &TestProject) -> BTreeSet<JobId> {
    let (_process, _client);
    let store: Box<dyn ListJobs> = match &project.redis {
        Some(redis) => Box::new(RedisStore::connect(&redis.url(), "gm").await.unwrap()),
        None => {
            (_process, _client) = served(project).await;
            Box::new(RemoteStore::connect(_client.address).await.unwrap())
        }
    };
    let (topic, mut found, mut after) = ("parking".parse().unwrap(), BTreeSet::new(), None);
    loop {
        let page = store.jobs(&topic, gristmill::store::StateFilter::Ready, after.as_ref(), 1000).await.unwrap();
        found.extend(page.jobs.into_iter().map(|view| view.id));
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_a_file_that_is_killed_has_stored_what_it_printed() {
    commands_are_killed(TestProject::new(MANIFEST, &[("echo", guests::ECHO)]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_redis_that_is_killed_has_stored_what_it_printed() {
    commands_are_killed(TestProject::on_redis(MANIFEST, &[("echo", guests::ECHO)]).await).await;
}
