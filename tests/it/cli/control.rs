//! What people do to jobs and topics while they go on: cancel, pause, resume. On both stores.

use gristmill_tests::guests;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::wait::{SOON, until};
use serde_json::json;

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
    assert_eq!(project.run(&["job", "show", "waits"]).code, 1, "it is gone");
    let view = until("the running one to end", SOON, async || {
        let view = project.run(&["job", "show", "runs", "--json"]).document();
        (view["state"] == "finished").then_some(view)
    })
    .await;
    assert_eq!(view["result"]["outcome"], "cancelled");
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
