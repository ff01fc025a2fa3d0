//! `Idempotency-Key`: the same request twice is one push, also when the job is long over.

use gristmill_tests::test_runner::{TestRunner, tenant};
use hyper::Request;
use serde_json::json;

use super::{ECHO, NOBODY, push_with_key, refused, runner};

on_both_stores! {
    the_same_request_is_answered_as_the_first_time
    the_same_request_stores_nothing_after_the_job_is_over
    a_key_with_another_request_is_refused
    each_job_of_many_has_its_part_of_the_key
    a_key_is_a_topics_own
    an_invalid_key_is_refused
}

async fn pushed(runner: &TestRunner) -> u64 {
    let counts = runner.store.counts(&tenant()).await.unwrap();
    counts.iter().filter_map(|counts| counts.totals.get("pushed")).sum()
}

async fn the_same_request_is_answered_as_the_first_time(runner: TestRunner) {
    let first = push_with_key(&runner, NOBODY, "key-1", &json!({ "body": 1 })).await;
    assert!(first.status == 201 && !first.headers.contains_key("idempotency-replayed"), "{}", first.text());
    let again = push_with_key(&runner, NOBODY, "key-1", &json!({ "body": 1 })).await;
    assert_eq!((again.status, again.json(), again.header("idempotency-replayed")), (201, first.json(), "true"));
    assert_eq!(pushed(&runner).await, 1);
    let other = push_with_key(&runner, NOBODY, "key-2", &json!({ "body": 1 })).await;
    assert_ne!(other.json()["id"], first.json()["id"]);
}

async fn the_same_request_stores_nothing_after_the_job_is_over(runner: TestRunner) {
    let path = format!("{ECHO}?wait_ms=60000");
    let first = push_with_key(&runner, &path, "key", &json!({ "body": 1, "keep_result_ms": 600_000 })).await;
    assert_eq!(first.json()["job"]["state"], "finished");
    // How long to wait is not what is asked for.
    let again = push_with_key(&runner, ECHO, "key", &json!({ "body": 1, "keep_result_ms": 600_000 })).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (201, "true"));
    assert_eq!(again.json()["id"], first.json()["id"]);
    assert_eq!(pushed(&runner).await, 1);
}

async fn a_key_with_another_request_is_refused(runner: TestRunner) {
    let first = push_with_key(&runner, NOBODY, "key", &json!({ "body": 1 })).await;
    let detail =
        refused(&push_with_key(&runner, NOBODY, "key", &json!({ "body": 2 })).await, 422, "idempotency-key-reused");
    assert!(detail.contains(first.json()["id"].as_str().unwrap()), "{detail}");
    let bytes = Request::post(NOBODY).header("content-type", "image/png").header("idempotency-key", "key");
    refused(&runner.client().send(bytes, br#"{"body":1}"#.to_vec()).await, 422, "idempotency-key-reused");
    assert_eq!(pushed(&runner).await, 1);
}

async fn each_job_of_many_has_its_part_of_the_key(runner: TestRunner) {
    let jobs = json!({ "jobs": [{ "body": 1 }, { "body": 1 }] });
    let first = push_with_key(&runner, NOBODY, "key", &jobs).await.json();
    assert_ne!(first["jobs"][0]["id"], first["jobs"][1]["id"]);
    assert_eq!(push_with_key(&runner, NOBODY, "key", &jobs).await.json(), first);
    assert_eq!(pushed(&runner).await, 2);
    let turned = json!({ "jobs": [{ "body": 1 }] });
    refused(&push_with_key(&runner, NOBODY, "key", &turned).await, 422, "idempotency-key-reused");
}

async fn a_key_is_a_topics_own(runner: TestRunner) {
    let elsewhere = "/v1/tenants/default/topics/nobody-else/jobs";
    let here = push_with_key(&runner, NOBODY, "key", &json!({})).await.json();
    let there = push_with_key(&runner, elsewhere, "key", &json!({})).await;
    assert!(there.status == 201 && there.json()["id"] != here["id"], "{}", there.text());
    let other_tenant = "/v1/tenants/acme/topics/nobody/jobs";
    assert_eq!(push_with_key(&runner, other_tenant, "key", &json!({})).await.status, 201);
}

async fn an_invalid_key_is_refused(runner: TestRunner) {
    let longest = "k".repeat(255);
    assert_eq!(push_with_key(&runner, NOBODY, &longest, &json!({})).await.status, 201);
    for bad in ["", "a b", "a\tb", &"k".repeat(256)] {
        refused(&push_with_key(&runner, NOBODY, bad, &json!({})).await, 400, "bad-request");
    }
    for own in [json!({ "id": "j" }), json!({ "unique": { "value": "u" } })] {
        let detail = refused(&push_with_key(&runner, NOBODY, "key", &own).await, 400, "bad-request");
        assert!(detail.contains("leave one of them out"), "{detail}");
    }
}
