//! One job: looked at, waited for, followed, cancelled.

use gristmill::store::JobState;
use gristmill_tests::test_runner::TestRunner;
use gristmill_tests::wait::{SOON, until};
use http_body_util::BodyExt;
use hyper::Request;
use puppet::{End, Script, Step};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{ECHO, NOBODY, PUPPET, job_path, refused, runner, script, until_state};
use crate::metrics::stream::Stream;

on_both_stores! {
    waiting_ends_when_the_job_ends
    a_wait_ends_with_a_job_of_which_nothing_is_kept
    a_wait_ends_by_itself
    an_event_stream_of_a_job_has_every_state_until_the_end
    an_event_of_a_large_job_is_brief
    a_job_is_cancelled_once
    a_waiting_job_is_changed
    a_running_job_is_killed
    a_job_that_is_over_is_told_from_one_that_never_was
    a_running_job_shows_how_far_it_is
    waiting_for_an_unknown_job_ends_at_once
    a_request_keeps_its_id
}

fn slow() -> Value {
    script(&Script::new([Step::WaitUntilCancelled]))
}

async fn running(runner: &TestRunner, job: &Value) -> Value {
    let id = runner.client().post(PUPPET, job).await.json()["id"].clone();
    until_state(runner, &id, |state| matches!(state, JobState::Running { .. })).await;
    id
}

async fn waiting_ends_when_the_job_ends(runner: TestRunner) {
    let mut job = slow();
    job["keep_result_ms"] = json!(600_000);
    let id = running(&runner, &job).await;
    let (path, client) = (format!("{}?wait_ms=60000", job_path(&id)), runner.client());
    let waiting = tokio::spawn(async move { client.get(&path).await });
    assert_eq!(runner.client().delete(&job_path(&id)).await.json()["status"], "stopping");
    let view = timeout(SOON, waiting).await.expect("it ends with the job").unwrap().json();
    assert_eq!(view["state"], "finished");
}

async fn a_wait_ends_with_a_job_of_which_nothing_is_kept(runner: TestRunner) {
    let id = running(&runner, &slow()).await;
    let (path, client) = (format!("{}?wait_ms=60000", job_path(&id)), runner.client());
    let waiting = tokio::spawn(async move { client.get(&path).await });
    runner.client().delete(&job_path(&id)).await;
    let answer = timeout(SOON, waiting).await.expect("it ends with the job").unwrap();
    // Had it not begun to look before the end, it is unknown.
    assert!(answer.status == 404 || answer.json()["state"] == "finished", "{}", answer.text());
}

async fn a_wait_ends_by_itself(runner: TestRunner) {
    let id = runner.client().post(NOBODY, &json!({})).await.json()["id"].clone();
    let view = runner.client().get(&format!("{}?wait_ms=20", job_path(&id))).await.json();
    assert_eq!((&view["state"], &view["id"]), (&json!("ready"), &id));
}

async fn an_event_stream_of_a_job_has_every_state_until_the_end(runner: TestRunner) {
    let id = running(&runner, &slow()).await;
    let request = Request::get(job_path(&id)).header("accept", "text/event-stream");
    let mut response = runner.client().begin(request, Vec::new()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let first = timeout(SOON, response.frame()).await.unwrap().unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&first).starts_with("event: state\ndata: {"), "{first:?}");
    runner.client().delete(&job_path(&id)).await;
    let rest = timeout(SOON, response.into_body().collect()).await.expect("it ends").unwrap().to_bytes();
    let text = String::from_utf8([first, rest].concat()).unwrap();
    let states: Vec<Value> = text
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("event: state\ndata: "))
        .map(|data| serde_json::from_str::<Value>(data).unwrap()["state"].clone())
        .collect();
    assert_eq!((states.first(), states.last()), (Some(&json!("running")), Some(&json!("finished"))), "{text}");
}

async fn an_event_of_a_large_job_is_brief(runner: TestRunner) {
    let body = "x".repeat(100_000);
    let id = runner.client().post(NOBODY, &json!({ "body": body })).await.json()["id"].clone();
    let request = Request::get(job_path(&id)).header("accept", "text/event-stream");
    let mut response = runner.client().begin(request, Vec::new()).await;
    let event = timeout(SOON, response.frame()).await.unwrap().unwrap().unwrap().into_data().unwrap();
    let event: Value = serde_json::from_slice(event.strip_prefix(b"event: state\ndata: ").unwrap()).unwrap();
    assert_eq!((&event["id"], &event["state"], &event["job"]), (&id, &json!("ready"), &json!(null)));
    let whole = runner.client().get(&format!("{}?wait_ms=1", job_path(&id))).await.json();
    assert!(!whole["job"].is_null(), "{whole}");
}

async fn a_job_is_cancelled_once(runner: TestRunner) {
    let later = json!({ "delay_ms": 3_600_000, "keep_result_ms": 600_000 });
    let id = runner.client().post(NOBODY, &later).await.json()["id"].clone();
    let answer = runner.client().delete(&job_path(&id)).await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "id": id, "status": "gone" })));
    assert_eq!(runner.client().get(&job_path(&id)).await.json()["result"]["outcome"], "cancelled");
    refused(&runner.client().delete(&job_path(&id)).await, 409, "too-late");
    refused(&runner.client().delete("/v1/tenants/default/jobs/unheard-of").await, 404, "job-unknown");
}

async fn a_waiting_job_is_changed(runner: TestRunner) {
    let id = runner.client().post(NOBODY, &json!({ "delay_ms": 3_600_000 })).await.json()["id"].clone();
    let patch = async |path: &str, change: Value| {
        let request = Request::patch(path).header("content-type", "application/json");
        runner.client().send(request, change.to_string().into_bytes()).await
    };
    let change = json!({ "due": { "at_ms": 4_000_000_000_000_u64 }, "priority": "high" });
    let answer = patch(&job_path(&id), change.clone()).await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "id": id, "status": "changed" })));
    let job = runner.client().get(&job_path(&id)).await.json();
    assert_eq!((&job["until_ms"], &job["job"]["spec"]["priority"]), (&change["due"]["at_ms"], &change["priority"]));
    assert_eq!(patch(&job_path(&id), change).await.json()["status"], "unchanged");

    let many = json!({ "ids": [id, "unheard-of"], "due": "now" });
    let answer = runner.client().post("/v1/tenants/default/change", &many).await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "changed": ["changed", "too-late"] })));
    assert_eq!(runner.client().get(&job_path(&id)).await.json()["state"], "ready");

    let far = json!({ "due": { "after_ms": 3_155_760_000_001_u64 } });
    for wrong in
        [json!({}), far, json!({ "due": "tomorrow" }), json!({ "priority": "urgent" }), json!({ "delay_ms": 5 })]
    {
        refused(&patch(&job_path(&id), wrong).await, 400, "bad-request");
    }
    refused(&runner.client().post("/v1/tenants/default/change", &json!({ "ids": [id] })).await, 400, "bad-request");
    runner.client().delete(&job_path(&id)).await;
    let now = json!({ "due": "now" });
    refused(&patch("/v1/tenants/default/jobs/unheard-of", now.clone()).await, 404, "job-unknown");
    let over = runner.client().post(ECHO, &json!({ "body": 1, "keep_result_ms": 600_000 })).await.json()["id"].clone();
    runner.client().get(&format!("{}?wait_ms=60000", job_path(&over))).await;
    refused(&patch(&job_path(&over), now).await, 409, "too-late");
}

async fn a_running_job_is_killed(runner: TestRunner) {
    let mut job = script(&Script::end(End::InfiniteLoop));
    job["keep_result_ms"] = json!(600_000);
    let id = running(&runner, &job).await;
    let path = job_path(&id);
    refused(&runner.client().delete(&format!("{path}?kill=perhaps")).await, 400, "bad-request");
    let answer = runner.client().delete(&format!("{path}?kill=true")).await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "id": id, "status": "stopping" })));
    let answer = runner.client().get(&format!("{path}?wait_ms=60000")).await;
    assert_eq!(answer.json()["result"]["outcome"], "cancelled");
    let many = json!({ "ids": [id], "kill": true });
    let answer = runner.client().post("/v1/tenants/default/cancel", &many).await;
    assert_eq!(answer.json(), json!({ "cancelled": ["too-late"] }));
}

async fn a_job_that_is_over_is_told_from_one_that_never_was(runner: TestRunner) {
    let id = runner.client().post(ECHO, &json!({ "body": 1 })).await.json()["id"].clone();
    runner.client().get(&format!("{}?wait_ms=60000", job_path(&id))).await;
    let view = runner.client().get(&job_path(&id)).await.json();
    assert_eq!(
        (&view["state"], &view["attempts"], &view["job"], &view["result"]),
        (&json!("finished"), &json!(1), &Value::Null, &Value::Null)
    );
    assert_eq!((&view["ended"]["outcome"], &view["ended"]["topic"]), (&json!("complete"), &json!("echo")));
    assert!(view["ended"]["at_ms"].as_u64() > Some(1_700_000_000_000), "{view}");
    assert_eq!(runner.client().get(&format!("{}?wait_ms=60000", job_path(&id))).await.json(), view);
    let why = runner.client().get(&format!("{}/why", job_path(&id))).await.json();
    assert_eq!(why["reason"], "finished");
    refused(&runner.client().delete(&job_path(&id)).await, 409, "too-late");
    let other = runner.client().post(ECHO, &json!({ "body": 1, "keep_result_ms": 600_000 })).await.json()["id"].clone();
    let other_view = runner.client().get(&format!("{}?wait_ms=60000", job_path(&other))).await.json();
    assert_eq!(other_view["state"], "finished");
    let kept = runner.client().get(&job_path(&other)).await.json();
    assert_eq!((&kept["result"]["outcome"], &kept["ended"]["outcome"]), (&json!("complete"), &json!("complete")));
    let found = |query: &str| format!("/v1/tenants/default/jobs?q={query}");
    let ids = async |query: &str| {
        let found = runner.client().get(&found(query)).await.json();
        found["jobs"].as_array().unwrap().iter().map(|job| job["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids("state:finished%20topic:echo").await, [other.clone(), id.clone()]);
    assert_eq!(ids(&format!("id:{}", id.as_str().unwrap())).await, [id]);
    assert_eq!(ids("topic:echo").await, [] as [Value; 0]);
}

async fn a_running_job_shows_how_far_it_is(runner: TestRunner) {
    let events = "/v1/tenants/default/events?kind=job-progress";
    let mut stream = Stream::open(&runner, events).await;
    let job = script(&Script::new([Step::Progress(4_200, Some("42 of 100 rows".into())), Step::WaitUntilCancelled]));
    let id = runner.client().post(PUPPET, &job).await.json()["id"].clone();
    let path = job_path(&id);
    let progress = until("the progress", SOON, async || {
        let progress = runner.client().get(&path).await.json()["progress"].clone();
        (!progress.is_null()).then_some(progress)
    })
    .await;
    assert_eq!(progress, json!({ "basis_points": 4_200, "note": "42 of 100 rows" }));
    for list in ["topics/puppet/jobs?state=running", "jobs?q=state:running"] {
        let listed = runner.client().get(&format!("/v1/tenants/default/{list}")).await.json();
        assert_eq!(listed["jobs"][0]["progress"], progress, "{list}");
    }
    let event = stream.next().await.unwrap();
    assert_eq!((&event.data["job"], &event.data["basis_points"]), (&id, &json!(4_200)));
    assert!(!event.data.to_string().contains("rows"), "{event:?}");
    runner.client().delete(&path).await;
}

async fn waiting_for_an_unknown_job_ends_at_once(runner: TestRunner) {
    let path = "/v1/tenants/default/jobs/unheard-of";
    refused(&runner.client().get(&format!("{path}?wait_ms=60000")).await, 404, "job-unknown");
    let request = Request::get(path).header("accept", "text/html, text/event-stream;q=0.9");
    refused(&runner.client().send(request, Vec::new()).await, 404, "job-unknown");
    // Another tenant's job is as unknown as none at all.
    let id = runner.client().post(NOBODY, &json!({})).await.json()["id"].clone();
    let elsewhere = job_path(&id).replace("default", "acme");
    refused(&runner.client().get(&elsewhere).await, 404, "job-unknown");
}

async fn a_request_keeps_its_id(runner: TestRunner) {
    let longest = "x".repeat(64);
    for id in ["trace-1", &longest] {
        let request = Request::get("/v1").header("x-request-id", id);
        assert_eq!(runner.client().send(request, Vec::new()).await.header("x-request-id"), id);
    }
    for insane in ["", "a b", "x\"y", &"x".repeat(65)] {
        let request = Request::get("/v1/unheard-of").header("x-request-id", insane);
        let id = runner.client().send(request, Vec::new()).await.header("x-request-id").to_owned();
        assert!(id.len() == 26 && id != insane, "{id}");
    }
    let answer = runner.client().post(ECHO, &json!({ "x": 1 })).await;
    assert_eq!((answer.status, answer.header("x-request-id").len()), (400, 26));
}
