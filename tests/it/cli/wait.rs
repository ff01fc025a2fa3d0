//! `push --wait`: the result on standard output, and how else it may end.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use gristmill_tests::guests;
use gristmill_tests::process::command;
use gristmill_tests::test_project::{Said, TestProject, fields};
use gristmill_tests::wait::{SOON, until};
use puppet::{End, Script, Step};
use rustix::process::Signal;
use serde_json::json;

use super::give_grace;

const MANIFEST: &str = r#"
    [defaults]
    attempts = 1
    memory = "64MiB"
    timeout = "10m"
    [topics.resize-image]
    fuel = "20G"
"#;

async fn project() -> TestProject {
    let handlers = [("echo", guests::ECHO), ("puppet", guests::PUPPET), ("resize-image", guests::RESIZE_IMAGE)];
    TestProject::new(MANIFEST, &handlers).await
}

fn play(project: &TestProject, script: &Script, options: &[&str]) -> Said {
    project.pipe(&script.to_json(), &[&["push", "puppet", "--wait"], options].concat())
}

/// Width and height from a JPEG's frame header (ITU-T T.81, B.2.2).
fn jpeg_size(bytes: &[u8]) -> (u16, u16) {
    assert_eq!(bytes[..2], [0xff, 0xd8], "a JPEG begins with its marker");
    let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let mut at = 2;
    // Segment by segment to the first start of frame, baseline or progressive.
    while !matches!(bytes[at + 1], 0xc0..=0xc2) {
        at += 2 + usize::from(number(at + 2));
    }
    (number(at + 7), number(at + 5))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_goes_in_and_a_smaller_one_comes_out() {
    let project = project().await;
    let _runner = project.serve().await;
    let photo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/photo.jpg");
    assert_eq!(jpeg_size(&std::fs::read(&photo).unwrap()), (1600, 1067));

    let photo = photo.to_str().unwrap();
    let said = project.run(&["push", "resize-image", "--file", photo, "--meta", "width=320", "--wait"]);
    assert_eq!((jpeg_size(&said.ended(0).out), said.err.as_str()), ((320, 213), ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_written_as_it_is_or_as_a_document() {
    let project = project().await;
    let _runner = project.serve().await;
    let binary = [0xff, 0, b'\n', 0xfe];
    assert_eq!(project.pipe(&binary, &["push", "echo", "--wait"]).ended(0).out, binary);

    let said = project.pipe(b"{}", &["push", "echo", "--wait", "--json", "--content-type", "application/json"]);
    let document = said.ended(0).document();
    assert_eq!(fields(&document), ["failure", "id", "outcome", "output", "tenant", "topic"]);
    assert_eq!(document["outcome"], "complete");
    assert_eq!(document["output"], json!({"bytes": 2, "content_type": "application/json", "text": "{}"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_parse_ends_with_4_and_the_reason() {
    let project = project().await;
    let _runner = project.serve().await;
    let said = project.pipe(b"{\"do\": 7}", &["push", "puppet", "--wait"]);
    assert!(said.ended(4).err.contains("rejected (bad-payload)") && said.err.contains("line 1"), "{}", said.err);
    assert!(said.out.is_empty());

    let document = project.pipe(b"{\"do\": 7}", &["push", "puppet", "--wait", "--json"]).ended(4).document();
    assert_eq!(document["outcome"], "dead");
    assert_eq!(fields(&document["failure"]), ["backtrace", "code", "context", "message", "reason"]);
    assert_eq!(
        (&document["failure"]["reason"], &document["failure"]["code"]),
        (&json!("rejected"), &json!("bad-payload"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_printed_on_readable_lines() {
    let project = project().await;
    let _runner = project.serve().await;
    let said = play(&project, &Script::end(End::Panic("the runner is on fire".into())), &[]);
    let lines: Vec<_> = said.ended(4).err.lines().collect();
    assert!(lines[0].contains("is dead: trap: the runner is on fire (panicked at "), "{}", said.err);
    assert!(!lines[0].contains("wasm trap"), "the author's words come first: {}", said.err);
    assert!(lines[1].starts_with("  (wasm trap: "), "{}", said.err);
    assert!(lines[2].starts_with("      0: "), "the backtrace follows: {}", said.err);
    assert!(!said.err.contains("RUST_BACKTRACE"), "advice that nobody can follow: {}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_times_out_says_how_to_ask_later() {
    let project = project().await;
    give_grace(&project);
    let mut runner = project.serve().await;
    let waiter = Script::new([Step::WaitUntilCancelled, Step::End(End::Text("at last".into()))]);
    let said = play(&project, &waiter, &["--wait-timeout", "50ms", "--id", "slow", "--keep-result", "1h"]);
    let said = &said.ended(5).err;
    assert!(said.contains("gristmill job why slow") && said.contains("gristmill job show slow"), "{said}");
    let document = play(&project, &waiter, &["--wait-timeout", "50ms", "--json"]).ended(5).document();
    assert_eq!(document["outcome"], "timed-out");

    // The wait is over, the job is not.
    runner.signal(Signal::TERM);
    until("the runner to end", SOON, async || runner.ended()).await;
    let job = project.run(&["job", "show", "slow", "--json"]).ended(0).document();
    assert_eq!(job["result"]["output"]["text"], "at last");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_is_said_while_the_next_one_is_waited_for() {
    let redis = TestProject::on_redis(MANIFEST, &[("puppet", guests::PUPPET)]).await;
    for project in [project().await, redis] {
        let _runner = project.serve().await;
        let script = Script::new([Step::RetryUntilAttempt { attempt: 2, after_ms: Some(3_600_000) }]);
        let script = String::from_utf8(script.to_json()).unwrap();
        let push =
            ["push", "puppet", "--id", "j", "--attempts", "2", "--wait", "--wait-timeout", "10m", "--data", &script];
        let mut push = command(&project.manifest()).args(push).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(push.stderr.take().unwrap()).lines();
        let said = lines.next().unwrap().unwrap();
        assert!(said.starts_with("attempt 1 of job j: failed (not-yet); the next one begins at 20"), "{said}");
        assert!(said.contains("Z (in "), "{said}");
        project.run(&["job", "cancel", "j"]).done();
        let rest: Vec<_> = lines.map(Result::unwrap).collect();
        assert_eq!((push.wait().unwrap().code(), rest), (Some(4), vec!["job j was cancelled".to_owned()]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_past_its_time_to_live_ends_with_4() {
    let project = Arc::new(project().await);
    let waiting = Arc::clone(&project);
    let waiting =
        tokio::task::spawn_blocking(move || waiting.run(&["push", "echo", "--id", "late", "--ttl", "1ms", "--wait"]));
    // Nobody is there to start it in time, by the store's clock.
    let pushed_at = |id: &str| {
        let said = project.run(&["job", "show", id, "--json"]);
        (said.code == 0).then(|| said.document()["job"]["enqueued_at_ms"].as_u64().unwrap())
    };
    until("its time to be over", SOON, async || {
        let late = pushed_at("late")?;
        let probe = project.run(&["push", "parking"]).done();
        (pushed_at(probe.trim())? > late + 1).then_some(())
    })
    .await;
    let _runner = project.serve().await;
    let said = waiting.await.unwrap();
    assert!(said.ended(4).err.contains("expired before it could start"), "{}", said.err);
}
