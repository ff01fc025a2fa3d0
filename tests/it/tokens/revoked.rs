//! What is done to a token holds at once, on every server.

use std::sync::Arc;

use gristmill::server::{HttpServer, HttpServerSettings};
use gristmill::store::redis::RedisStore;
use gristmill::token::{Scope, TokenHash};
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::test_runner::{On, TestRunner};
use gristmill_tests::wait::{SOON, until};
use serde_json::json;
use tokio::net::TcpListener;

use super::token;

/// Another server on the same Redis.
async fn second(runner: &TestRunner) -> (HttpServer, HttpClient) {
    let store = RedisStore::connect(&runner.redis.as_ref().unwrap().url(), "gm").await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server =
        HttpServer::start(listener, Arc::new(store), "the second", &HttpServerSettings::default()).await.unwrap();
    let client = HttpClient::new(server.address());
    (server, client)
}

async fn until_answered(what: &str, client: &HttpClient, status: u16) {
    until(what, SOON, async || (client.get("/v1").await.status == status).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_revoked_at_one_server_is_refused_at_another() {
    let runner = super::runner(On::Redis).await;
    let (server, there) = second(&runner).await;
    assert_eq!(there.get("/v1").await.status, 200, "no tokens yet");
    let operator = runner.client().with_token(&token(&*runner.store, None, &Scope::ALL).await);
    until_answered("the first token to close the other door", &there, 401).await;

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
    let request = hyper::Request::put(format!("/v1/tokens/{}/limits", TokenHash::of(&text).id()));
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
    assert_eq!(runner.client().get("/v1").await.json()["code"], "store-away");
    assert_eq!(runner.client().get("/healthz").await.status, 200);
    runner.redis.as_mut().unwrap().resume().await;
    until_answered("the token to be known again", &runner.client().with_token(&text), 200).await;
    assert_eq!(runner.client().get("/v1").await.status, 401);
}
