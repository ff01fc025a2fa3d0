//! What is done to a token holds at once, on every server.

use std::sync::Arc;

use gristmill::server::{HttpServer, HttpServerSettings};
use gristmill::store::redis::RedisStore;
use gristmill::token::{Scope, TokenHash};
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::test_runner::{On, TestRunner};
use gristmill_tests::wait::{SOON, until};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Request, Response};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::token;

/// Another server on the same Redis.
pub(crate) async fn second(runner: &TestRunner) -> (HttpServer, HttpClient) {
    let store = RedisStore::connect(&runner.redis.as_ref().unwrap().url(), "gm").await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server =
        HttpServer::start(listener, Arc::new(store), "the second", &HttpServerSettings::default()).await.unwrap();
    let client = HttpClient::new(server.address());
    (server, client)
}

pub(crate) async fn until_answered(what: &str, client: &HttpClient, status: u16) {
    until(what, SOON, async || (client.get("/v1").await.status == status).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_revoked_at_one_server_is_refused_at_another() {
    let runner = super::runner(On::Redis).await;
    let (server, there) = second(&runner).await;
    assert_eq!(there.get("/v1").await.status, 200, "no tokens yet");
    let operator = runner.client().with_token(&token(&*runner.store, None, &Scope::ALL).await);
    until_answered("the other server to require a token", &there, 401).await;

    let made = operator.post("/v1/tokens", &json!({ "tenant": "acme", "scopes": ["read"] })).await.json();
    let text = made["text"].as_str().unwrap();
    let (here, there) = (runner.client().with_token(text), there.with_token(text));
    assert_eq!((here.get("/v1").await.status, there.get("/v1").await.status), (200, 200));
    let path = format!("/v1/tokens/{}", made["token"]["id"].as_str().unwrap());
    assert_eq!(operator.delete(&path).await.json()["revoked"], true);
    assert_eq!(here.get("/v1").await.status, 401, "where it was revoked, with the answer");
    until_answered("the other server to hear of it", &there, 401).await;
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_set_at_one_server_holds_at_another() {
    let runner = super::runner(On::Redis).await;
    let (server, there) = second(&runner).await;
    let operator = runner.client().with_token(&token(&*runner.store, None, &[Scope::Admin]).await);
    let text = token(&*runner.store, Some("acme"), &[Scope::Read]).await;
    let there = there.with_token(&text);
    until_answered("the token to be known", &there, 200).await;
    let request = Request::put(format!("/v1/tokens/{}/limits", TokenHash::of(&text).id()));
    let request = request.header("content-type", "application/json");
    let limits = br#"{"requests":{"per_second":1,"burst":1}}"#.to_vec();
    assert_eq!(operator.send(request, limits).await.status, 200);
    until_answered("the other server to hear of it", &there, 429).await;
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_store_refuses_tokens_and_keeps_the_process_alive() {
    let mut runner = super::runner(On::Redis).await;
    let text = token(&*runner.store, Some("acme"), &[Scope::Read]).await;
    until_answered("the token to be known", &runner.client().with_token(&text), 200).await;
    runner.redis.as_mut().unwrap().kill();
    until_answered("the memory to end", &runner.client().with_token("gm_nobody's"), 503).await;
    until_answered("the memory of the token to end", &runner.client().with_token(&text), 503).await;
    assert_eq!(runner.client().get("/v1").await.json()["code"], "store-unavailable");
    assert_eq!(runner.client().get("/healthz").await.status, 200);
    runner.redis.as_mut().unwrap().resume().await;
    until_answered("the token to be known again", &runner.client().with_token(&text), 200).await;
    assert_eq!(runner.client().get("/v1").await.status, 401);
}

/// Reads a stream until it ends.
async fn end_of(what: &str, stream: Response<Incoming>) {
    assert_eq!(stream.status().as_u16(), 200, "{what}");
    timeout(SOON, stream.into_body().collect()).await.expect(what).ok();
}

pub(crate) async fn streams(client: &HttpClient, job: &str) -> Vec<(&'static str, Response<Incoming>)> {
    let begin = async |path: &str| {
        let request = Request::get(path).header("accept", "text/event-stream");
        client.begin(request, Vec::new()).await
    };
    vec![
        ("events", begin("/v1/tenants/acme/events").await),
        ("signals", begin("/v1/signals?tenants=acme").await),
        ("a job's changes", begin(&format!("/v1/tenants/acme/jobs/{job}")).await),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_with_their_token_on_every_server() {
    let runner = super::runner(On::Redis).await;
    let (server, there) = second(&runner).await;
    let job = super::push(&runner, "acme/mail").await;
    let operator = runner.client().with_token(&token(&*runner.store, None, &Scope::ALL).await);
    let text = token(&*runner.store, Some("acme"), &[Scope::Read]).await;
    let (here, there) = (runner.client().with_token(&text), there.with_token(&text));
    until_answered("the token to be known", &there, 200).await;
    let mut open = streams(&here, job.as_str()).await;
    open.extend(streams(&there, job.as_str()).await);
    let path = format!("/v1/tenants/acme/jobs/{job}?wait_ms=60000");
    let waiting = tokio::spawn(async move { here.get(&path).await.status });
    let revoked = operator.delete(&format!("/v1/tokens/{}", TokenHash::of(&text).id())).await;
    assert_eq!(revoked.json()["revoked"], true);
    for (what, stream) in open {
        end_of(what, stream).await;
    }
    assert_eq!(timeout(SOON, waiting).await.expect("the wait to end").unwrap(), 401);
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_when_their_token_expires() {
    let runner = super::runner(On::Memory).await;
    let job = super::push(&runner, "acme/mail").await;
    let operator = runner.client().with_token(&token(&*runner.store, None, &Scope::ALL).await);
    let new = json!({ "tenant": "acme", "scopes": ["read"], "expires_in_ms": 3000 });
    let made = operator.post("/v1/tokens", &new).await.json();
    let client = runner.client().with_token(made["text"].as_str().unwrap());
    for (what, stream) in streams(&client, job.as_str()).await {
        // On a machine that stands still the token may have expired before.
        if stream.status().as_u16() == 200 {
            end_of(what, stream).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_revoked_with_those_that_it_made() {
    for on in [On::Memory, On::Redis] {
        let runner = super::runner(on).await;
        let operator = runner.client().with_token(&token(&*runner.store, None, &Scope::ALL).await);
        let make = async |client: &HttpClient, scopes: &[&str]| {
            let made = client.post("/v1/tenants/acme/tokens", &json!({ "scopes": scopes })).await.json();
            (made["text"].as_str().unwrap().to_owned(), made["token"].clone())
        };
        let (text, maker) = make(&operator, &["admin", "read"]).await;
        let maker_client = runner.client().with_token(&text);
        let (text, child) = make(&maker_client, &["read"]).await;
        assert_eq!(child["made_by"], maker["id"]);
        let client = runner.client().with_token(&text);
        assert_eq!(client.get("/v1").await.status, 200);
        operator.delete(&format!("/v1/tokens/{}", maker["id"].as_str().unwrap())).await;
        assert_eq!((maker_client.get("/v1").await.status, client.get("/v1").await.status), (401, 401));
        assert_eq!(operator.get("/v1").await.status, 200);
        assert_eq!(runner.store.tokens(None).await.unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_shares_the_limit_of_the_one_that_made_it() {
    let runner = super::runner(On::Memory).await;
    let text = super::limited(&*runner.store, Some("acme"), &[Scope::Admin, Scope::Read], Some(20)).await;
    let maker = runner.client().with_token(&text);
    let mut children = Vec::new();
    for _ in 0..5 {
        let limits = json!({ "requests": { "per_second": 1, "burst": 20 } });
        let new = json!({ "scopes": ["read"], "limits": limits });
        let made = until("a request to be let in", SOON, async || {
            let made = maker.post("/v1/tenants/acme/tokens", &new).await;
            (made.status == 201).then(|| made.json()["text"].as_str().unwrap().to_owned())
        })
        .await;
        children.push(runner.client().with_token(&made));
    }
    // Each child alone would be let in 20 times.
    let burst = async || {
        let asked = children.iter().flat_map(|child| std::iter::repeat_n(child, 15));
        let asked = asked.map(|child| {
            let child = child.clone();
            tokio::spawn(async move { child.get("/v1").await.status })
        });
        let asked: Vec<_> = asked.collect();
        let mut refused = 0;
        for asked in asked {
            refused += usize::from(asked.await.unwrap() == 429);
        }
        (refused > 0).then_some(())
    };
    until("a request too many", SOON, burst).await;
}

/// As after `FLUSHALL`: the server that was closed knows it, and so does the store again, for the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_after_the_tokens_were_lost_is_closed() {
    let runner = super::runner(On::Redis).await;
    token(&*runner.store, None, &Scope::ALL).await;
    until_answered("the server to require a token", &runner.client(), 401).await;
    let redis = runner.redis.as_ref().unwrap();
    redis.ask::<String>("FLUSHALL", &[]).await.unwrap();
    // Also if no request asks meanwhile.
    until("the store to know it again", SOON, async || {
        redis.ask::<Option<String>>("GET", &["gm:{tokens}:requirement"]).await.flatten()
    })
    .await;
    let (server, there) = second(&runner).await;
    assert_eq!(there.get("/v1").await.status, 401);
    server.shutdown().await;
}
