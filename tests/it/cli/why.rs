//! `job why` and `topic why`: with a server and without one, beside other runners and without any.

use gristmill_tests::guests;
use gristmill_tests::process::command;
use gristmill_tests::test_project::{FREE_PORT, TestProject};
use gristmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

use super::build::listen_somewhere;

/// What a command in another folder says, which has no handlers, with `http` in its manifest.
fn elsewhere(project: &TestProject, http: &str, arguments: &[&str]) -> Value {
    let folder = project.manifest().with_file_name("elsewhere");
    std::fs::create_dir_all(&folder).unwrap();
    let other = folder.join("gristmill.toml");
    let url = project.redis.as_ref().unwrap().url();
    std::fs::write(&other, format!("[store]\nurl = \"{url}\"\n{http}[topics.echo]\n")).unwrap();
    let ended = command(&other).args(arguments).arg("--json").output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    serde_json::from_slice(&ended.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_runner_a_job_waits_for_one() {
    let handlers = [("echo", guests::ECHO)];
    let (file, redis) =
        (TestProject::new("[topics.echo]", &handlers).await, TestProject::on_redis("[topics.echo]", &handlers).await);
    for project in [file, redis] {
        project.run(&["push", "echo", "--id", "waits", "--data", "x"]).done();
        let why = project.run(&["job", "why", "waits", "--json"]).document();
        assert_eq!((&why["reason"], &why["idle"]["reason"]), (&json!("topic-idle"), &json!("no-runner")), "{why}");
        let said = "ready: it is the first in line, and no runner is alive: `gristmill run` starts one\n";
        assert_eq!(project.run(&["job", "why", "waits"]).done(), said);
        let said =
            "`echo` begins no job: no runner is alive: `gristmill run` starts one (1 ready, 0 delayed, 0 running)\n";
        assert_eq!(project.run(&["topic", "why", "echo"]).done(), said);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_other_runners_a_missing_handler_is_missing_here_only() {
    let project = TestProject::on_redis("[topics.echo]", &[("echo", guests::ECHO)]).await;
    listen_somewhere(&project);
    let runner = project.serve().await;
    let reason = || elsewhere(&project, FREE_PORT, &["topics", "why", "echo"])["idle"].clone();
    let idle = until("the heartbeat", SOON, async || Some(reason()).filter(|idle| idle["reason"] != "no-runner")).await;
    assert_eq!((&idle["reason"], &idle["other_runners"]), (&json!("no-handler-here"), &json!(1)), "{idle}");

    // With the server's address in the manifest the server answers, which has the handler.
    let manifest = std::fs::read_to_string(project.manifest()).unwrap();
    let (_, listens) = manifest.split_once("[http]\n").unwrap();
    let http = format!("[http]\n{}\n", listens.lines().next().unwrap());
    let answer = elsewhere(&project, &http, &["topics", "why", "echo"]);
    assert_eq!(answer["idle"]["reason"], "empty", "{answer}");

    // It dies without a word.
    drop(runner);
    until("it to count as dead", SOON, async || (reason()["reason"] == "no-runner").then_some(())).await;
}
