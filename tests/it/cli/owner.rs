//! A SQLite file has one owner: commands while a server has it, while nobody has it, and in between.

use gristmill_tests::guests;
use gristmill_tests::process::{Process, command};
use gristmill_tests::test_project::TestProject;
use gristmill_tests::wait::{SOON, until};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::give_grace;

const MANIFEST: &str = "[topics.parking]\nhandler = \"nobody\"\n[topics.puppet]\ntimeout = \"10m\"";

async fn project() -> TestProject {
    TestProject::new(MANIFEST, &[("echo", guests::ECHO), ("puppet", guests::PUPPET)]).await
}

/// `GET path`: status and body; none if nobody answers.
async fn get(project: &TestProject, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(project.address()?).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_before_the_first_run_makes_the_store_and_the_run_finds_it() {
    let project = project().await;
    assert!(!project.file().exists());
    project.run(&["push", "echo", "--id", "early", "--data", "x", "--keep-result", "1h"]).done();
    assert_eq!(project.run(&["job", "show", "early", "--json"]).document()["state"], "ready");
    let _runner = project.serve().await;
    until("the early job to be done", SOON, async || {
        (project.run(&["job", "show", "early", "--json"]).document()["state"] == "finished").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_command_creates_no_store() {
    let project = project().await;
    for looking in [&["job", "show", "j"][..], &["job", "cancel", "j"], &["dead", "list", "echo"], &["pause", "echo"]] {
        let said = project.run(looking);
        assert!(said.ended(1).err.contains("there is no store yet at "), "{looking:?}: {}", said.err);
    }
    let said = project.run(&["stats"]);
    assert!(said.done().is_empty() && said.err.contains("there is no store yet"), "{}", said.err);
    let topics = project.run(&["topics"]);
    assert!(topics.done().contains("echo") && topics.err.contains("there is no store yet"), "{}", topics.err);
    assert!(!project.file().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_say_the_same_with_a_server_and_without() {
    let project = project().await;
    for (id, options) in [("a", &["--priority", "high"][..]), ("b", &["--delay", "1h"]), ("c", &["--key", "k"])] {
        project.run(&[&["push", "parking", "--id", id, "--data", "x", "--meta", "a=b"], options].concat()).done();
    }
    let looks: [&[&str]; 4] = [
        &["job", "show", "a", "--json"],
        &["job", "show", "b", "--json"],
        &["job", "show", "c", "--json"],
        &["stats", "--json"],
    ];
    let topics = |serves: &str| project.run(&["topics", "--json"]).done().replace(serves, "");
    let without = looks.map(|look| project.run(look).done());
    let topics_without = topics("\"serves\":false,");
    let runner = project.serve().await;
    assert_eq!(looks.map(|look| project.run(look).done()), without);
    assert_eq!(topics("\"serves\":true,"), topics_without);
    drop(runner);
    assert_eq!(looks.map(|look| project.run(look).done()), without);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_removed_is_said_to_be_another_store_once() {
    const SAID: &str = "is not the store that a server had here before";
    let project = project().await;
    let push = || project.run(&["push", "echo", "--data", "x"]);
    for _ in 0..2 {
        let runner = project.serve().await;
        assert!(!runner.log().contains(SAID), "{}", runner.log());
        drop(runner);
    }
    for end in ["", "-wal", "-shm"] {
        let mut name = project.file().into_os_string();
        name.push(end);
        let _missing = std::fs::remove_file(name);
    }
    let said = push();
    assert!(said.ended(0).err.contains(SAID), "{}", said.err);
    let said = push();
    assert!(!said.ended(0).err.contains(SAID), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_on_the_same_file_is_refused_by_name() {
    let project = project().await;
    let runner = project.serve().await;
    let said = project.run(&["run"]);
    let pid = format!("belongs to process {}", runner.pid());
    assert!(said.ended(3).err.contains(&pid) && said.err.contains("serves it at http://127.0.0.1:"), "{}", said.err);
    assert_eq!(project.run(&["push", "echo", "--data", "still here", "--wait"]).done(), "still here");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_does_not_listen_is_named_with_the_remedy() {
    let project = project().await;
    project.write_manifest("[http]\nlisten = \"off\"");
    let runner = project.serve().await;
    let said = project.run(&["stats"]);
    let pid = format!("process {}", runner.pid());
    assert!(said.ended(3).err.contains(&pid) && said.err.contains("[http]"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_command_leaves_the_store_to_a_new_server() {
    let project = project().await;
    let mut waiting = project.spawn(&["push", "echo", "--id", "patient", "--data", "x", "--wait"]);
    until("the push", SOON, async || (project.run(&["job", "show", "patient"]).code == 0).then_some(())).await;
    let _runner = project.serve().await;
    let status = until("the end of the wait", SOON, async || waiting.try_wait().unwrap()).await;
    assert_eq!(status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_command_sees_the_end_of_a_job_whose_server_ends() {
    let project = project().await;
    give_grace(&project);
    let mut runner = project.serve().await;
    let script = r#"{"do": ["wait-until-cancelled", {"end": {"text": "at last"}}]}"#;
    let mut waiting = project.spawn(&["push", "puppet", "--id", "slow", "--data", script, "--wait"]);
    until("the job to run", SOON, async || {
        let said = project.run(&["job", "show", "slow", "--json"]);
        (said.code == 0 && said.document()["state"] == "running").then_some(())
    })
    .await;
    runner.signal(Signal::TERM);
    let status = until("the end of the wait", SOON, async || waiting.try_wait().unwrap()).await;
    assert_eq!(status.code(), Some(0));
    until("the runner to end", SOON, async || runner.ended()).await;
    assert!(project.address().is_none(), "the file is nobody's again");
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_pushes_survive_a_killed_server() {
    let project = project().await;
    let runner = project.serve().await;
    project.run(&["push", "parking", "--data", "x", "--count", "300"]).done();
    runner.kill();
    let stats = project.run(&["stats", "--json"]).document();
    assert_eq!(stats["ready"], 300);
    let _runner = project.serve().await;
    assert_eq!(project.run(&["push", "echo", "--data", "on we go", "--wait"]).done(), "on we go");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_in_memory_is_reached_through_its_server() {
    let project = project().await;
    // A port that was free a moment ago: commands must know it beforehand. At an address where no other test listens.
    let address = std::net::TcpListener::bind("127.77.0.1:0").unwrap().local_addr().unwrap();
    let manifest = format!("[store]\nurl = \"sqlite::memory:\"\n[http]\nlisten = \"{address}\"");
    project.write_manifest(&manifest);
    let said = project.run(&["push", "echo", "--data", "x"]);
    assert!(said.ended(3).err.contains("start it first"), "{}", said.err);
    let _runner = project.serve().await;
    assert_eq!(project.run(&["push", "echo", "--data", "in memory", "--wait"]).done(), "in memory");
    assert!(!project.file().exists());
}

/// As in containers, where the address of each means another server, and all are process 1.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_does_nothing_at_the_server_of_another_store() {
    let (here, there) = (project().await, project().await);
    let (_of_here, _of_there) = (here.serve().await, there.serve().await);
    let owner = here.file().with_file_name("gristmill.db.owner");
    let note = std::fs::read_to_string(&owner).unwrap();
    let other = note.replace(&here.address().unwrap().to_string(), &there.address().unwrap().to_string());
    std::fs::write(&owner, other).unwrap();
    let commands: [&[&str]; 2] =
        [&["push", "parking", "--id", "stray", "--data", "x"], &["bulk", "start", "cancel", "topic:parking key:k"]];
    for command in commands {
        let said = here.run(command);
        assert!(said.ended(3).err.contains("another server answers"), "{command:?}: {}", said.err);
    }
    assert_eq!(there.run(&["job", "show", "stray"]).code, 1, "nothing was sent there");
    std::fs::write(&owner, note).unwrap();
    here.run(&["push", "parking", "--id", "stray", "--data", "x"]).done();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_in_memory_is_not_that_of_another_manifest() {
    let (here, there) = (project().await, project().await);
    let address = std::net::TcpListener::bind("127.77.0.2:0").unwrap().local_addr().unwrap();
    let manifest = format!("[store]\nurl = \"sqlite::memory:\"\n[http]\nlisten = \"{address}\"");
    here.write_manifest(&manifest);
    there.write_manifest(&manifest);
    let _of_there = there.serve().await;
    let said = here.run(&["push", "echo", "--id", "stray", "--data", "x"]);
    assert!(said.ended(3).err.contains("start it first"), "{}", said.err);
    assert_ne!(there.run(&["job", "show", "stray"]).code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_that_was_asked_for_ends_the_run() {
    let project = project().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    project.write_manifest(&format!("[http]\nlisten = \"{address}\""));
    let said = project.run(&["run"]);
    let remedy = "name another `listen` in [http]";
    assert!(said.ended(1).err.contains(&address.to_string()) && said.err.contains(remedy), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn readyz_shows_whether_the_runner_is_ready() {
    let project = project().await;
    // It must still be ending when it is asked.
    give_grace(&project);
    let mut runner = project.serve().await;
    let listening = format!("listening on http://{}", project.address().unwrap());
    assert!(runner.log().contains(&listening), "{}", runner.log());
    until("readiness", SOON, async || (get(&project, "/readyz").await?.0 == 200).then_some(())).await;
    assert_eq!(get(&project, "/healthz").await.unwrap().0, 200);

    let script = r#"{"do": [{"sleep-ms": 3600000}]}"#;
    project.run(&["push", "puppet", "--id", "j", "--data", script]).done();
    until("the job to run", SOON, async || {
        (project.run(&["job", "show", "j", "--json"]).document()["state"] == "running").then_some(())
    })
    .await;
    runner.signal(Signal::TERM);
    let problem = until("the end to begin", SOON, async || {
        let (status, body) = get(&project, "/readyz").await?;
        (status == 503).then_some(body)
    })
    .await;
    let problem: serde_json::Value = serde_json::from_str(&problem).unwrap();
    assert_eq!(problem["code"], json!("ending"));
    assert_eq!(get(&project, "/healthz").await.unwrap().0, 200);
    runner.signal(Signal::TERM);
    until("the runner to end", SOON, async || runner.ended()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_on_redis_answers_for_its_health_when_redis_is_gone() {
    let mut project = TestProject::on_redis(MANIFEST, &[("echo", guests::ECHO)]).await;
    let runner = project.serve().await;
    let address = listening(&runner).await;
    let ask = async |path: &str| {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    until("readiness", SOON, async || ask("/readyz").await.contains(" 200 ").then_some(())).await;
    let redis = project.redis.as_ref().unwrap();
    redis.ask::<()>("CONFIG", &["SET", "maxmemory", "1"]).await;
    let answer = until("the lack of memory to be seen", SOON, async || {
        let answer = ask("/readyz").await;
        answer.contains(" 503 ").then_some(answer)
    })
    .await;
    assert!(answer.contains("store-unavailable") && answer.contains("maxmemory"), "{answer}");
    redis.ask::<()>("CONFIG", &["SET", "maxmemory", "0"]).await;
    until("readiness", SOON, async || ask("/readyz").await.contains(" 200 ").then_some(())).await;
    project.redis.as_mut().unwrap().stop();
    let answer = until("the loss to be seen", SOON, async || {
        let answer = ask("/readyz").await;
        answer.contains(" 503 ").then_some(answer)
    })
    .await;
    assert!(answer.contains("store-unavailable"), "{answer}");
    assert!(ask("/healthz").await.contains(" 200 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_on_a_redis_that_refuses_subscriptions() {
    let project = TestProject::on_redis(MANIFEST, &[("echo", guests::ECHO)]).await;
    let redis = project.redis.as_ref().unwrap();
    redis.ask::<String>("ACL", &["SETUSER", "default", "-subscribe"]).await.unwrap();
    let _runner = project.serve().await;
    project.run(&["push", "echo", "--id", "j", "--data", "x", "--keep-result", "1h"]).done();
    until("the job to be done", SOON, async || {
        (project.run(&["job", "show", "j", "--json"]).document()["state"] == "finished").then_some(())
    })
    .await;
}

async fn listening(runner: &Process) -> String {
    until("the runner to listen", SOON, async || {
        let log = runner.log();
        let rest = log.split("listening on http://").nth(1)?;
        Some(rest.split_whitespace().next()?.to_owned())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_that_makes_no_sense_is_named_with_its_option() {
    let project = project().await;
    let mut stats = command(&project.manifest());
    let output = stats.env("GRISTMILL_SERVER", "nonsense").arg("stats").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("note: --server is not in the command: the variable GRISTMILL_SERVER sets it"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_command_the_help_is_shown_whatever_the_environment_says() {
    let project = project().await;
    let mut bare = command(&project.manifest());
    let output = bare.env("GRISTMILL_STORE", "sqlite:elsewhere.db").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said.contains("Usage: gristmill") && said.contains("push") && !said.contains("compile-component"),
        "{said}"
    );
}
