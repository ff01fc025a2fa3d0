//! Versions of handlers that are tried on a share of the jobs, promoted, and rolled back.

use std::collections::BTreeMap;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gristmill::job::{Due, JobId};
use gristmill::runner::AttemptRecord;
use gristmill_tests::guests;
use gristmill_tests::http_client::Answer;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::test_runner::{On, TestRunner, spec};
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use puppet::{End, MARKER, Script};
use serde_json::{Value, json};

const PLAIN: &str = "[topics.puppet]\nattempts = 1\nclock = true\n";
const GATED: &str = "[topics.puppet]\nattempts = 1\nfuel = \"50M\"\nclock = true\ngate = true\n";
const HANDLER: &str = "/v1/tenants/default/topics/puppet/handler";

/// The puppet with another version marker: other bytes, the same deeds.
pub(super) fn puppet(version: u64) -> Vec<u8> {
    let mut component = std::fs::read(guests::PUPPET).unwrap();
    let stem = &MARKER[..15];
    let at = component.windows(stem.len()).position(|window| window == stem).expect("the marker is there");
    component[at + 15..at + 25].copy_from_slice(format!("{version:010}").as_bytes());
    component
}

fn script(end: End) -> Vec<u8> {
    Script::end(end).to_json()
}

/// Uploads a version that is to do this share of the jobs.
async fn upload(runner: &TestRunner, version: u64, share: &str) -> Answer {
    let path = format!("{HANDLER}?share={share}%25");
    runner.client().send(Request::put(path).header("content-type", "application/wasm"), puppet(version)).await
}

async fn look(runner: &TestRunner) -> Value {
    runner.client().get(HANDLER).await.json()
}

/// Waits until this is what is known of the topic's handler.
async fn until_known(runner: &TestRunner, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    until(what.to_owned(), SOON, async || Some(look(runner).await).filter(&is_it)).await
}

fn version(wasm: &[u8]) -> String {
    gristmill::runner::Version::of(wasm).to_string()
}

/// Which version served the job's last attempt.
fn served(runner: &TestRunner, job: &JobId) -> String {
    let attempts: Vec<AttemptRecord> = runner.attempts_at(job);
    attempts.last().unwrap().run.unwrap().version.unwrap().to_string()
}

async fn done_by(runner: &TestRunner) -> String {
    let job = runner.push("puppet", &script(End::Complete)).await;
    runner.end_of(&job).await;
    served(runner, &job)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_goes_back_to_the_version_before_and_stays_there() {
    for on in [On::Memory, On::Redis] {
        let mut runner = TestRunner::start_on(on, PLAIN, &[("puppet", guests::PUPPET)]).await;
        let versions = [0, 1, 2].map(|number| version(&puppet(number)));
        let nothing = runner.client().post(&format!("{HANDLER}/rollback"), &json!({})).await;
        assert_eq!((nothing.status, nothing.json()["code"].clone()), (404, json!("handler-unknown")));
        runner.drop_in("puppet", &puppet(1));
        until_known(&runner, "the second version", |seen| seen["served"] == json!(versions[1])).await;

        let begun = Instant::now();
        let back = runner.client().post(&format!("{HANDLER}/rollback"), &json!({})).await;
        assert_eq!((back.status, back.json()["version"].clone()), (200, json!(versions[0])));
        assert_eq!(done_by(&runner).await, versions[0]);
        assert!(begun.elapsed() < SOON);
        let seen = look(&runner).await;
        assert_eq!(seen["deployment"]["other"]["reason"], json!("by operator"));

        // The file in the folder is still the one that was left.
        runner.restart().await;
        assert_eq!(done_by(&runner).await, versions[0]);
        let none = runner.client().post(&format!("{HANDLER}/rollback"), &json!({})).await;
        assert_eq!(none.json()["code"], json!("handler-unknown"), "there is no third one");

        // Another file simply serves, and can be left for each of those before.
        runner.drop_in("puppet", &puppet(2));
        until_known(&runner, "the third version", |seen| seen["served"] == json!(versions[2])).await;
        let to = json!({ "to": versions[1][..6] });
        let back = runner.client().post(&format!("{HANDLER}/rollback"), &to).await;
        assert_eq!(back.json()["version"], json!(versions[1]), "{}", back.text());
        assert_eq!(done_by(&runner).await, versions[1]);
        let unknown = runner.client().post(&format!("{HANDLER}/rollback"), &json!({ "to": "0000" })).await;
        assert_eq!(unknown.status, 404);
        assert!(unknown.text().contains(&versions[2]), "{}", unknown.text());

        // Each that is kept can be had.
        let kept = runner.client().get(&format!("{HANDLER}/versions/{}", &versions[0][..6])).await.json();
        assert_eq!(STANDARD.decode(kept["component"].as_str().unwrap()).unwrap(), puppet(0));
        assert!(kept["digest"].as_str().unwrap().starts_with(&versions[0]), "{kept}");
        for none in ["0000", &versions[0][..3]] {
            let none = runner.client().get(&format!("{HANDLER}/versions/{none}")).await;
            assert_eq!((none.status, none.json()["code"].clone()), (404, json!("handler-unknown")));
            assert!(none.text().contains(&versions[1]), "{}", none.text());
        }
        runner.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_is_of_the_same_jobs_and_keys_and_can_be_promoted() {
    let runner = TestRunner::start(PLAIN, &[("puppet", guests::PUPPET)]).await;
    let (old, new) = (version(&puppet(0)), version(&puppet(1)));
    let bad = upload(&runner, 1, "0").await;
    assert_eq!(bad.status, 400, "{}", bad.text());
    let put = upload(&runner, 1, "30").await;
    assert_eq!(put.status, 200, "{}", put.text());
    let topic = runner.client().get("/v1/tenants/default/topics/puppet").await.json();
    assert_eq!((&topic["version"], &topic["trial"]["version"]), (&json!(old), &json!(new)));
    assert_eq!(topic["trial"]["share"], "30%");
    let mut jobs = Vec::new();
    for number in 0..30 {
        let mut job = spec("puppet", &script(End::Complete));
        job.options.key = (number % 2 == 0).then(|| format!("customer-{}", number % 20));
        jobs.push((job.options.key.clone(), runner.push_job(job, Due::Now).await));
    }
    let mut by_key = BTreeMap::new();
    for (key, job) in &jobs {
        runner.end_of(job).await;
        let by = served(&runner, job);
        assert!(by == new || by == old);
        if let Some(key) = key {
            assert_eq!(by_key.entry(key.clone()).or_insert_with(|| by.clone()), &by, "all jobs of a key");
        }
    }
    let promoted = runner.client().post(&format!("{HANDLER}/promote"), &json!({})).await;
    assert_eq!(promoted.json()["version"], json!(new));
    assert_eq!(done_by(&runner).await, new);
    let nothing = runner.client().post(&format!("{HANDLER}/promote"), &json!({})).await;
    assert_eq!(nothing.status, 404);
    assert!(runner.client().get("/v1/tenants/default/topics/puppet").await.json()["trial"].is_null());
}

/// Pushes jobs until the handler's deployment is like this, and returns it with how many were pushed.
async fn push_until(runner: &TestRunner, is_it: impl Fn(&Value) -> bool) -> (Value, usize) {
    let (mut pushed, begun) = (0, Instant::now());
    loop {
        let seen = look(runner).await;
        if is_it(&seen) {
            return (seen, pushed);
        }
        assert!(begun.elapsed() < SOON, "after {pushed} jobs: {seen}");
        let mut jobs = Vec::new();
        for _ in 0..20 {
            jobs.push(runner.push("puppet", &script(End::Complete)).await);
        }
        for job in &jobs {
            runner.end_of(job).await;
        }
        pushed += jobs.len();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gated_topic_tries_a_new_file_and_rolls_a_worse_one_back_by_the_rule_that_it_breaks() {
    for (bad, rule) in [(7_777_777_777, "traps: "), (8_888_888_888, "traps: "), (9_999_999_999, "fuel: ")] {
        let runner = TestRunner::start(GATED, &[("puppet", guests::PUPPET)]).await;
        let old = version(&puppet(0));
        until_known(&runner, "the first to be taken", |seen| seen["deployment"]["stable"].is_string()).await;
        runner.drop_in("puppet", &puppet(bad));
        until_known(&runner, "it to be tried", |seen| seen["deployment"]["other"]["share"] == json!(500)).await;
        let rolled_back = |seen: &Value| seen["deployment"]["other"]["share"] == json!(0);
        let (seen, _) = push_until(&runner, rolled_back).await;
        let reason = seen["deployment"]["other"]["reason"].as_str().unwrap();
        assert!(reason.starts_with(rule), "{reason}");
        assert_eq!(seen["served"], json!(old));
        // What it parked is done by the version before.
        until("its jobs to be done", SOON, async || {
            let counts: Value = runner.client().get("/v1/tenants/default/topics/puppet").await.json();
            ["dead", "ready", "running"].iter().all(|state| counts[state] == json!(0)).then_some(())
        })
        .await;
        assert_eq!(done_by(&runner).await, old);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gated_topic_keeps_what_is_to_do_all_jobs_and_goes_back_to_what_did_them() {
    let runner = TestRunner::start(GATED, &[("puppet", guests::PUPPET)]).await;
    let versions = [0, 1, 2].map(|number| version(&puppet(number)));
    until_known(&runner, "the first to be taken", |seen| seen["deployment"]["stable"].is_string()).await;
    for number in [1, 2] {
        let put = upload(&runner, number, "100").await;
        assert_eq!(put.status, 200, "{}", put.text());
        assert_eq!(done_by(&runner).await, versions[usize::try_from(number).unwrap()]);
        let seen = look(&runner).await;
        assert!(seen["deployment"]["other"].is_null(), "nothing is tried: {seen}");
        // The second time: not to the one that was rolled back before.
        let back = runner.client().post(&format!("{HANDLER}/rollback"), &json!({})).await;
        assert_eq!(back.json()["version"], json!(versions[0]), "{}", back.text());
        assert_eq!(done_by(&runner).await, versions[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_no_worse_is_promoted_after_a_hundred_attempts() {
    let runner = TestRunner::start(PLAIN, &[("puppet", guests::PUPPET)]).await;
    let put = upload(&runner, 1, "50").await;
    assert_eq!(put.status, 200, "{}", put.text());
    let (seen, pushed) = push_until(&runner, |seen| seen["deployment"]["other"].is_null()).await;
    assert_eq!(seen["served"], json!(version(&puppet(1))));
    assert!(pushed >= 100, "after {pushed} jobs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deploy_says_first_what_becomes_of_a_trial() {
    let shared = format!("{PLAIN}[topics.doll]\nhandler = \"puppet\"\nclock = true\n");
    let project = TestProject::new(&shared, &[("puppet", guests::PUPPET)]).await;
    let _server = project.serve().await;
    let file = |number: u64| {
        let file = project.manifest().with_file_name(format!("{number}.wasm"));
        std::fs::write(&file, puppet(number)).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let deploy = |number: u64, share: &str| {
        let said = project.run(&["deploy", "puppet", &file(number), "--share", share, "--replay", "0", "--yes"]);
        (said.ended(0).err.clone(), said.text())
    };
    let trial = || {
        let topics = project.run(&["topics", "--json"]).ended(0).documents();
        topics.into_iter().find(|topic| topic["topic"] == "puppet").unwrap()["trial"].clone()
    };
    let [old, new, third] = [0, 1, 2].map(|number| version(&puppet(number)));
    let (before, after) = deploy(0, "20%");
    assert!(before.contains(&format!("{old}, which serves already")) && before.contains("100%"), "{before}");
    assert!(after.contains(&format!("`puppet` is done by version {old}")), "{after}");

    let (before, after) = deploy(1, "30%");
    assert!(before.contains(&format!("{new}, in place of {old}")) && !before.contains("trial"), "{before}");
    assert!(after.contains(&format!("version {new} does 30% of `puppet`")), "{after}");
    assert!(before.contains("`doll`: the handler is the same"), "{before}");
    let listed = project.run(&["topics"]).ended(0).text();
    assert!(listed.contains(&format!("puppet {old}")), "{listed}");
    assert!(listed.contains(&format!("tries {new} on 30% of the jobs")), "{listed}");
    assert_eq!(trial()["version"], json!(new));
    let why = project.run(&["topics", "why", "puppet"]).ended(0).text();
    assert!(why.contains(&format!("running), and tries {new} on 30% of the jobs")), "{why}");
    let (before, _) = deploy(1, "40%");
    assert!(
        before.contains(&format!("{new}, which is tried on 30% of the jobs already, in place of {old}")),
        "{before}"
    );
    let (before, after) = deploy(2, "10%");
    assert!(before.contains(&format!("ends the trial of {new} on 40% of the jobs")), "{before}");
    assert!(after.contains(&format!("version {third} does 10%")), "{after}");
    let (before, after) = deploy(0, "20%");
    assert!(before.contains("which serves already") && before.contains("100%"), "{before}");
    assert!(before.contains(&format!("ends the trial of {third} on 10% of the jobs")), "{before}");
    assert!(after.contains(&format!("`puppet` is done by version {old}")), "{after}");
    assert!(trial().is_null());
}
