//! The state of a key, by a real component: what one job leaves, the next one reads.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use gristmill::job::{Due, JobOptions};
use gristmill::outcome::Reason;
use gristmill::store::{JobState, JobView, ResultView};
use gristmill_tests::guests;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::test_runner::{On, TestRunner, spec_with};
use hyper::Request;
use serde_json::{Value, json};

const MANIFEST: &str = r#"
    [defaults]
    backoff = "1ms"
    [topics.cart]
    handler = "keeper"
    state = true
    state-limit = "100B"
    result-retention = "1h"
    [topics.plain]
    handler = "keeper"
    [topics.bucket]
    state = true
    result-retention = "1h"
"#;

on_both_stores! {
    jobs_of_a_key_read_what_the_one_before_them_set
    only_a_completed_job_sets_the_state
    a_job_without_a_key_and_a_state_over_the_limit_are_refused
    the_state_of_a_key_is_shown_and_deleted_over_http
    a_component_keeps_several_keys_and_values_by_wasi_keyvalue
}

async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, MANIFEST, &[("keeper", guests::KEEPER), ("bucket", guests::BUCKET)]).await
}

async fn work(runner: &TestRunner, key: &str, body: &str) -> JobView {
    let job = spec_with("cart", body.as_bytes(), JobOptions { key: Some(key.into()), ..JobOptions::default() });
    let id = runner.push_job(job, Due::Now).await;
    runner.end_of(&id).await
}

/// The state before the job.
fn before(view: &JobView) -> &str {
    match &view.result {
        Some(ResultView::Complete(Some(payload))) => std::str::from_utf8(&payload.data).unwrap(),
        other => panic!("no result but {other:?}"),
    }
}

async fn jobs_of_a_key_read_what_the_one_before_them_set(runner: TestRunner) {
    let mut ids = Vec::new();
    for word in ["a", "b", "c"] {
        for key in ["one", "two"] {
            let body = format!("add {word}{key} ");
            let job = spec_with("cart", body.as_bytes(), JobOptions { key: Some(key.into()), ..JobOptions::default() });
            ids.push(runner.push_job(job, Due::Now).await);
        }
    }
    let mut seen = Vec::new();
    for id in &ids {
        seen.push(before(&runner.end_of(id).await).to_owned());
    }
    assert_eq!(seen, ["", "", "aone ", "atwo ", "aone bone ", "atwo btwo "]);
    assert_eq!(before(&work(&runner, "one", "delete").await), "aone bone cone ");
    assert_eq!(before(&work(&runner, "one", "add").await), "");
}

async fn only_a_completed_job_sets_the_state(runner: TestRunner) {
    work(&runner, "k", "add 1").await;
    assert!(matches!(work(&runner, "k", "reject 2").await.state, JobState::Dead { .. }));
    let retried = work(&runner, "k", "retry-once 3").await;
    assert_eq!((before(&retried), retried.attempts), ("1", 2));
    assert_eq!(before(&work(&runner, "k", "add 4").await), "13");
}

async fn a_job_without_a_key_and_a_state_over_the_limit_are_refused(runner: TestRunner) {
    let code = |view: &JobView| {
        let failure = view.last_failure.as_ref().unwrap();
        assert_eq!(failure.reason, Reason::Rejected);
        failure.detail.code.clone()
    };
    assert_eq!(code(&runner.work("cart", b"add 1").await), "no-key");
    assert_eq!(before(&work(&runner, "k", "fill 100").await), "");
    assert_eq!(code(&work(&runner, "k", "fill 101").await), "state-too-large");
    assert_eq!(before(&work(&runner, "k", "delete").await).len(), 100);
}

async fn the_state_of_a_key_is_shown_and_deleted_over_http(runner: TestRunner) {
    let client = runner.client();
    let path = "/v1/tenants/default/topics/cart/state/a%2Fb%20c";
    let shown = async || client.get(path).await;
    let none = json!({ "state": Value::Null, "version": Value::Null });
    let missing = shown().await;
    assert_eq!((missing.json(), missing.headers.contains_key("etag")), (none.clone(), false));
    work(&runner, "a/b c", "add x").await;
    let first = shown().await;
    let version = first.json()["version"].as_u64().unwrap();
    assert_eq!(first.json(), json!({ "state": "eA==", "version": version }));
    assert_eq!(first.headers["etag"].to_str().unwrap(), format!("\"{version}\""));
    work(&runner, "a/b c", "add y").await;
    assert_eq!(shown().await.json(), json!({ "state": "eHk=", "version": version + 1 }));

    let delete = async |tag: &str| {
        let request = Request::builder().method("DELETE").uri(path).header("if-match", tag);
        client.send(request.header("content-type", "application/json"), Vec::new()).await
    };
    let refused = delete(&format!("\"{version}\"")).await;
    assert_eq!((refused.status, &refused.json()["code"]), (412, &json!("other-version")));
    assert!(refused.json()["detail"].as_str().unwrap().contains("look at it again"), "{}", refused.json());
    assert_eq!(delete("version").await.status, 400);
    assert_eq!(shown().await.json()["version"], version + 1);
    assert_eq!(delete(&format!("\"{}\"", version + 1)).await.json(), json!({ "changed": true }));
    assert_eq!(client.delete(path).await.json(), json!({ "changed": false }));
    assert_eq!(shown().await.json(), none);
    work(&runner, "a/b c", "add z").await;
    assert!(shown().await.json()["version"].as_u64().unwrap() > version + 1, "no version comes twice");
    assert_eq!(client.delete(path).await.json(), json!({ "changed": true }));
}

async fn a_component_keeps_several_keys_and_values_by_wasi_keyvalue(runner: TestRunner) {
    let visit = async |name: &str| {
        let job =
            spec_with("bucket", name.as_bytes(), JobOptions { key: Some("shop".into()), ..JobOptions::default() });
        let id = runner.push_job(job, Due::Now).await;
        before(&runner.end_of(&id).await).to_owned()
    };
    assert_eq!(visit("Ada").await, "1 [None, None]");
    assert_eq!(visit("hurry").await, r#"11 [Some("Ada"), None]"#);
    let state = runner.client().get("/v1/tenants/default/topics/bucket/state/shop").await.json();
    assert_eq!(BASE64_STANDARD.decode(state["state"].as_str().unwrap()).unwrap(), br#"{"last":"hurry","visits":"11"}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_keeps_states_is_refused_where_they_are_not_granted() {
    let project = TestProject::new("[topics.plain]\nhandler = \"keeper\"", &[("keeper", guests::KEEPER)]).await;
    let lines = ["does not grant what its handler `keeper` imports: `state`", "[topics.plain]", "state = true"];
    let checked = project.run(&["check"]);
    let text = checked.ended(1).text();
    assert!(lines.iter().all(|line| text.contains(line)), "{text}");
}
