//! How much may be asked for: up to the limit, and not one more.

use std::io::Read as _;

use gristmill::server::{HttpLimits, HttpServerSettings};
use gristmill::token::Scope;
use gristmill_tests::http_client::{Answer, HttpClient};
use gristmill_tests::test_runner::{On, TestRunner};
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::routes::{About, ROUTES, push_of};
use super::{limited, token};

on_both_stores! {
    a_token_over_its_request_limit_is_refused
    a_tenants_tokens_share_its_requests
    a_tenant_has_so_many_requests_at_once
    a_tenants_limit_of_stored_jobs_refuses_the_next_push
    a_tenants_limit_of_topics_refuses_a_push_to_one_more
    a_body_may_be_as_long_as_the_tenants_limit
}

const LIMITS: &str = "\
[tenants.acme.topics.mail]
[tenants.acme.limits]
stored-jobs = 3
payload = 3
concurrency = 2
[tenants.busy.topics.mail]
[tenants.busy.limits]
requests-per-second = 5
[tenants.small.topics.mail]
[tenants.small.limits]
topics = 2";

async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, LIMITS, &[]).await
}

fn assert_wait(answer: &Answer, code: &str) {
    assert_eq!((answer.status, &answer.json()["code"]), (429, &json!(code)), "{}", answer.text());
    assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
}

/// Asks until it is too much; counts those that were let in. Many ask at once: one after the other they might be slower
/// than they may be.
async fn let_in(clients: &[&HttpClient]) -> (usize, Answer) {
    let mut count = 0;
    let refused = until("one too many", SOON, async || {
        let ask = |client: &&HttpClient| {
            let client = HttpClient::clone(client);
            tokio::spawn(async move { client.get("/v1").await })
        };
        let asked: Vec<_> = clients.iter().cycle().take(20).map(ask).collect();
        let mut refused = None;
        for asked in asked {
            let answer = asked.await.unwrap();
            count += usize::from(answer.status == 200);
            refused = refused.or((answer.status != 200).then_some(answer));
        }
        refused
    })
    .await;
    (count, refused)
}

async fn a_token_over_its_request_limit_is_refused(runner: TestRunner) {
    let one = runner.client().with_token(&limited(&*runner.store, Some("free"), &[Scope::Read], Some(4)).await);
    let other = runner.client().with_token(&token(&*runner.store, Some("free"), &[Scope::Read]).await);
    let (count, refused) = let_in(&[&one]).await;
    assert!(count >= 4, "{count}");
    assert_wait(&refused, "rate-limited");
    assert_eq!(other.get("/v1").await.status, 200, "others are not held up");
    until("the next second", SOON, async || (one.get("/v1").await.status == 200).then_some(())).await;
}

async fn a_tenants_tokens_share_its_requests(runner: TestRunner) {
    let one = runner.client().with_token(&token(&*runner.store, Some("busy"), &[Scope::Read]).await);
    let two = runner.client().with_token(&token(&*runner.store, Some("busy"), &[Scope::Read]).await);
    let operator = runner.client().with_token(&token(&*runner.store, None, &[Scope::Read]).await);
    let (count, refused) = let_in(&[&one, &two]).await;
    assert!(count >= 5, "{count}");
    assert_wait(&refused, "rate-limited");
    assert_eq!(operator.get("/v1/tenants/busy/topics").await.status, 200, "whoever keeps the server is no tenant");
}

async fn a_tenant_has_so_many_requests_at_once(runner: TestRunner) {
    let client = runner.client().with_token(&token(&*runner.store, Some("acme"), &[Scope::Read]).await);
    let listen = async || client.begin(Request::get("/v1/signals?tenants=acme"), Vec::new()).await;
    let (one, two) = (listen().await, listen().await);
    assert_eq!((one.status().as_u16(), two.status().as_u16()), (200, 200));
    assert_wait(&client.get("/v1").await, "rate-limited");
    drop(one);
    until("a request to end", SOON, async || (client.get("/v1").await.status == 200).then_some(())).await;
}

async fn a_tenants_limit_of_stored_jobs_refuses_the_next_push(runner: TestRunner) {
    let client = runner.client().with_token(&token(&*runner.store, Some("acme"), &[Scope::Push]).await);
    assert_wait(&client.post("/v1/jobs", &push_of("acme", 4, "")).await, "too-many-jobs");
    let jobs = push_of("acme", 3, "");
    assert_eq!(client.post("/v1/jobs", &jobs).await.status, 200);
    assert_wait(&client.post("/v1/jobs", &push_of("acme", 1, "")).await, "too-many-jobs");
    let (acme, id) = ("acme".parse().unwrap(), jobs["jobs"][0]["id"].as_str().unwrap().parse().unwrap());
    runner.store.cancel(&acme, &[id]).await.unwrap();
    let one = push_of("acme", 1, "");
    until("the place to be free", SOON, async || (client.post("/v1/jobs", &one).await.status == 200).then_some(()))
        .await;
    let counts = runner.store.counts(&acme).await.unwrap();
    assert_eq!(counts[0].ready + counts[0].delayed, 3);
}

async fn a_tenants_limit_of_topics_refuses_a_push_to_one_more(runner: TestRunner) {
    let client = runner.client().with_token(&token(&*runner.store, Some("small"), &[Scope::Push]).await);
    let push = async |topic: &str| client.post(&format!("/v1/tenants/small/topics/{topic}/jobs"), &json!({})).await;
    for topic in ["one", "two"] {
        let answer = push(topic).await;
        assert!(answer.status < 300, "{}", answer.text());
        let id = answer.json()["id"].as_str().unwrap().parse().unwrap();
        runner.store.cancel(&"small".parse().unwrap(), &[id]).await.unwrap();
    }
    let refused = push("three").await;
    assert_wait(&refused, "too-many-topics");
    assert!(refused.text().contains("gristmill topics purge"), "{}", refused.text());
    for topic in ["one", "mail"] {
        assert!(push(topic).await.status < 300, "a topic that is there, and one of the manifest");
    }
    assert!(runner.store.forget_topic(&"small/two".parse().unwrap()).await.unwrap());
    until("the place to be free", SOON, async || (push("three").await.status < 300).then_some(())).await;
}

async fn a_body_may_be_as_long_as_the_tenants_limit(runner: TestRunner) {
    let client = runner.client().with_token(&token(&*runner.store, Some("acme"), &[Scope::Push]).await);
    let refused = client.post("/v1/jobs", &push_of("acme", 1, "YWJjZA==")).await;
    assert_eq!((refused.status, &refused.json()["code"]), (413, &json!("too-large")), "{}", refused.text());
    assert_eq!(client.post("/v1/jobs", &push_of("acme", 1, "YWJj")).await.status, 200);
}

/// A runner with the topic `mail` in two tenants, and these limits.
async fn limited_server(limits: HttpLimits) -> TestRunner {
    let manifest = "[tenants.acme.topics.mail]\n[tenants.other.topics.mail]";
    let settings = HttpServerSettings { limits, ..HttpServerSettings::default() };
    TestRunner::start_with(settings, On::Memory, manifest, &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_waits_for_a_second_permit_while_it_holds_one() {
    // One permit in all: what takes a second one waits until its time is over.
    let runner = limited_server(HttpLimits { at_once: 1, request_time: 4 * SOON, ..HttpLimits::default() }).await;
    let client = runner.client().with_token(&token(&*runner.store, None, &Scope::ALL).await);
    let about = About { tenant: "acme", topic: "mail", ..About::NOTHING };
    let lmstfy = ["/size", "/peek", "/deadletter", "/job/none", ""].map(|rest| ("GET", rest, ""));
    let waiting = [("GET", "/jobs/none?wait_ms=1", ""), ("POST", "/topics/mail/jobs?wait_ms=1", "{}")];
    let others = lmstfy.map(|(method, rest, body)| (method, format!("/api/acme/mail{rest}"), body)).into_iter();
    let others = others.chain(waiting.map(|(method, rest, body)| (method, format!("/v1/tenants/acme{rest}"), body)));
    let others =
        others.chain([("PUT", "/api/acme/mail".to_owned(), "x"), ("PUT", "/api/acme/mail/bulk".to_owned(), "[1]")]);
    for (method, path, body) in others {
        let ask = || Request::builder().method(method).uri(&path).header("content-type", "application/json");
        let twice = async { tokio::join!(client.send(ask(), body.into()), client.send(ask(), body.into())) };
        timeout(SOON, twice).await.unwrap_or_else(|_| panic!("no answer: {method} {path}"));
    }
    for route in ROUTES {
        let twice = async { tokio::join!(route.ask(&client, about), route.ask(&client, about)) };
        timeout(SOON, twice).await.unwrap_or_else(|_| panic!("no answer: {} {}", route.method, route.path));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_operators_do_not_read_leave_room_to_tenants() {
    let runner = limited_server(HttpLimits { body_bytes: 40 << 20, ..HttpLimits::default() }).await;
    let operator = runner.client().with_token(&token(&*runner.store, None, &[Scope::Read]).await);
    let acme = runner.client().with_token(&token(&*runner.store, Some("acme"), &[Scope::Push, Scope::Read]).await);
    let jobs = "/v1/tenants/acme/topics/mail/jobs";
    let push = async || acme.post(jobs, &json!({ "body": "x".repeat(1_000_000), "delay_ms": 3_600_000 })).await.status;
    for _ in 0..5 {
        assert_eq!(push().await, 201);
    }
    // More than the kernel takes for a client that reads nothing.
    let page = format!("{jobs}?state=delayed");
    let mut deaf = Vec::new();
    for _ in 0..12 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(2048).unwrap();
        let mut stream = socket.connect(operator.address).await.unwrap();
        let token = operator.token.as_deref().unwrap();
        let request = format!("GET {page} HTTP/1.1\r\nHost: localhost\r\nX-Token: {token}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        deaf.push(stream);
    }
    until("the operators' part to be full", SOON, async || (operator.get(&page).await.status == 503).then_some(()))
        .await;
    assert_eq!(acme.get(&page).await.status, 200);
    assert_eq!(push().await, 201);
    drop(deaf);
    until("the operators' part to be free", SOON, async || (operator.get(&page).await.status == 200).then_some(()))
        .await;
}

/// Sends the head of a push, and a byte of its body.
async fn slow_push(client: &HttpClient) -> TcpStream {
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: {}\r\nX-Token: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 1000\r\n\r\n{{",
        client.address,
        client.token.as_deref().unwrap(),
    );
    let mut stream = TcpStream::connect(client.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_may_not_push_is_refused_before_its_body_is_read() {
    let runner = limited_server(HttpLimits { request_time: SOON, ..HttpLimits::default() }).await;
    let client = runner.client().with_token(&token(&*runner.store, Some("acme"), &[]).await);
    let mut stream = slow_push(&client).await;
    let mut answer = [0; 12];
    timeout(SOON / 2, stream.read_exact(&mut answer)).await.expect("an answer").unwrap();
    assert_eq!(&answer, b"HTTP/1.1 403");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_hold_no_request_of_another_tenant() {
    let limits = HttpLimits { at_once: 2, request_time: SOON / 2, ..HttpLimits::default() };
    let runner = limited_server(limits).await;
    let push = runner.client().with_token(&token(&*runner.store, Some("acme"), &[Scope::Push]).await);
    let read = runner.client().with_token(&token(&*runner.store, Some("other"), &[Scope::Read]).await);
    let mut slow = Vec::new();
    for _ in 0..10 {
        slow.push(slow_push(&push).await);
    }
    assert_eq!(read.get("/v1/tenants/other/topics").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_publishes_of_lmstfys_clients_hold_no_permit() {
    let runner = limited_server(HttpLimits { at_once: 2, ..HttpLimits::default() }).await;
    let text = token(&*runner.store, Some("acme"), &[Scope::Push, Scope::Read]).await;
    let client = runner.client().with_token(&text);
    let head =
        format!("PUT /api/acme/q HTTP/1.1\r\nHost: localhost\r\nX-Token: {text}\r\nContent-Length: 10\r\n\r\n{{");
    let mut slow = Vec::new();
    for _ in 0..10 {
        let mut stream = TcpStream::connect(client.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    assert_eq!(client.get("/v1/tenants/acme/topics").await.status, 200);
    for stream in slow {
        let unanswered = stream.into_std().unwrap().read(&mut [0]).unwrap_err();
        assert_eq!(unanswered.kind(), std::io::ErrorKind::WouldBlock, "the server still waits for the body");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_waits_and_listens_within_its_share() {
    let runner = limited_server(HttpLimits { waits: 4, ..HttpLimits::default() }).await;
    let mut clients = Vec::new();
    for tenant in ["acme", "other"] {
        let text = token(&*runner.store, Some(tenant), &[Scope::Read]).await;
        clients.push((tenant, runner.client().with_token(&text)));
    }
    let listen = async |(tenant, client): &(&str, HttpClient)| {
        client.begin(Request::get(format!("/v1/signals?tenants={tenant}")), Vec::new()).await
    };
    let first = listen(&clients[0]).await;
    assert_eq!((first.status().as_u16(), listen(&clients[0]).await.status().as_u16()), (200, 503));
    assert_eq!(clients[0].1.get("/v1/tenants/acme/events").await.status, 503);
    assert_eq!(listen(&clients[1]).await.status().as_u16(), 200);
    drop(first);
    let again = async || (listen(&clients[0]).await.status().as_u16() == 200).then_some(());
    until("its share to be free", SOON, again).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_over_a_tenants_share_of_memory_are_refused() {
    let limits = HttpLimits { body_bytes: 16 << 10, ..HttpLimits::default() };
    let runner = limited_server(limits).await;
    let push = runner.client().with_token(&token(&*runner.store, Some("acme"), &[Scope::Push]).await);
    let body = |bytes: usize| push_of("acme", 1, &"QUFB".repeat(bytes / 4));
    let refused = push.post("/v1/jobs", &body(5 << 10)).await;
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("busy")), "{}", refused.text());
    assert_eq!(push.post("/v1/jobs", &body(2 << 10)).await.status, 200);
}
