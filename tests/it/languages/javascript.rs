//! What handlers in JavaScript and TypeScript have beside the contract: `await`, timers, and names of the web's platform.

use std::collections::BTreeMap;
use std::path::Path;

use gristmill::outcome::Outcome;
use gristmill::sandbox::{Component, LogSink};
use gristmill::topic::Topic;
use gristmill_tests::server::{Answer, Server};
use serde_json::{Value, json};

use super::{Language, build, ended, job, loaded, require, unbuilt_project};

const MORE: &str = r#"
fuel = "100G"

[topics.welcome.http]
allow = ["http://127.0.0.1:*"]
networks = ["127.0.0.1"]
requests = 20
"#;

/// The result of a mode of the handler.
async fn result(component: &Component, topic: &Topic, body: &Value) -> Value {
    match ended(component, topic, &body.to_string()).await {
        (Outcome::Complete(Some(payload)), _) => serde_json::from_slice(&payload.data).unwrap(),
        other => panic!("{body}: {other:?}"),
    }
}

fn answer(request: &str) -> Answer {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let (method, path) = head.split_once(' ').unwrap();
    match path.split([' ', '?']).next().unwrap() {
        "/json" => Answer::ok(r#"{"answer": 42}"#),
        "/broken" => Answer::ok("{"),
        "/missing" => Answer::Now("404 Not Found", "", String::new()),
        "/moved" => Answer::Now("302 Found", "location: /json\r\n", String::new()),
        "/held" => Answer::Held,
        _ => {
            let header =
                |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("none").to_owned();
            Answer::Now("200 OK", "x-a: 1\r\n", format!("{method} {} {body}", header("content-type: ")))
        }
    }
}

async fn has_promises_timers_and_the_webs_names(language: &Language) {
    let (component, topic) = language.with(MORE).await;
    assert_eq!(topic.lacks(component.demands()), []);
    let server = Server::start(answer).await;
    let results: BTreeMap<String, Value> = serde_json::from_str(include_str!("../../javascript/results.json")).unwrap();
    for (mode, expected) in results {
        let found = result(&component, &topic, &json!({ "mode": mode, "server": server.url("") })).await;
        assert_eq!(found, expected, "{mode}");
    }
    for (mode, code, message, is_final) in failures() {
        let (outcome, log) =
            ended(&component, &topic, &json!({ "mode": mode, "server": server.url("") }).to_string()).await;
        let (detail, is_rejected) = match &outcome {
            Outcome::Reject(detail) => (detail, true),
            Outcome::Retry { detail, .. } => (detail, false),
            other => panic!("{mode}: {other:?}"),
        };
        assert_eq!((detail.code.as_str(), is_rejected), (code, is_final), "{mode}: {detail:?}");
        assert!(detail.message.contains(message), "{mode}: {detail:?}");
        assert_eq!(log.contains("uncaught exception"), !is_final, "{mode}: {log}");
        if ["deep down", "SyntaxError"].contains(&message) {
            let place = format!("{}:", language.file);
            let stack = String::from_utf8(detail.context.clone().unwrap().data).unwrap();
            assert!(stack.contains(&place) && detail.message.contains(&place), "{mode}: {detail:?} {stack}");
            // What parses JSON is the engine's own.
            let is_shown = message == "SyntaxError";
            assert!(!stack.contains("gristmill") && (is_shown || !stack.contains("native")), "{stack}");
        }
    }
    let (outcome, log) = ended(&component, &topic, r#"{"mode": "left"}"#).await;
    assert!(matches!(outcome, Outcome::Complete(Some(_))) && log.contains("after the handler"), "{outcome:?} {log}");
}

/// Mode, code, a part of the message, and whether another try would end the same.
fn failures() -> [(&'static str, &'static str, &'static str, bool); 7] {
    [
        ("thrown", "exception", "deep down", false),
        ("unhandled", "exception", "deep down", false),
        ("broken", "exception", "SyntaxError", false),
        ("never", "exception", "the handler's promise never settled: nothing is left to run", false),
        ("denied", "http-denied", "`http://example.org` is not among the hosts", true),
        ("unreachable", "http-unreachable", "Connection refused", false),
        ("many", "http-too-many", "no more than 20 requests", true),
    ]
}

each_language! { has_promises_timers_and_the_webs_names: javascript typescript }

/// Only what a handler mentions is imported, and so has to be granted.
#[tokio::test(flavor = "multi_thread")]
async fn an_async_handler_needs_no_grants_until_a_timer_has_to_wait() {
    require(&["node", "npm"]);
    let handler = "
        import { handle } from 'gristmill-guest';
        const sleep = (millis) => new Promise((done) => setTimeout(done, millis));
        let jobs = 0;
        export const handler = handle(async (job) => {
          jobs++;
          if (job.json() < 0) {
            setTimeout(() => { throw new Error('left by another job'); }, 0);
            return [jobs];
          }
          await sleep(0);
          await sleep(job.json());
          return [jobs];
        });";
    let folder = unbuilt_project("javascript");
    let project = folder.path().join("welcome");
    std::fs::write(project.join("handler.js"), handler).unwrap();
    build(&project, &[]);
    let (component, topic) = loaded(&project).await;
    assert_eq!(component.demands().grants, []);
    assert_eq!(result(&component, &topic, &json!(0)).await, json!([1]));
    // A kept instance has nothing left of the timers of its earlier jobs.
    let pool = component.instance_pool(2);
    for (body, expected) in [("-1", "[1]"), ("0", "[2]")] {
        let report = pool.invoke(&component, job(&topic, body, LogSink::Trace)).await;
        let Outcome::Complete(Some(result)) = &report.outcome else { panic!("{report:?}") };
        assert_eq!(String::from_utf8_lossy(&result.data), expected);
    }
    let (outcome, _) = ended(&component, &topic, "3600000").await;
    let Outcome::Reject(detail) = outcome else { panic!("{outcome:?}") };
    assert_eq!(detail.code, "no-clock");
    assert!(detail.message.contains("`import 'gristmill-guest/clock';`"), "{detail:?}");
}

#[test]
fn urls_are_what_node_makes_of_them() {
    passes("javascript/url.test.mjs");
}

#[test]
fn the_fake_takes_a_state_as_text_or_as_bytes() {
    passes("javascript/fake.test.mjs");
}

/// What runs without a component.
fn passes(script: &str) {
    require(&["node"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let test = std::process::Command::new("node").arg("--test").arg(script).output().unwrap();
    assert!(test.status.success(), "{}", String::from_utf8_lossy(&test.stdout));
}
