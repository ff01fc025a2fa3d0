//! What people do to jobs and topics while they go on: cancel, pause, resume, purge. On both stores.

use gristmill_tests::guests;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

const MANIFEST: &str = "[topics.puppet]\nattempts = 1\ntimeout = \"10m\"";
const HANDLERS: [(&str, &str); 2] = [("echo", guests::ECHO), ("puppet", guests::PUPPET)];

async fn cancelled_while_waiting_and_while_running(project: TestProject) {
    let script = r#"{"do": ["wait-until-cancelled", {"end": {"retry": {"code": "given-up"}}}]}"#;
    let _runner = project.serve().await;
    project.run(&["push", "puppet", "--id", "runs", "--data", script, "--keep-result", "1h"]).done();
    project.run(&["push", "echo", "--id", "waits", "--delay", "1h"]).done();
    let state = |id: &str| project.run(&["job", "show", id, "--json"]).document()["state"].clone();
    until("the job to run", SOON, async || (state("runs") == "running").then_some(())).await;

    let said = project.run(&["job", "cancel", "runs", "waits", "nobody", "--json"]);
    let documents = said.ended(1).documents();
    let expected = [("runs", "stopping"), ("waits", "cancelled"), ("nobody", "too-late")];
    assert_eq!(documents, expected.map(|(id, status)| json!({"id": id, "tenant": "default", "status": status})));
    assert!(project.run(&["job", "show", "waits"]).done().contains("finished: cancelled at "));
    let view = until("the running one to end", SOON, async || {
        let view = project.run(&["job", "show", "runs", "--json"]).document();
        (view["state"] == "finished").then_some(view)
    })
    .await;
    assert_eq!(view["result"]["outcome"], "cancelled");

    let script = r#"{"do": [{"end": "infinite-loop"}]}"#;
    project.run(&["push", "puppet", "--id", "loops", "--data", script, "--keep-result", "1h"]).done();
    until("the job to run", SOON, async || (state("loops") == "running").then_some(())).await;
    let said = project.run(&["job", "cancel", "--kill", "loops"]);
    assert!(said.done().contains("its runner ends the attempt now"));
    until("the killed one to end", SOON, async || (state("loops") == "finished").then_some(())).await;
    let said = project.run(&["job", "cancel", "nobody"]);
    assert!(said.ended(1).err.contains("unknown"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_cancelled_wherever_they_are() {
    cancelled_while_waiting_and_while_running(TestProject::new(MANIFEST, &HANDLERS).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_cancelled_wherever_they_are_in_redis() {
    cancelled_while_waiting_and_while_running(TestProject::on_redis(MANIFEST, &HANDLERS).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_that_takes_a_topic_takes_its_tenant_before_it_or_as_an_option() {
    let project = TestProject::new(MANIFEST, &HANDLERS).await;
    let _runner = project.serve().await;
    let look: [&[&str]; 7] = [
        &["topics", "why", "T"],
        &["topics", "purge", "T"],
        &["dead", "list", "T"],
        &["dead", "show", "T", "nobody"],
        &["state", "show", "T", "key"],
        &["schedule", "show", "T", "nightly"],
        &["attempts", "--topic", "T", "--json"],
    ];
    let change: [&[&str]; 6] = [
        &["push", "T", "--data", "x"],
        &["pause", "T"],
        &["resume", "T"],
        &["dead", "respawn", "T", "--all"],
        &["dead", "delete", "T", "nobody"],
        &["stats", "--history", "--json", "--topic", "T"],
    ];
    let with = |command: &[&str], topic: &str, tenant: &[&str]| {
        let words: Vec<_> = command.iter().map(|word| if *word == "T" { topic } else { word }).collect();
        project.run(&[&words, tenant].concat())
    };
    for command in look.iter().chain(&change) {
        let said = with(command, "acme/echo", &["--tenant", "other"]);
        assert!(
            said.ended(2).err.contains("belongs to another tenant than --tenant other"),
            "{command:?}: {}",
            said.err
        );
    }
    for command in look {
        let one = with(command, "acme/echo", &[]);
        let other = with(command, "echo", &["--tenant", "acme"]);
        assert_eq!((one.code, one.out, one.err), (other.code, other.out, other.err), "{command:?}");
    }
    assert_eq!(with(&["pause", "T"], "echo", &["--tenant", "acme"]).done(), "`acme/echo` is paused\n");
}

/// By the store itself, and by its server.
async fn drawn_and_cancelled_with_all_that_waits(project: TestProject) {
    let push = |id: &str, options: &[&str]| {
        project.run(&[&["push", "nobody", "--data", "x", "--id", id], options].concat()).done();
    };
    let mut server = None;
    for _ in 0..2 {
        push("all", &["--open"]);
        push("one", &["--batch", "all"]);
        push("two", &["--batch", "all"]);
        push("then", &["--after", "all"]);
        let drawn = project.run(&["job", "graph", "all"]).done().to_owned();
        let expected = "all nobody waiting: 0 of 2 ended; open\n  waits for\n    one nobody ready\n    two nobody ready\n  \
                        is waited for by\n    then nobody waiting: 0 of 1 ended\n";
        assert_eq!(drawn, expected);
        let document = project.run(&["job", "graph", "all", "--limit", "2", "--json"]).ended(0).document();
        assert_eq!((document["nodes"].as_array().unwrap().len(), &document["cut"]), (2, &json!(true)));
        assert_eq!(project.run(&["job", "cancel", "all", "--tree"]).done(), "job all: 4 cancelled\n");
        for (id, why) in [("all", "is finished, and no batch that waits"), ("none", "is not known to tenant")] {
            let said = project.run(&["job", "seal", id]);
            assert!(said.ended(1).err.starts_with(&format!("job {id} {why}")), "{}", said.err);
        }
        let again = project.run(&["job", "cancel", "all", "--tree"]);
        assert!(again.ended(1).err.contains("dead, over or unknown"), "{}", again.err);
        assert!(project.run(&["job", "graph", "all"]).ended(1).err.contains("is not known"));
        if server.is_none() {
            server = Some(project.serve().await);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_of_jobs_is_drawn_and_cancelled() {
    drawn_and_cancelled_with_all_that_waits(TestProject::new(MANIFEST, &HANDLERS).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_of_jobs_is_drawn_and_cancelled_in_redis() {
    drawn_and_cancelled_with_all_that_waits(TestProject::on_redis(MANIFEST, &HANDLERS).await).await;
}

async fn changed_while_waiting(project: TestProject) {
    project.run(&["push", "echo", "--id", "j", "--data", "x", "--delay", "1h", "--keep-result", "1h"]).done();
    let priority = |of: &str| project.run(&["job", "show", of, "--json"]).document()["job"]["priority"].clone();
    let said = project.run(&["job", "change", "j", "nobody", "--priority", "high", "--delay", "2h", "--json"]);
    let expected = [("j", "changed"), ("nobody", "too-late")];
    let expected = expected.map(|(id, status)| json!({"id": id, "tenant": "default", "status": status}));
    assert_eq!(said.ended(1).documents(), expected);
    assert_eq!(priority("j"), "high");
    let _runner = project.serve().await;
    assert_eq!(project.run(&["job", "change", "j", "--now"]).done(), "job j is changed\n");
    until("the job to be done", SOON, async || {
        (project.run(&["job", "show", "j", "--json"]).document()["state"] == "finished").then_some(())
    })
    .await;
    assert!(project.run(&["job", "change", "j", "--now"]).ended(1).err.contains("over"));
    for wrong in [&["job", "change", "j"][..], &["job", "change", "j", "--now", "--delay", "1s"]] {
        assert_eq!(project.run(wrong).code, 2, "{wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_jobs_are_changed() {
    changed_while_waiting(TestProject::new(MANIFEST, &HANDLERS).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_jobs_are_changed_in_redis() {
    changed_while_waiting(TestProject::on_redis(MANIFEST, &HANDLERS).await).await;
}

async fn paused_and_resumed(project: TestProject) {
    let _runner = project.serve().await;
    assert_eq!(project.run(&["pause", "echo"]).done(), "`echo` is paused\n");
    assert_eq!(project.run(&["pause", "echo"]).done(), "`echo` is already paused\n");
    project.run(&["push", "echo", "--id", "j", "--data", "x", "--keep-result", "1h"]).done();
    // Another topic's job that was pushed later is done before: the runner had its chance.
    project.run(&["push", "puppet", "--data", r#"{"do": []}"#, "--wait"]).done();
    assert_eq!(project.run(&["job", "show", "j", "--json"]).document()["state"], "ready");
    assert!(project.run(&["stats"]).done().contains("echo (paused)"));
    assert!(project.run(&["topics"]).done().contains("echo (paused)"));

    let document = project.run(&["resume", "echo", "--json"]).ended(0).document();
    assert_eq!(document, json!({"tenant": "default", "topic": "echo", "paused": false, "changed": true}));
    until("the job to be done", SOON, async || {
        (project.run(&["job", "show", "j", "--json"]).document()["state"] == "finished").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_topic_waits_until_it_is_resumed() {
    paused_and_resumed(TestProject::new(MANIFEST, &HANDLERS).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_topic_waits_until_it_is_resumed_in_redis() {
    paused_and_resumed(TestProject::on_redis(MANIFEST, &HANDLERS).await).await;
}

async fn said_by_whom(project: TestProject) {
    project.run(&["push", "echo", "--id", "j", "--data", "x"]).done();
    project.run(&["pause", "echo"]).done();
    let said = project.run(&["topic", "why", "echo"]).done().to_owned();
    assert!(said.contains("it was paused by command line ("), "{said}");
    let pause = project.run(&["stats", "--json"]).ended(0).document()["pause"].clone();
    assert!(pause["by"].as_str().is_some_and(|by| by.starts_with("command line (")), "{pause}");
    let _runner = project.serve().await;
    for command in [["topic", "why", "echo"], ["job", "why", "j"]] {
        let said = project.run(&command).done().to_owned();
        assert!(said.contains("was paused by command line (") && said.contains("`gristmill resume echo`"), "{said}");
    }
    project.run(&["resume", "echo"]).done();
    project.run(&["pause", "echo"]).done();
    let said = project.run(&["topic", "why", "echo"]).done().to_owned();
    let by = if project.redis.is_some() { "command line (" } else { "operator" };
    assert!(said.contains(&format!("was paused by {by}")), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_paused_a_topic_is_said() {
    said_by_whom(TestProject::new(MANIFEST, &HANDLERS).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_paused_a_topic_is_said_in_redis() {
    said_by_whom(TestProject::on_redis(MANIFEST, &HANDLERS).await).await;
}

async fn purged(project: TestProject) {
    let _runner = project.serve().await;
    for (topic, more) in [("ecoh", None), ("ecoh", Some("--delay=1h")), ("acme/echo", None)] {
        project.run(&["push", topic, "--data", "x"].into_iter().chain(more).collect::<Vec<_>>()).done();
    }
    let said = project.run(&["topics", "purge", "ecoh"]);
    assert_eq!(said.ended(1).text(), "would remove 1 ready, 1 delayed and 0 dead jobs of `ecoh`, and the topic\n");
    assert!(said.err.contains("nothing was removed: add --yes"), "{}", said.err);
    let listed = || project.run(&["topics", "--json"]).documents();
    let ecoh = |document: &Value| document["topic"] == "ecoh";
    assert_eq!(
        listed().iter().find(|document| ecoh(document)).map(|document| document["ready"].clone()),
        Some(json!(1))
    );

    let document = project.run(&["topics", "purge", "--unknown", "--yes", "--json"]).ended(0).document();
    let expected = json!({
        "tenant": "default", "topic": "ecoh", "status": "purged",
        "ready": 1, "delayed": 1, "running": 0, "dead": 0, "removed": 2,
    });
    assert_eq!(document, expected, "and nothing of a tenant that the manifest does not name");
    assert!(!listed().iter().any(ecoh));
    let said = project.run(&["topics", "purge", "--unknown"]);
    let left_alone = "the manifest does not name the tenants of acme/echo: these topics are left alone; `gristmill topics purge acme/echo` removes \
                      one\nthere are no unknown topics of tenants that the manifest names\n";
    assert_eq!((said.done().as_str(), said.err.as_str()), ("", left_alone));
    let said = project.run(&["topics", "purge", "ecoh"]);
    assert!(said.ended(1).err.contains("the store holds nothing of a topic `ecoh`"), "{}", said.err);
    assert_eq!(project.run(&["topics", "purge"]).code, 2, "it says what to purge");

    let script = r#"{"do": ["wait-until-cancelled"]}"#;
    project.run(&["push", "puppet", "--id", "runs", "--data", script]).done();
    until("the job to run", SOON, async || {
        (project.run(&["job", "show", "runs", "--json"]).document()["state"] == "running").then_some(())
    })
    .await;
    let said = project.run(&["topics", "purge", "puppet", "--yes"]);
    assert!(said.ended(1).err.contains("`puppet` has 1 running job: "), "{}", said.err);
    project.run(&["job", "cancel", "runs"]).done();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_purged() {
    purged(TestProject::new(MANIFEST, &HANDLERS).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_purged_in_redis() {
    purged(TestProject::on_redis(MANIFEST, &HANDLERS).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_commands_do_without_a_server_is_in_the_audit_log() {
    let project = TestProject::on_redis(&format!("[audit]\npath = \"audit.jsonl\"\n{MANIFEST}"), &HANDLERS).await;
    project.run(&["push", "echo", "--id", "victim", "--data", "x", "--delay", "1h"]).ended(0);
    project.run(&["job", "cancel", "victim"]).done();
    project.run(&["pause", "echo"]).done();
    project.run(&["stats"]).done();
    let log = std::fs::read_to_string(project.manifest().with_file_name("audit.jsonl")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = |line: &Value| json!([line["method"], line["route"], line["object"], line["status"]]);
    let expected = [
        json!(["COMMAND", "job cancel", { "ids": "victim" }, 200]),
        json!(["COMMAND", "pause", { "topic": "echo" }, 200]),
    ];
    assert_eq!(lines.iter().map(said).collect::<Vec<_>>(), expected, "and nothing of who pushes or looks");
    assert!(lines[0]["actor"].as_str().unwrap().starts_with("command line ("), "{log}");
}
