//! The admin API: tokens, their limits, and what there is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gristmill::config::{LmstfySettings, Password};
use gristmill::server::HttpServerSettings;
use gristmill::token::TokenHash;
use gristmill_tests::http_client::{Answer, HttpClient};
use gristmill_tests::test_runner::{On, TestRunner};
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use serde_json::{Value, json};

use super::{Client, error, runner};

on_both_stores! {
    tokens_are_made_listed_by_id_and_deleted
    a_token_may_be_brought
    a_malformed_token_request_gets_lmstfys_error
    a_limit_is_added_set_shown_and_deleted
    limits_that_make_no_sense_are_refused
    namespaces_and_queues_are_listed
    the_access_log_can_be_switched
}

/// A new token of the namespace.
pub(super) async fn token(admin: &HttpClient, namespace: &str) -> String {
    token_with(admin, namespace, "").await
}

/// The same with more in the query.
pub(super) async fn token_with(admin: &HttpClient, namespace: &str, more: &str) -> String {
    let answer = admin.send(Request::post(format!("/token/{namespace}?description=test{more}")), Vec::new()).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.header("x-request-id").len(), 26);
    answer.json()["token"].as_str().unwrap().to_owned()
}

async fn post(admin: &HttpClient, path: &str, body: &str) -> Answer {
    admin.send(Request::post(path), body.into()).await
}

async fn delete(admin: &HttpClient, path: &str) -> Answer {
    admin.send(Request::delete(path), Vec::new()).await
}

async fn tokens_are_made_listed_by_id_and_deleted(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let (one, other) = (token(&admin, "ns").await, token(&admin, "ns").await);
    token(&admin, "other").await;
    let id = |token: &str| TokenHash::of(token).id().to_string();
    let list = admin.get("/token/ns").await;
    assert_eq!(list.json(), json!({ "tokens": { id(&one): "test", id(&other): "test" } }));
    assert!(!list.text().contains(&one));
    assert_eq!(delete(&admin, &format!("/token/ns/{one}")).await.status, 204);
    assert_eq!(delete(&admin, &format!("/token/other/{other}")).await.status, 204, "not there");
    let key = format!("default:{}", id(&other));
    assert_eq!(admin.get("/token/ns?pool=default").await.json(), json!({ "tokens": { &key: "test" } }));
    assert_eq!(delete(&admin, &format!("/token/ns/{}", id(&other))).await.status, 204);
    assert_eq!(admin.get("/token/ns").await.json(), json!({ "tokens": {} }));
}

async fn a_token_may_be_brought(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let mine = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let answer = post(&admin, &format!("/token/ns?description=mine&token={mine}"), "").await;
    assert_eq!((answer.status, answer.json()), (201, json!({ "token": mine })));
    let again = post(&admin, &format!("/token/ns?description=mine&token=default:{mine}"), "").await;
    assert_eq!((again.status, error(&again)), (400, "the token has already existed".into()));
    Client::of(&runner).with_token(mine).publish("q", "").await;
    let form = Request::post("/token/ns").header("content-type", "application/x-www-form-urlencoded");
    let answer = admin.send(form, b"description=a+form&token=01ARZ3NDEKTSV4RRFFQ69G5FAW".to_vec()).await;
    assert_eq!((answer.status, &answer.json()["token"]), (201, &"01ARZ3NDEKTSV4RRFFQ69G5FAW".into()));
}

async fn a_malformed_token_request_gets_lmstfys_error(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let long = "n".repeat(256);
    for (path, text) in [
        ("/token/n.s", "invalid description"),
        ("/token/ns?description=", "invalid description"),
        ("/token/n.s?description=d&token=0123456789012345678", "the user token was too short"),
        (format!("/token/{long}?description=d").as_str(), "the namespace name was too long"),
        ("/token/n.s?description=d", "namespace name contains forbidden characters"),
        ("/token/ns?description=d&pool=other", "the pool was not exists"),
        ("/token/ns?description=d&token=other:01234567890123456789", "the pool was not exists"),
    ] {
        let answer = post(&admin, path, "").await;
        assert_eq!((answer.status, error(&answer)), (400, text.into()), "{path}");
    }
    assert_eq!(admin.get("/token/ns?pool=other").await.status, 400);
    assert_eq!(delete(&admin, "/token/ns/other:x").await.status, 400);
    assert_eq!(delete(&admin, "/token/ns/x?pool=other").await.status, 400);
}

async fn a_limit_is_added_set_shown_and_deleted(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let token = token(&admin, "ns").await;
    let path = format!("/token/ns/{token}/limit");
    assert_eq!((admin.get(&path).await.status, admin.get(&path).await.json()), (404, Value::Null));
    let first = json!({ "read": 1, "write": 2, "interval": 3 });
    let answer = post(&admin, &path, &first.to_string()).await;
    assert_eq!((answer.status, answer.json()), (201, json!({ "limiter": first })));
    assert_eq!(post(&admin, &path, &first.to_string()).await.status, 500);
    let second = json!({ "read": 0, "write": 5, "interval": 6 });
    let answer = admin.send(Request::put(&path), second.to_string().into_bytes()).await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "limiter": second })));
    assert_eq!(admin.get(&path).await.json(), second);
    let all = json!([{ "namespace": "ns", "token": TokenHash::of(&token).id(), "limiter": second }]);
    assert_eq!(admin.get("/limits?force_update=true").await.json(), all);
    assert_eq!(delete(&admin, &path).await.json(), json!({ "msg": "success" }));
    assert_eq!((admin.get(&path).await.status, admin.get("/limits").await.json()), (404, json!([])));
}

async fn limits_that_make_no_sense_are_refused(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let path = format!("/token/ns/{}/limit", token(&admin, "ns").await);
    let none = json!({ "read": 0, "write": 0, "interval": 5 });
    let answer = post(&admin, &path, &none.to_string()).await;
    assert_eq!((answer.status, answer.json()), (400, json!({ "limiter": none })));
    let answer = post(&admin, &path, r#"{"read": 1}"#).await;
    assert_eq!((answer.status, error(&answer)), (400, "interval should be > 0".into()));
    for bad in ["", "[]", r#"{"read": -1, "interval": 1}"#, r#"{"read": 4294967296, "interval": 1}"#] {
        assert_eq!(post(&admin, &path, bad).await.status, 400, "{bad}");
    }
    let most = json!({ "read": u32::MAX, "write": u32::MAX, "interval": u32::MAX });
    assert_eq!(post(&admin, &path, &most.to_string()).await.status, 201);
    assert_eq!(post(&admin, "/token/ns/01234567890123456789/limit", &most.to_string()).await.status, 404);
}

async fn namespaces_and_queues_are_listed(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let client = Client::of(&runner);
    client.publish("q1", "").await;
    client.publish("-q2", "").await;
    client.within("_other").publish("q", "").await;
    assert_eq!(admin.get("/info").await.json(), json!({ "ns": ["-q2", "q1"], "_other": ["q"] }));
    let nothing = admin.get("/info?pool=other").await;
    assert_eq!((nothing.status, nothing.body.len()), (200, 0));
    assert_eq!(admin.get("/pools").await.json(), json!(["default"]));
    assert!(admin.get("/version").await.json()["version"].is_string());
    assert_eq!(admin.get("/debug/pprof/").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_keep_others_out() {
    let accounts = [("ann".to_owned(), Password::of(b"secret"))].into();
    let lmstfy = LmstfySettings { accounts, ..LmstfySettings::default() };
    let settings = HttpServerSettings { lmstfy, ..HttpServerSettings::default() };
    let runner = TestRunner::start_with(settings, On::Memory, "", &[]).await;
    let admin = runner.lmstfy_admin();
    for path in ["/token/ns", "/limits", "/info", "/pools", "/accesslog"] {
        let answer = admin.get(path).await;
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.header("www-authenticate").starts_with("Basic "));
        for (said, status) in [("ann:wrong", 401), ("ann:secret", 200)] {
            let said = format!("Basic {}", STANDARD.encode(said));
            assert_eq!(admin.send(Request::get(path).header("Authorization", said), Vec::new()).await.status, status);
        }
    }
    assert_eq!(admin.get("/version").await.status, 200);
    let guess = |password: &str| {
        let said = format!("Basic {}", STANDARD.encode(format!("ann:{password}")));
        admin.send(Request::get("/info").header("Authorization", said), Vec::new())
    };
    let refused = until("a guess too many", SOON, async || {
        let answer = guess("wrong").await;
        (answer.status == 429).then_some(answer)
    })
    .await;
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    until("the right password to be taken again", SOON, async || (guess("secret").await.status == 200).then_some(()))
        .await;
}

async fn the_access_log_can_be_switched(runner: TestRunner) {
    let admin = runner.lmstfy_admin();
    let status = |answer: Answer| answer.json()["status"].as_str().unwrap().to_owned();
    assert_eq!(status(admin.get("/accesslog").await), "disabled");
    assert_eq!(status(post(&admin, "/accesslog?status=enable", "").await), "enabled");
    assert_eq!(status(admin.get("/accesslog").await), "enabled");
    Client::of(&runner).publish("q", "").await;
    assert_eq!(status(post(&admin, "/accesslog?status=disable", "").await), "disabled");
    let answer = post(&admin, "/accesslog?status=other", "").await;
    assert_eq!((answer.status, error(&answer)), (400, "invalid status".into()));
    let page = Request::post("/accesslog?status=enable").header("Sec-Fetch-Site", "cross-site");
    assert_eq!(admin.send(page, Vec::new()).await.status, 403);
}
