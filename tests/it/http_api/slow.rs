//! Who is slow, or waits, is bounded in time and number, and holds nobody else up.

use std::time::Duration;

use gristmill::server::{HttpLimits, HttpServerSettings};
use gristmill_tests::guests;
use gristmill_tests::test_runner::{On, TestRunner};
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::{MANIFEST, NOBODY, refused};

async fn runner(limits: HttpLimits) -> TestRunner {
    let settings = HttpServerSettings { limits, ..HttpServerSettings::default() };
    TestRunner::start_with(settings, On::Memory, MANIFEST, &[("echo", guests::ECHO)]).await
}

/// Sends a part of a request, and reads whatever comes until the other side hangs up.
async fn sent(runner: &TestRunner, part: &str) -> String {
    let mut stream = TcpStream::connect(runner.client().address).await.unwrap();
    stream.write_all(part.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    drop(timeout(SOON, stream.read_to_end(&mut answer)).await.expect("it hangs up"));
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_end_is_cut_off() {
    let runner = runner(HttpLimits { head_time: Duration::from_millis(50), ..HttpLimits::default() }).await;
    for part in ["", "G", "GET /v1 HTTP/1.1\r\nHost: localhost\r\nX-Slow: "] {
        assert_eq!(sent(&runner, part).await, "", "{part}");
    }
    // A request that came whole in that time is answered, and the wait for the next one is as long.
    until("an answer", SOON, async || {
        let answer = sent(&runner, "GET /v1 HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 200"), "{answer}");
        (!answer.is_empty()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let runner = runner(HttpLimits { request_time: Duration::from_millis(50), ..HttpLimits::default() }).await;
    for path in [NOBODY, "/v1/tenants/default/cancel"] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
        let answer = sent(&runner, &format!("{head}Content-Length: 10\r\n\r\n{{")).await;
        assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("\"code\":\"body-timeout\""), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publish_of_lmstfy_whose_body_does_not_come_is_answered_408() {
    let runner = runner(HttpLimits { request_time: Duration::from_millis(50), ..HttpLimits::default() }).await;
    let answer = sent(&runner, "PUT /api/default/q HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{").await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_refusal_reaches_a_client_that_sends_its_whole_body_first() {
    let runner = runner(HttpLimits::default()).await;
    let body = vec![b'x'; 4 << 20];
    for (path, host, status) in [
        ("/v1/tenants/default/topics/small/jobs", "localhost", "413"),
        ("/v1/tenants/default/topics/small/jobs", "evil.example", "421"),
        ("/v1/tenants/default/cancel", "localhost", "413"),
        ("/v1/nothing", "localhost", "404"),
    ] {
        let mut stream = TcpStream::connect(runner.client().address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: image/png\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // A client that writes in blocking calls sees a broken pipe here if the server has closed.
        timeout(SOON, stream.write_all(&body)).await.expect("all is taken").unwrap();
        let mut answer = [0; 12];
        timeout(SOON, stream.read_exact(&mut answer)).await.expect("an answer").unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {status}"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_its_topic_does_not_take_is_refused_before_it_comes() {
    let runner = runner(HttpLimits { request_time: 2 * SOON, ..HttpLimits::default() }).await;
    let head = "POST /v1/tenants/default/topics/small/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n";
    let answer = sent(&runner, &format!("{head}Content-Length: 1000000\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("1000000 bytes, but topic"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_take_their_turns_and_others_theirs() {
    let limits = HttpLimits { at_once: 2, request_time: Duration::from_millis(200), ..HttpLimits::default() };
    let runner = runner(limits).await;
    let head = format!("POST {NOBODY} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
    let mut slow = Vec::new();
    for _ in 0..10 {
        let mut stream = TcpStream::connect(runner.client().address).await.unwrap();
        stream.write_all(format!("{head}Content-Length: 10\r\n\r\n{{").as_bytes()).await.unwrap();
        slow.push(stream);
    }
    // Each is cut off in its time, and then there is a turn for us.
    until("a turn", SOON, async || (runner.client().post(NOBODY, &json!({})).await.status == 201).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_request_over_the_limit_is_refused_with_retry_after() {
    let runner = runner(HttpLimits { waits: 1, at_once: 1, ..HttpLimits::default() }).await;
    runner.client().post(NOBODY, &json!({ "id": "j" })).await;
    let follow = Request::get("/v1/tenants/default/jobs/j").header("accept", "text/event-stream");
    let first = runner.client().begin(follow, Vec::new()).await;
    let busy = runner.client().get("/v1/tenants/default/jobs/j?wait_ms=1").await;
    refused(&busy, 503, "busy");
    assert_eq!(busy.header("retry-after"), "1");
    let push = runner.client().post(&format!("{NOBODY}?wait_ms=1"), &json!({ "id": "refused" })).await;
    refused(&push, 503, "busy");
    assert_eq!(
        runner.client().get("/v1/tenants/default/jobs/refused").await.status,
        404,
        "what is refused is not stored"
    );
    // It holds no turn, and its place is free once it is gone.
    assert_eq!(runner.client().get("/v1/tenants/default/jobs/j").await.status, 200);
    drop(first);
    until("the place to be free", SOON, async || {
        (runner.client().get("/v1/tenants/default/jobs/j?wait_ms=1").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_idle_connection_is_closed_when_all_are_taken() {
    // So many that the latest has others before it, should the longest idle one take its time to go.
    const CONNECTIONS: usize = 100;
    let runner = runner(HttpLimits { connections: CONNECTIONS, ..HttpLimits::default() }).await;
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS {
        idle.push(TcpStream::connect(runner.client().address).await.unwrap());
    }
    let answer = runner.client().get("/v1").await;
    assert_eq!(answer.status, 200);
    let mut nothing = Vec::new();
    let first = timeout(SOON, idle[0].read_to_end(&mut nothing)).await.expect("it is closed");
    assert!(first.is_err() || nothing.is_empty());
    let mut last = idle.pop().unwrap();
    last.write_all(b"GET /v1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    timeout(SOON, last.read_to_end(&mut answer)).await.expect("an answer").unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"), "the latest is still here");
}

/// Takes all connections, with requests whose answers the client does not read. Each has a body that the server does not read either.
async fn take_all_connections(runner: &TestRunner, connections: usize) -> Vec<TcpStream> {
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let requests = request.repeat(1000);
    let mut deaf = Vec::new();
    for _ in 0..connections {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(2048).unwrap();
        let mut stream = socket.connect(runner.client().address).await.unwrap();
        // Until the server takes no more, or has closed the connection.
        let pause = Duration::from_millis(500);
        while let Ok(Ok(())) = timeout(pause, stream.write_all(requests.as_bytes())).await {}
        deaf.push(stream);
    }
    deaf
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_answered_while_clients_that_do_not_read_have_all_connections() {
    let runner = runner(HttpLimits { connections: 4, ..HttpLimits::default() }).await;
    let _deaf = take_all_connections(&runner, 4).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(runner.client().get(path).await.status, 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_its_answers_is_cut_off() {
    let limits = HttpLimits { connections: 4, write_time: Duration::from_millis(500), ..HttpLimits::default() };
    let runner = runner(limits).await;
    let _deaf = take_all_connections(&runner, 4).await;
    until("a connection for others", SOON, async || (runner.client().get("/v1").await.status == 200).then_some(()))
        .await;
}
