//! Limits of publishes and consumes.

use gristmill_tests::http_client::HttpClient;
use gristmill_tests::test_runner::TestRunner;
use hyper::Request;
use serde_json::json;

use super::admin::token;
use super::{Client, runner};

on_both_stores! {
    only_successes_count_and_the_answer_says_when_to_come_back
    a_batch_counts_once_and_what_is_not_throttled_never
}

/// A client whose token has limits, with an interval that no test outlasts.
async fn limited(runner: &TestRunner, admin: &HttpClient, read: u32, write: u32) -> (Client, String) {
    let token = token(admin, "ns").await;
    let limit = json!({ "read": read, "write": write, "interval": 3600 });
    let request = Request::post(format!("/token/ns/{token}/limit"));
    assert_eq!(admin.send(request, serde_json::to_vec(&limit).unwrap()).await.status, 201);
    (Client::of(runner).with_token(&token), token)
}

async fn only_successes_count_and_the_answer_says_when_to_come_back(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let (client, token) = limited(&runner, &admin, 1, 2).await;
    for _ in 0..5 {
        assert_eq!(client.get("q").await.status, 404);
        assert_eq!(client.put("q?tries=0", b"").await.status, 400);
    }
    client.publish("q", "").await;
    client.publish("q", "").await;
    assert_eq!(client.get("q").await.status, 200);
    for (answer, action) in [(client.put("q", b"").await, "produce"), (client.get("q").await, "consume")] {
        let text = format!("{action} reach the limit rate, please retry later");
        assert_eq!((answer.status, &answer.json()["msg"]), (429, &text.into()));
        assert!(answer.header("retry-after").parse::<u64>().unwrap() <= 3600);
        assert!(!answer.text().contains(&token));
    }
}

async fn a_batch_counts_once_and_what_is_not_throttled_never(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let (client, _) = limited(&runner, &admin, 1, 1).await;
    assert_eq!(client.put("q/bulk", b"[1,2,3]").await.status, 201);
    assert_eq!(client.put("q/bulk", b"[1]").await.status, 429);
    let jobs = client.get("q?count=2").await.json();
    assert_eq!((jobs.as_array().unwrap().len(), client.get("q").await.status), (2, 429));
    let id = jobs[0]["job_id"].as_str().unwrap();
    client.publish(&format!("q/job/{id}"), "again").await;
    for path in ["q/peek", "q/size", "q/deadletter"] {
        assert_eq!(client.get(path).await.status, 200, "{path}");
    }
}
