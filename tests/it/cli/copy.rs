//! `store move`: every waiting, delayed and dead job goes along, however often the move is killed.

use gristmill::runner::Version;
use gristmill::store::TopicCounts;
use gristmill::store::prelude::*;
use gristmill::store::redis::RedisStore;
use gristmill_tests::guests;
use gristmill_tests::redis::Redis;
use gristmill_tests::test_project::{Said, TestProject};
use gristmill_tests::test_runner::tenant;
use gristmill_tests::wait::{SOON, until};
use serde_json::{Value, from_value, json};

const MANIFEST: &str = "[defaults]\nattempts = 1\ntimeout = \"10m\"\n[topics.parking]\nhandler = \"nobody\"";
/// Several batches.
const MANY: u64 = 3000;
const KILLS: usize = 3;
/// Copies that may be over before they are killed.
const TOO_LATE: usize = 20;

async fn project() -> TestProject {
    TestProject::new(MANIFEST, &[("puppet", guests::PUPPET)]).await
}

fn file(project: &TestProject) -> String {
    format!("sqlite:{}", project.file().display())
}

fn copy(project: &TestProject, from: &str, to: &str, options: &[&str]) -> Said {
    project.run(&[&["store", "move", "--from", from, "--to", to], options].concat())
}

/// What a store holds of each job that could tell a difference.
fn views(project: &TestProject, store: &str) -> Vec<Value> {
    let show = |id: &str| {
        let mut view = project.run(&["--store", store, "job", "show", id, "--json"]).ended(0).document();
        view.as_object_mut().unwrap().remove("result");
        view
    };
    ["high", "low", "delayed", "dead"].map(show).into()
}

fn counts_of(documents: &[Value], topic: &str) -> [u64; 4] {
    let counts = documents.iter().find(|document| document["topic"] == topic).unwrap();
    ["ready", "delayed", "running", "dead"].map(|place| counts[place].as_u64().unwrap())
}

fn stats(project: &TestProject, store: &str) -> Vec<Value> {
    project.run(&["--store", store, "stats", "--json"]).ended(0).documents()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_go_to_redis_and_back_as_they_are() {
    let (project, redis) = (project().await, Redis::start().await);
    let (file, redis) = (file(&project), redis.url());
    let runner = project.serve().await;
    let panic = r#"{"do": [{"end": {"panic": "on fire"}}]}"#;
    project.run(&["push", "puppet", "--id", "dead", "--data", panic, "--wait"]).ended(4);
    // The runner adds to the bill once a second.
    let bill = |store: &str| project.run(&["--store", store, "bill", "--json"]).ended(0).documents();
    until("the bill", SOON, async || (!bill(&file).is_empty()).then_some(())).await;
    drop(runner);
    project.run(&["push", "parking", "--id", "low", "--priority", "low", "--unique", "u", "--data", "x"]).done();
    project.run(&["push", "parking", "--id", "high", "--priority", "high", "--meta", "a=b", "--ttl", "1d"]).done();
    project.run(&["push", "parking", "--id", "delayed", "--delay", "1h", "--key", "k"]).done();
    let before = views(&project, &file);
    let costs = bill(&file);

    let plan = copy(&project, &file, &redis, &["--dry-run"]);
    assert!(plan.done().contains("\n0 schedules, 0 states of keys, 1 line of bills, "), "{}", plan.text());
    assert!(plan.text().contains("recordings and how finished jobs ended stay"), "{}", plan.text());
    let said = copy(&project, &file, &redis, &[]);
    assert!(said.done().contains("\nmoved 4 jobs\nmoved 1 line of bills\n"), "{}", said.text());
    assert_eq!((bill(&redis), bill(&file).len()), (costs, 0));
    assert!(said.text().contains("parking: moved 2 ready, 1 delayed, 0 dead\n"), "{}", said.text());
    assert_eq!(views(&project, &redis), before);
    assert_eq!(counts_of(&stats(&project, &file), "parking"), [0; 4]);
    let held = project.run(&["--store", &redis, "push", "parking", "--unique", "u", "--json"]).document();
    assert_eq!((&held["status"], &held["id"]), (&json!("duplicate"), &json!("low")), "its value went along");

    let documents = copy(&project, &redis, &file, &["--json"]).ended(0).documents();
    let moved = |topic: &str| documents.iter().find(|document| document["topic"] == topic).unwrap().clone();
    assert_eq!((&moved("parking")["ready"], &moved("parking")["delayed"]), (&json!(2), &json!(1)));
    assert_eq!((&moved("puppet")["dead"], &moved("puppet")["paused"]), (&json!(1), &json!(false)));
    assert_eq!(views(&project, &file), before);
    assert_eq!(copy(&project, &redis, &file, &[]).done().lines().last(), Some("moved 0 jobs"));
}

async fn in_redis(store: &RedisStore) -> Option<TopicCounts> {
    store.counts(&tenant()).await.unwrap().into_iter().find(|counts| counts.topic.topic.as_str() == "parking")
}

fn push_many(project: &TestProject, store: &str) {
    project.run(&["--store", store, "push", "parking", "--data", "x", "--count", &MANY.to_string()]).done();
}

/// Copies, and is killed each time Redis holds another number of jobs than at first; then copies to the end. A copy that
/// was over before gets more to do. How many jobs that were in all.
async fn copy_with_kills(project: &TestProject, redis: &Redis, from: &str, to: &str) -> u64 {
    let store = RedisStore::connect(&redis.url(), "gm").await.unwrap();
    let ready = async || in_redis(&store).await.map_or(0, |counts| counts.ready);
    push_many(project, from);
    let (mut jobs, mut interrupted, mut too_late) = (MANY, 0, 0);
    while interrupted < KILLS {
        let before = ready().await;
        let mut copying = project.spawn(&["store", "move", "--from", from, "--to", to]);
        until("some to be moved", SOON, async || {
            (ready().await != before || copying.try_wait().unwrap().is_some()).then_some(())
        })
        .await;
        drop(copying.kill());
        copying.wait().unwrap();
        if (1..jobs).contains(&ready().await) {
            interrupted += 1;
        } else {
            too_late += 1;
            assert!(too_late < TOO_LATE, "copies are over before they are killed");
            push_many(project, from);
            jobs += MANY;
        }
    }
    copy(project, from, to, &[]).done();
    jobs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_to_redis_that_is_killed_loses_and_doubles_nothing() {
    let (project, redis) = (project().await, Redis::start().await);
    let (file, url) = (file(&project), redis.url());
    let jobs = copy_with_kills(&project, &redis, &file, &url).await;
    assert_eq!(counts_of(&stats(&project, &file), "parking"), [0; 4]);
    assert_eq!(counts_of(&stats(&project, &url), "parking"), [jobs, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_out_of_redis_that_is_killed_loses_and_doubles_nothing() {
    let (project, redis) = (project().await, Redis::start().await);
    let (file, url) = (file(&project), redis.url());
    let jobs = copy_with_kills(&project, &redis, &url, &file).await;
    assert_eq!(counts_of(&stats(&project, &file), "parking"), [jobs, 0, 0, 0]);
    assert_eq!(counts_of(&stats(&project, &url), "parking"), [0; 4]);
    for store in [&url, &file] {
        let paused = stats(&project, store).iter().any(|counts| counts["paused"] == json!(true));
        assert!(!paused, "no operator has paused it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_a_server_is_not_copied() {
    let (project, redis) = (project().await, Redis::start().await);
    let runner = project.serve().await;
    for (from, to) in [(file(&project), redis.url()), (redis.url(), file(&project))] {
        let said = copy(&project, &from, &to, &[]);
        let pid = format!("process {}", runner.pid());
        assert!(said.ended(3).err.contains("end its server first") && said.err.contains(&pid), "{}", said.err);
    }
    drop(runner);
    for (from, to) in [("sqlite::memory:", "sqlite:b.db"), ("sqlite:b.db", "sqlite:b.db"), ("x", "sqlite:b.db")] {
        copy(&project, from, to, &[]).ended(2);
    }
    let (path, folder) = (project.file(), project.file().parent().unwrap().to_owned());
    let same = folder.join("..").join(folder.file_name().unwrap()).join(path.file_name().unwrap());
    let said = copy(&project, &file(&project), &format!("sqlite:{}", same.display()), &[]);
    assert!(said.ended(2).err.contains("the same store"), "{}", said.err);
    let misspelt = copy(&project, &file(&project), &redis.url(), &["--tenant", "defualt"]);
    assert!(misspelt.ended(0).err.contains("the old store has no jobs of a tenant `defualt`"), "{}", misspelt.err);
    let said = copy(&project, "sqlite:nowhere.db", &redis.url(), &[]);
    assert!(said.ended(1).err.contains("there is no store at nowhere.db"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn running_jobs_stay_and_are_named() {
    let project = TestProject::on_redis(MANIFEST, &[("puppet", guests::PUPPET)]).await;
    let redis = project.redis.as_ref().unwrap().url();
    let _runner = project.serve().await;
    let sleeper = r#"{"do": [{"sleep-ms": 3600000}]}"#;
    project.run(&["push", "puppet", "--id", "runs", "--data", sleeper]).done();
    until("the job to run", SOON, async || {
        (project.run(&["job", "show", "runs", "--json"]).document()["state"] == "running").then_some(())
    })
    .await;
    project.run(&["push", "puppet", "--id", "waits", "--delay", "1h"]).done();
    let refused = copy(&project, &redis, &file(&project), &[]);
    assert!(
        refused.ended(1).err.contains("`puppet`: 1 running") && refused.err.contains("nothing was moved"),
        "{}",
        refused.err
    );
    copy(&project, &redis, &file(&project), &["--dry-run"]).ended(1);
    assert_eq!(counts_of(&stats(&project, &redis), "puppet"), [0, 1, 1, 0]);
    let said = copy(&project, &redis, &file(&project), &["--keep-paused", "--leave-behind"]);
    let expected = "puppet: moved 0 ready, 1 delayed, 0 dead; 1 still running, left in the old store";
    assert!(said.done().contains(expected), "{}", said.text());
    assert!(said.text().contains("gristmill resume puppet"), "{}", said.text());
    assert_eq!(counts_of(&stats(&project, &redis), "puppet"), [0, 0, 1, 0]);
    assert_eq!(counts_of(&stats(&project, &file(&project)), "puppet"), [0, 1, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_limits_and_pauses_go_along() {
    let (project, redis) = (project().await, Redis::start().await);
    let create = ["token", "create", "--tenant", "acme", "--scope", "read", "--requests-per-second", "5"];
    project.run(&create).done();
    let gone = project.run(&["token", "create", "--all-tenants", "--scope", "read", "--json"]).document();
    project.run(&["token", "revoke", gone["id"].as_str().unwrap()]).done();
    project.run(&["push", "parking", "--id", "low", "--data", "x"]).done();
    project.run(&["push", "puppet", "--id", "high", "--data", "x"]).done();
    project.run(&["pause", "parking"]).done();
    let (from, to) = (file(&project), redis.url());
    project.run(&["schedule", "set", "parking", "nightly", "--cron", "0 3 * * *"]).done();
    let decided = |version: &[u8]| json!({ "generation": 1, "stable": Version::of(version), "other": null });
    let (topic, mail) = ("parking".parse().unwrap(), "mail".parse().unwrap());
    let old = project.store_at_rest().await;
    for topic in [&topic, &mail] {
        assert!(old.write_deployment(topic, &from_value(decided(b"old")).unwrap()).await.unwrap());
    }
    drop(old);
    let store = RedisStore::connect(&to, "gm").await.unwrap();
    assert!(store.write_deployment(&mail, &from_value(decided(b"new")).unwrap()).await.unwrap());
    let plan = copy(&project, &from, &to, &["--dry-run", "--json"]).ended(0).documents().pop().unwrap();
    assert_eq!(["tokens", "schedules", "deployments"].map(|what| plan[what].as_u64()), [1, 1, 2].map(Some));
    let copied = copy(&project, &from, &to, &[]);
    assert!(copied.done().contains("copied 1 token"), "{}", copied.text());
    let deployments = store.deployments().await.unwrap();
    assert_eq!([&topic, &mail].map(|topic| deployments[topic].stable), [b"old", b"new"].map(|text| Version::of(text)));
    let tokens = |store: &str| {
        let mut tokens = project.run(&["--store", store, "token", "list", "--json"]).ended(0).documents();
        tokens.iter_mut().for_each(|token| _ = token.as_object_mut().unwrap().remove("created_at_ms"));
        tokens
    };
    assert_eq!(tokens(&to), tokens(&from));
    let paused: Vec<_> = stats(&project, &to).iter().map(|line| line["paused"].as_bool().unwrap()).collect();
    assert_eq!(paused, [true, false], "parking and puppet");
    let by = |store: &str, place: usize| stats(&project, store)[place]["pause"]["by"].as_str().map(str::to_owned);
    assert!(by(&to, 0).unwrap().starts_with("command line ("), "{:?}", by(&to, 0));
    assert_eq!((by(&to, 0), by(&to, 1)), (by(&from, 0), None), "who paused it before");
    // Also when all are revoked, a server on the new store asks for tokens.
    assert_eq!(store.token_requirement().await.unwrap(), gristmill::token::TokenRequirement::Required);
}

/// What was promised for jobs that are over moves: a repeated push is not stored again, and their results can be read.
#[tokio::test(flavor = "multi_thread")]
async fn promises_of_jobs_that_are_over_go_along() {
    let (project, redis) = (project().await, Redis::start().await);
    let (file, redis) = (file(&project), redis.url());
    let once = ["push", "puppet", "--id", "once", "--unique", "u", "--unique-for", "1h", "--keep-result", "1h"];
    let runner = project.serve().await;
    let push = [&once[..], &["--data", r#"{"do": [{"end": {"text": "at last"}}]}"#, "--wait"]].concat();
    assert_eq!(project.run(&push).done(), "at last");
    drop(runner);
    let result =
        |store: &str| project.run(&["--store", store, "job", "show", "once", "--json"]).document()["result"].clone();
    let kept = result(&file);
    assert!(!kept.is_null());
    for (from, to) in [(&file, &redis), (&redis, &file)] {
        let plan = copy(&project, from, to, &["--dry-run"]);
        assert!(plan.done().contains("puppet: 0 jobs, 1 unique value"), "{}", plan.text());
        let said = copy(&project, from, to, &[]);
        assert!(said.done().contains("moved 1 unique value of jobs that are over"), "{}", said.text());
        let again =
            project.run(&["--store", to, "push", "puppet", "--unique", "u", "--json", "--data", "x"]).document();
        assert_eq!((&again["status"], &again["id"]), (&json!("duplicate"), &json!("once")));
        assert_eq!(result(to), kept);
        assert!(!copy(&project, from, to, &[]).done().contains("unique value"), "it moved once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_survives_a_move_that_is_killed() {
    let (project, redis) = (project().await, Redis::start().await);
    let (file, url) = (file(&project), redis.url());
    project.run(&["--store", &file, "push", "parking", "--data", "x"]).done();
    project.run(&["pause", "parking"]).done();
    copy_with_kills(&project, &redis, &file, &url).await;
    assert_eq!(stats(&project, &url)[0]["paused"], json!(true));
}

/// It is stored, and no claim and no export finds it.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_stands_in_no_line_is_named_before_anything_is_moved() {
    let (project, redis) = (project().await, Redis::start().await);
    let (file, redis) = (file(&project), redis.url());
    project.run(&["push", "parking", "--id", "lost", "--data", "x"]).done();
    let passed_over = "UPDATE topics SET claimed_normal = (SELECT number FROM job_rows) WHERE topic = 'parking'";
    rusqlite::Connection::open(project.file()).unwrap().execute_batch(passed_over).unwrap();
    project.run(&["push", "parking", "--id", "sound", "--data", "x"]).done();
    let lost = "`default/parking`: 1 job that stands in no line, lost first: `gristmill fsck` says what to do\n";
    let plan = copy(&project, &file, &redis, &["--dry-run"]);
    assert!(plan.ended(1).text().ends_with(&format!("cannot be moved: {lost}")), "{}", plan.text());
    let refused = copy(&project, &file, &redis, &[]);
    assert!(refused.ended(1).err.contains(lost), "{}", refused.err);
    let moved = copy(&project, &file, &redis, &["--leave-behind"]);
    assert!(moved.done().ends_with(&format!("stays in the old store: {lost}moved 1 job\n")), "{}", moved.text());
}
