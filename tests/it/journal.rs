//! The attempt journal of a real runner in a process of its own.

use std::fs;
use std::path::PathBuf;

use gristmill_tests::guests;
use gristmill_tests::process::Process;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::wait::{SOON, until};
use puppet::{Count, End, Enqueue, Script, Step};
use rustix::process::Signal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const MANIFEST: &str = r#"
    [journal]
    path = "journal.jsonl"

    [topics.echo]

    [topics.puppet]
    attempts = 3
    backoff = "10ms"

    [topics.hasty]
    handler = "puppet"
    timeout = "100ms"
    fuel = "1T"
    attempts = 1

    # Nobody works here.
    [topics.sink]
    handler = "nobody"

    [tenants.acme.topics.echo]
"#;

async fn project() -> TestProject {
    TestProject::new(MANIFEST, &[("echo", guests::ECHO), ("puppet", guests::PUPPET)]).await
}

fn journal(project: &TestProject) -> PathBuf {
    project.manifest().with_file_name("journal.jsonl")
}

/// Every line of a runner that has ended, each of which must be a document.
fn lines(project: &TestProject) -> Vec<Value> {
    let text = fs::read_to_string(journal(project)).unwrap();
    assert!(text.ends_with('\n'), "the last line is whole");
    so_far(project)
}

/// The lines that are whole.
fn so_far(project: &TestProject) -> Vec<Value> {
    let text = fs::read_to_string(journal(project)).unwrap();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

/// The lines of one job, in order of its deliveries.
fn attempts(lines: &[Value], job: &str) -> Vec<Value> {
    let mut attempts: Vec<Value> = lines.iter().filter(|line| line["job"] == job).cloned().collect();
    attempts.sort_by_key(|line| line["delivery"].as_u64());
    attempts
}

/// What a line says of these fields.
fn values(line: &Value, fields: &[&str]) -> Value {
    fields.iter().map(|field| line[*field].clone()).collect()
}

async fn end(mut runner: Process) {
    runner.signal(Signal::TERM);
    let status = until("the runner to end", SOON, async || runner.ended()).await;
    assert!(status.success(), "{status}: {}", runner.log());
}

fn push(project: &TestProject, topic: &str, job: &str, script: &Script, code: i32) {
    project.pipe(&script.to_json(), &["push", topic, "--id", job, "--wait"]).ended(code);
}

const END: [&str; 5] = ["attempt", "outcome", "verdict", "settled", "reason"];

#[tokio::test(flavor = "multi_thread")]
async fn every_attempt_is_recorded_with_outcome_times_and_cost() {
    let project = project().await;
    let runner = project.serve().await;
    let enqueue = Enqueue { topic: "sink".into(), data: "bran".into(), count: Count::Times(3), ..Enqueue::default() };
    push(&project, "puppet", "good", &Script::new([Step::Enqueue(enqueue), Step::End(End::Text("flour".into()))]), 0);
    let third = Step::RetryUntilAttempt { attempt: 3, after_ms: Some(1) };
    push(&project, "puppet", "patient", &Script::new([third, Step::End(End::Complete)]), 0);
    push(&project, "puppet", "mad", &Script::end(End::Panic("on fire".into())), 4);
    push(&project, "hasty", "slow", &Script::end(End::InfiniteLoop), 4);
    project.pipe(b"grain", &["push", "acme/echo", "--id", "late", "--delay", "50ms", "--wait"]).done();
    end(runner).await;

    let lines = lines(&project);
    let ends = |job| attempts(&lines, job).iter().map(|line| values(line, &END)).collect::<Vec<_>>();
    assert_eq!(ends("good"), [json!([1, "complete", "ack", "done", null])]);
    let again = |attempt| json!([attempt, "retry", "retry", "done", "failed"]);
    assert_eq!(ends("patient"), [again(1), again(2), json!([3, "complete", "ack", "done", null])]);
    let panics = [json!([1, "trapped", "retry", "done", "trap"]), json!([2, "trapped", "bury", "done", "trap"])];
    assert_eq!(ends("mad"), panics);
    assert_eq!(ends("slow"), [json!([1, "timed-out", "bury", "done", "timeout"])]);
    assert_eq!(lines.len(), 8, "one line an attempt: {lines:#?}");

    let good = &attempts(&lines, "good")[0];
    assert_eq!(values(good, &["result_bytes", "follow_ups", "follow_up_bytes"]), json!([5, 3, 12]));
    let late = &attempts(&lines, "late")[0];
    assert_eq!(values(late, &["tenant", "topic", "body_bytes", "result_bytes"]), json!(["acme", "echo", 5, 5]));
    assert!(late["due_us"].as_u64().unwrap() - late["enqueued_us"].as_u64().unwrap() >= 50_000, "{late}");
    let slow = &attempts(&lines, "slow")[0];
    assert!(slow["ended_us"].as_u64().unwrap() - slow["started_us"].as_u64().unwrap() >= 100_000, "{slow}");

    let component = |name: &str| sha256(&fs::read(project.handlers().join(format!("{name}.wasm"))).unwrap());
    let (echo, puppet) = (component("echo"), component("puppet"));
    for line in &lines {
        let times = ["enqueued_us", "due_us", "claimed_us", "started_us", "ended_us"];
        let times: Vec<u64> = times.iter().map(|time| line[time].as_u64().unwrap()).collect();
        assert!(times.is_sorted(), "{line}");
        assert!(line["fuel"].as_u64() > Some(0) && line["memory_peak_bytes"].as_u64() >= Some(65_536), "{line}");
        assert_eq!(line["component"], if line["topic"] == "echo" { &*echo } else { &*puppet });
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_ends_under_load_records_every_attempt() {
    let project = project().await;
    let runner = project.serve().await;
    project.pipe(b"grain", &["push", "echo", "--count", "2000"]).done();
    until("the first lines", SOON, async || {
        fs::metadata(journal(&project)).is_ok_and(|file| file.len() > 0).then_some(())
    })
    .await;
    end(runner).await;
    let stats = project.run(&["stats", "--json"]).document();
    let acks = lines(&project).iter().filter(|line| line["verdict"] == "ack" && line["settled"] == "done").count();
    assert_eq!(stats["totals"]["acked"], acks, "{stats}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_runner_records_the_attempts_of_a_killed_one() {
    let project = project().await;
    let runner = project.serve().await;
    let script = Script::new([Step::RetryUntilAttempt { attempt: 2, after_ms: None }, Step::End(End::Complete)]);
    let sleeper = Script::new([Step::SleepMs(3_600_000)]);
    push(&project, "puppet", "before", &script, 0);
    project.pipe(&sleeper.to_json(), &["push", "puppet", "--id", "victim", "--attempts", "1"]).done();
    until("the journal to be written", SOON, async || (attempts(&so_far(&project), "before").len() == 2).then_some(()))
        .await;
    until("the victim to run", SOON, async || {
        let view = project.run(&["job", "show", "victim", "--json"]).document();
        (view["state"] == "running").then_some(())
    })
    .await;
    runner.kill();

    let next = project.serve().await;
    let line = until("the victim's line", SOON, async || attempts(&so_far(&project), "victim").pop()).await;
    end(next).await;
    assert_eq!(values(&line, &END), json!([1, "worker-died", "bury", "done", "worker-died"]));
    assert_eq!(values(&line, &["started_us", "ended_us", "fuel"]), json!([null, null, 0]));
    assert_eq!(line["worker"], attempts(&lines(&project), "before")[0]["worker"], "it has the name of the dead");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_cannot_be_opened_ends_the_runner_at_its_start() {
    let project = TestProject::new("[journal]\npath = \"gone/journal.jsonl\"", &[]).await;
    let said = project.run(&["run"]);
    said.ended(1);
    assert!(said.err.contains("gone/journal.jsonl") && said.err.contains("No such file"), "{}", said.err);
}
