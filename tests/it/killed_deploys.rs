//! Deploys that are cut off by `kill -9`, and fleets whose handlers folders differ: no job is lost, and what does it is a version that
//! somebody brought.

use std::collections::BTreeSet;

use gristmill::job::JobId;
use gristmill::runner::Version;
use gristmill_tests::guests;
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::process::{Process, kills};
use gristmill_tests::random::seeded;
use gristmill_tests::redis::Redis;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use puppet::{End, Script};
use serde_json::{Value, json};

use crate::adversary::kills::served;
use crate::deployments::puppet;

const MANIFEST: &str = "[topics.puppet]\nattempts = 50\n";
const HANDLER: &str = "/v1/tenants/default/topics/puppet/handler";
const PUSH: &str = "/v1/tenants/default/topics/puppet/jobs?keep_result_ms=3600000";

/// Pushes jobs whose results say which version did them, until the server has acknowledged so many or is gone.
async fn push(client: &HttpClient, jobs: usize) -> Vec<JobId> {
    let mut ids = Vec::new();
    while ids.len() < jobs {
        let request = Request::post(PUSH).header("content-type", "application/octet-stream");
        let Some(answer) = client.try_send(request, Script::end(End::Version).to_json()).await else { break };
        assert_eq!(answer.status, 201, "{}", answer.text());
        ids.push(answer.json()["id"].as_str().unwrap().parse().unwrap());
    }
    ids
}

/// The version that has done a job; none of one that is not over.
async fn done_by(client: &HttpClient, job: &JobId) -> Option<u64> {
    let seen = client.get(&format!("/v1/tenants/default/jobs/{job}")).await.json();
    let result = seen["result"].as_object()?;
    let text = result["output"]["text"].as_str().unwrap_or_else(|| panic!("{seen}"));
    Some(text[15..].parse().unwrap())
}

async fn done(client: &HttpClient, jobs: &[JobId]) -> BTreeSet<u64> {
    let mut versions = BTreeSet::new();
    for job in jobs {
        let by = until(format!("the end of {job}"), SOON, async || done_by(client, job).await).await;
        versions.insert(by);
    }
    versions
}

/// What can be decided about versions.
#[derive(Debug, Clone, Copy)]
enum Act {
    Deploy(u64),
    Share(u64),
    RollBack,
    Promote,
}

impl Act {
    /// Asks for it. None: the server went away. What there is nothing of to go back to or to promote is refused.
    async fn ask(self, client: &HttpClient) -> Option<u16> {
        let (request, body) = match self {
            Self::Deploy(version) => (Request::put(HANDLER), puppet(version)),
            Self::Share(version) => (Request::put(format!("{HANDLER}?share=40%25")), puppet(version)),
            Self::RollBack => (Request::post(format!("{HANDLER}/rollback")), b"{}".to_vec()),
            Self::Promote => (Request::post(format!("{HANDLER}/promote")), b"{}".to_vec()),
        };
        let kind = if body.len() > 2 { "application/wasm" } else { "application/json" };
        Some(client.try_send(request.header("content-type", kind), body).await?.status)
    }
}

/// The number of a version by its first digits, among those that were brought.
fn number(digits: &Value, brought: u64) -> u64 {
    let digits = digits.as_str().unwrap();
    let found = (0..=brought).find(|number| Version::of(&puppet(*number)).to_string() == digits);
    found.unwrap_or_else(|| panic!("nobody brought {digits}"))
}

async fn deploys_are_killed(project: TestProject) {
    let mut random = seeded();
    let (mut pushed, mut brought) = (Vec::new(), 0);
    let kills = kills(4);
    for kill in 0..kills {
        let (process, client) = served(&project).await;
        pushed.extend(push(&client, 10).await);
        brought += 1;
        let acts = match kill % 4 {
            0 => vec![Act::Deploy(brought)],
            1 => vec![Act::Share(brought)],
            2 => vec![Act::Share(brought), Act::Promote],
            _ => vec![Act::RollBack, Act::Deploy(brought)],
        };
        let decide = tokio::spawn({
            let client = client.clone();
            async move {
                for act in acts {
                    act.ask(&client).await;
                }
            }
        });
        // A push takes some milliseconds: the kill comes before, within and after what is decided.
        pushed.extend(push(&client, random.usize(0..120)).await);
        process.kill();
        decide.await.unwrap();

        let file = std::fs::read(project.handlers().join("puppet.wasm")).unwrap();
        assert!((0..=brought).any(|number| puppet(number) == file), "the file is whole");
    }
    let (_process, client) = served(&project).await;
    let seen = client.get(HANDLER).await.json();
    number(&seen["served"], brought);
    assert!(done(&client, &pushed).await.iter().all(|version| *version <= brought));
    // Nothing of them stands in the way of the next one.
    assert_eq!(Act::Deploy(brought + 1).ask(&client).await, Some(200));
    let last = push(&client, 10).await;
    assert_eq!(done(&client, &last).await, BTreeSet::from([brought + 1]));
    let names: Vec<_> =
        std::fs::read_dir(project.handlers()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["puppet.wasm"], "no half of an upload is left");
    println!("| {kills} kills within deploys | {} jobs acknowledged | 0 lost | yes |", pushed.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_a_file_that_is_killed_within_deploys_loses_nothing() {
    deploys_are_killed(TestProject::new(MANIFEST, &[("puppet", guests::PUPPET)]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_redis_that_is_killed_within_deploys_loses_nothing() {
    deploys_are_killed(TestProject::on_redis(MANIFEST, &[("puppet", guests::PUPPET)]).await).await;
}

/// A runner of a fleet, with a handlers folder of its own.
struct FleetRunner {
    project: TestProject,
    client: HttpClient,
    _process: Process,
}

impl FleetRunner {
    async fn of(redis: &Redis) -> Self {
        let manifest = format!("[store]\nurl = \"{}\"\n{MANIFEST}", redis.url());
        let project = TestProject::new(&manifest, &[("puppet", guests::PUPPET)]).await;
        let (process, client) = served(&project).await;
        Self { project, client, _process: process }
    }

    async fn serves(&self) -> u64 {
        number(&self.client.get(HANDLER).await.json()["served"], 9)
    }

    async fn until_it_serves(&self, version: u64) {
        until(format!("version {version}"), SOON, async || (self.serves().await == version).then_some(())).await;
    }
}

/// A share that one runner alone can try, a file that only another has, a way back that each can go as far as it has the files.
#[tokio::test(flavor = "multi_thread")]
async fn three_runners_whose_folders_differ_do_all_jobs_by_versions_that_they_have() {
    let redis = Redis::start().await;
    let [first, second, third] =
        [FleetRunner::of(&redis).await, FleetRunner::of(&redis).await, FleetRunner::of(&redis).await];
    assert_eq!(Act::Share(1).ask(&first.client).await, Some(200));
    let jobs = push(&first.client, 60).await;
    let versions = done(&first.client, &jobs).await;
    assert!(versions.is_subset(&BTreeSet::from([0, 1])), "{versions:?}");

    // The third knows of a version of which nothing was decided.
    third.project.drop_in("puppet", &puppet(2));
    third.until_it_serves(2).await;
    second.project.drop_in("puppet", &puppet(1));
    let jobs = push(&second.client, 60).await;
    let versions = done(&second.client, &jobs).await;
    assert!(versions.is_subset(&BTreeSet::from([0, 1, 2])), "{versions:?}");

    assert_eq!(Act::Promote.ask(&second.client).await, Some(200));
    for runner in [&first, &second] {
        runner.until_it_serves(1).await;
    }
    assert_eq!(third.serves().await, 2, "its file is none of the two");
    // Back to the first: all have that one.
    let to = json!({ "to": &Version::of(&puppet(0)).digest()[..8] });
    assert_eq!(second.client.post(&format!("{HANDLER}/rollback"), &to).await.status, 200);
    for runner in [&first, &second] {
        runner.until_it_serves(0).await;
    }
    let jobs = push(&third.client, 60).await;
    let versions = done(&third.client, &jobs).await;
    assert!(versions.is_subset(&BTreeSet::from([0, 2])), "{versions:?}");
    let counts = third.client.get("/v1/tenants/default/topics/puppet").await.json();
    assert_eq!((&counts["dead"], &counts["delayed"]), (&json!(0), &json!(0)), "no job has failed");
}
