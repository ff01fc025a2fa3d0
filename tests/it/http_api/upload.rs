//! Components that come over HTTP: checked before they are taken, and served when the answer comes.

use gristmill_tests::guests;
use gristmill_tests::http_client::Answer;
use gristmill_tests::test_runner::{On, TestRunner};
use hyper::Request;
use serde_json::json;

use super::refused;

const MANIFEST: &str = r#"
    [defaults]
    clock = false
    [topics.greet]
    handler = "greeter"
    [tenants.acme.topics.their]
    handler = "theirs"
"#;

async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, MANIFEST, &[]).await
}

on_both_stores! {
    an_uploaded_component_serves_when_the_answer_comes
    a_component_that_fails_a_check_changes_nothing
    a_component_is_taken_away_and_its_jobs_wait
    a_file_of_no_topic_is_not_written
    what_is_said_to_be_a_document_is_no_component
}

async fn upload(runner: &TestRunner, topic: &str, wasm: Vec<u8>) -> Answer {
    let path = format!("/v1/tenants/default/topics/{topic}/handler");
    runner.client().send(Request::put(path).header("content-type", "application/wasm"), wasm).await
}

fn file(path: &str) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// What lies in the folder; nothing half-written among it.
fn folder(runner: &TestRunner) -> Vec<String> {
    let entries = std::fs::read_dir(runner.handlers()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn an_uploaded_component_serves_when_the_answer_comes(runner: TestRunner) {
    let first = upload(&runner, "greet", file(guests::ECHO)).await;
    assert_eq!((first.status, &first.json()["handler"]), (201, &json!("greeter")), "{}", first.text());
    assert_eq!(folder(&runner), ["greeter.wasm"]);
    let job =
        runner.client().post("/v1/tenants/default/topics/greet/jobs?wait_ms=60000", &json!({ "body": 1 })).await.json();
    assert_eq!(job["job"]["result"]["outcome"], "complete");
    let topic = runner.client().get("/v1/tenants/default/topics/greet").await.json();
    assert_eq!(topic["version"], first.json()["version"]);
    let again = upload(&runner, "greet", file(guests::ECHO)).await;
    assert_eq!((again.status, again.json()), (200, first.json()));
    let other = upload(&runner, "greet", file(guests::ORDER_TIMEOUT)).await;
    assert!(other.status == 200 && other.json()["version"] != first.json()["version"], "{}", other.text());
}

async fn a_component_that_fails_a_check_changes_nothing(runner: TestRunner) {
    let first = upload(&runner, "greet", file(guests::ECHO)).await;
    let truncated = file(guests::RESIZE_IMAGE)[..20_000].to_vec();
    for bad in [b"no component".to_vec(), b"\0asm\x0d\0\x01\0".to_vec(), truncated, Vec::new()] {
        refused(&upload(&runner, "greet", bad).await, 422, "handler-refused");
    }
    let detail = refused(&upload(&runner, "greet", file(guests::PUPPET)).await, 422, "handler-refused");
    assert!(detail.contains("topic `greet` does not grant: `clock`"), "{detail}");
    let topic = runner.client().get("/v1/tenants/default/topics/greet").await.json();
    assert_eq!(topic["version"], first.json()["version"]);
    assert_eq!(folder(&runner), ["greeter.wasm"]);
}

async fn a_component_is_taken_away_and_its_jobs_wait(runner: TestRunner) {
    let path = "/v1/tenants/default/topics/greet/handler";
    refused(&runner.client().delete(path).await, 404, "handler-unknown");
    upload(&runner, "greet", file(guests::ECHO)).await;
    let answer = runner.client().delete(path).await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "handler": "greeter", "version": null })));
    let job = runner.client().post("/v1/tenants/default/topics/greet/jobs?wait_ms=1", &json!({})).await.json();
    assert_eq!(job["job"]["state"], "ready");
    assert!(folder(&runner).is_empty());
}

async fn what_is_said_to_be_a_document_is_no_component(runner: TestRunner) {
    let path = "/v1/tenants/default/topics/greet/handler";
    for media in ["application/json", "application/x-ndjson; charset=utf-8"] {
        let request = Request::put(path).header("content-type", media);
        let detail = refused(&runner.client().send(request, file(guests::ECHO)).await, 415, "media-type");
        assert!(detail.starts_with("a component is `application/wasm` and no `application/"), "{detail}");
    }
    assert!(folder(&runner).is_empty());
}

async fn a_file_of_no_topic_is_not_written(runner: TestRunner) {
    let path = "/v1/tenants/acme/topics/unheard-of/handler";
    let request = || Request::put(path).header("content-type", "application/wasm");
    refused(&runner.client().send(request(), file(guests::ECHO)).await, 404, "topic-unknown");
    refused(&upload(&runner, "%2e%2e%2fescaped", file(guests::ECHO)).await, 400, "bad-request");
    assert!(folder(&runner).is_empty());
    // In the default tenant a component makes its topic.
    assert_eq!(upload(&runner, "new", file(guests::ECHO)).await.status, 201);
    assert_eq!(folder(&runner), ["new.wasm"]);
}
