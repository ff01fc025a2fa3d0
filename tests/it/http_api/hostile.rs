//! Requests that nobody means well with. None of them may be taken, hold the server up, or leave anything behind.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use gristmill_tests::test_runner::{TestRunner, tenant};
use hyper::Request;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{NOBODY, refused, runner};

on_both_stores! {
    a_malformed_body_is_refused_and_nothing_is_stored
    numbers_out_of_range_are_refused
    invalid_names_are_refused_in_every_spelling
    compressed_bodies_are_held_to_the_limits_they_inflate_to
    lists_of_documents_end_at_their_limit_while_they_are_read
    answers_are_compressed_on_request
    heads_that_are_too_large_are_refused
    a_client_that_goes_away_in_the_middle_leaves_nothing_behind
}

/// Sends bytes as they are, and reads until the other side has said all.
pub(super) async fn raw(runner: &TestRunner, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(runner.client().address).await.unwrap();
    // Who is refused early may have the rest of its request unread.
    drop(stream.write_all(bytes).await);
    let mut answer = Vec::new();
    let reading = timeout(gristmill_tests::wait::SOON, stream.read_to_end(&mut answer));
    drop(reading.await.expect("an answer"));
    String::from_utf8_lossy(&answer).into_owned()
}

async fn stored(runner: &TestRunner) -> u64 {
    let counts = runner.store.counts(&tenant()).await.unwrap();
    counts.iter().map(|counts| counts.ready + counts.delayed).sum()
}

async fn a_malformed_body_is_refused_and_nothing_is_stored(runner: TestRunner) {
    let deep = format!("{{\"metadata\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let bodies: [&[u8]; 20] = [
        b"",
        b"{",
        b"null",
        b"[[{}]]",
        b"{\"jobs\": [[]]}",
        b"{\"jobs\": []}, {}",
        b"{\"unique\": [\"u\", 1000]}",
        b"{\"unique\": []}",
        b"\"jobs\"",
        b"{\"jobs\": {}}",
        b"{\"jobs\": [1]}",
        b"{\"jobs\": [], \"body\": 1}",
        b"{\"body\": }",
        b"{\"body\": 1} trailing",
        b"{\"id\": \"a\", \"id\": \"b\"}",
        b"{\"id\": \"../../etc/passwd\"}",
        b"{\"id\": \"\xff\xfe\"}",
        b"{\"body_base64\": \"?\"}",
        b"{\"metadata\": {\"a\": 1}}",
        deep.as_bytes(),
    ];
    for body in bodies {
        let request = Request::post(NOBODY).header("content-type", "application/json");
        refused(&runner.client().send(request, body.to_vec()).await, 400, "bad-request");
    }
    assert_eq!(stored(&runner).await, 0);
    for path in ["/v1/jobs", "/v1/tenants/default/topics/nobody/pause", "/v1/tenants/default/topics/nobody/claim"] {
        let request = Request::post(path).header("content-type", "application/json");
        refused(&runner.client().send(request, b"[]".to_vec()).await, 400, "bad-request");
    }
    // A body is not looked into: it may be as deep as it likes.
    let deep = format!("{{\"body\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let request = Request::post(NOBODY).header("content-type", "application/json");
    assert_eq!(runner.client().send(request, deep.into_bytes()).await.status, 201);
}

async fn numbers_out_of_range_are_refused(runner: TestRunner) {
    let ten_years = 316_224_000_000_u64;
    assert_eq!(runner.client().post(NOBODY, &json!({ "delay_ms": ten_years })).await.status, 201);
    assert_eq!(runner.client().post(NOBODY, &json!({ "at_ms": 253_402_300_799_999_u64 })).await.status, 201);
    let wrong = [
        json!({ "delay_ms": ten_years + 1 }),
        json!({ "delay_ms": -1 }),
        json!({ "delay_ms": 1.5 }),
        json!({ "delay_ms": "1" }),
        json!({ "delay_ms": u64::MAX }),
        json!({ "delay_ms": 1e300 }),
        json!({ "at_ms": 253_402_300_800_000_u64 }),
        json!({ "ttl_ms": u64::MAX }),
        json!({ "keep_result_ms": u64::MAX }),
        json!({ "unique": { "value": "u", "window_ms": u64::MAX } }),
        json!({ "attempts_max": 0 }),
        json!({ "attempts_max": 1001 }),
    ];
    for job in wrong {
        refused(&runner.client().post(NOBODY, &job).await, 400, "bad-request");
    }
    let headers = |bytes: usize| json!({ "metadata": { "k": "v".repeat(bytes - 1) } });
    assert_eq!(runner.client().post(NOBODY, &headers(64 << 10)).await.status, 201);
    refused(&runner.client().post(NOBODY, &headers((64 << 10) + 1)).await, 400, "bad-request");
    assert_eq!(stored(&runner).await, 3);
}

async fn invalid_names_are_refused_in_every_spelling(runner: TestRunner) {
    let longer = "a".repeat(129);
    let names = ["%2e%2e", "..%2f..%2fetc", "%00", "a%00b", "%ff%fe", "-a", "a%20b", "%F0%9F%98%80", &longer];
    for name in names {
        for path in [format!("/v1/tenants/{name}/topics"), format!("/v1/tenants/default/topics/{name}")] {
            refused(&runner.client().get(&path).await, 400, "bad-request");
        }
        let path = format!("/v1/tenants/default/topics/{name}/jobs");
        refused(&runner.client().post(&path, &json!({})).await, 400, "bad-request");
    }
    for path in ["//v1", "/v1//tenants", "/v1/tenants//topics", "/v1/../healthz", "/v1/%2e%2e/healthz", "/V1", "/v1/"] {
        let answer = runner.client().get(path).await;
        assert!(matches!(answer.status, 400 | 404), "{path}: {} {}", answer.status, answer.text());
    }
    assert_eq!(runner.store.tenants().await.unwrap(), []);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

async fn compressed_bodies_are_held_to_the_limits_they_inflate_to(runner: TestRunner) {
    let post = async |path: &str, coding: &str, body: Vec<u8>| {
        let request = Request::post(path).header("content-type", "application/json").header("content-encoding", coding);
        runner.client().send(request, body).await
    };
    assert_eq!(post(NOBODY, "gzip", gzip(br#"{"id": "zipped", "body": 1}"#)).await.status, 201);
    assert_eq!(runner.client().get("/v1/tenants/default/jobs/zipped").await.status, 200);
    // A million bytes of nothing are a thousand on the way.
    let bomb = gzip(format!("{{\"ids\": [{}]}}", " ".repeat(1 << 20)).as_bytes());
    assert!(bomb.len() < 8000);
    refused(&post("/v1/tenants/default/cancel", "gzip", bomb).await, 413, "too-large");
    refused(&post(NOBODY, "gzip", b"no gzip".to_vec()).await, 400, "bad-request");
    let cut = gzip(br#"{"body": 1}"#);
    refused(&post(NOBODY, "gzip", cut[..cut.len() / 2].to_vec()).await, 400, "bad-request");
    for coding in ["br", "deflate", "gzip, gzip", ""] {
        refused(&post(NOBODY, coding, gzip(b"{}")).await, 415, "media-type");
    }
    assert_eq!(stored(&runner).await, 1);
}

async fn lists_of_documents_end_at_their_limit_while_they_are_read(runner: TestRunner) {
    let tenant = |rest: &str| format!("/v1/tenants/default/{rest}");
    let job = r#"{"id":"a","tenant":"default","topic":"t"}"#;
    let after = r#"{"jobs":[{"id":"a","tenant":"default","topic":"t","after":["#;
    let lists = [
        ("/v1/jobs".to_owned(), r#"{"jobs":["#, job, 1000),
        (NOBODY.to_owned(), "[", r#"{"body":1}"#, 1000),
        ("/v1/jobs".to_owned(), after, r#""a""#, 1000),
        (tenant("cancel"), r#"{"ids":["#, r#""a""#, 1000),
        (tenant("change"), r#"{"due":"now","ids":["#, r#""a""#, 1000),
        (tenant("topics/t/dead/delete"), r#"{"ids":["#, r#""a""#, 1000),
        (tenant("claim"), r#"{"topics":["#, r#""a""#, 64),
        (tenant("leases/extend"), r#"{"leases":["#, r#""a""#, 1000),
        (tenant("leases/settle"), r#"{"settlements":["#, r#"{"lease":"a"}"#, 1000),
        (tenant("tokens"), r#"{"scopes":["#, r#""read""#, 5),
    ];
    for (path, begin, entry, most) in lists {
        // A reader that went on after one too many would find that the rest is no JSON.
        let document = format!("{begin}{} no JSON", [entry].repeat(most + 1).join(","));
        let request = Request::post(&path).header("content-type", "application/json");
        refused(&runner.client().send(request, document.into()).await, 413, "too-large");
    }
    let pairs = vec![r#""":"""#; 16_385].join(",");
    let alone =
        [format!(r#"{{"metadata":{{{pairs}}}}}"#), format!(r#"{{"after":[{}]}}"#, vec![r#""a""#; 1001].join(","))];
    for document in alone {
        let request = Request::post(NOBODY).header("content-type", "application/json");
        refused(&runner.client().send(request, document.into()).await, 413, "too-large");
    }
    let elements = format!("[{} no JSON", vec!["{}"; 65].join(","));
    let many = runner.client().send(Request::put("/api/default/t/bulk"), elements.into()).await;
    assert_eq!((many.status, many.text().contains("too many jobs")), (400, true), "{}", many.text());
    assert_eq!(stored(&runner).await, 0);
}

async fn answers_are_compressed_on_request(runner: TestRunner) {
    let ask = async |accept: &str| {
        let request = Request::get("/v1/openapi.json").header("accept-encoding", accept);
        runner.client().send(request, Vec::new()).await
    };
    let (plain, zipped) = (ask("identity").await, ask("gzip").await);
    assert_eq!(zipped.header("content-encoding"), "gzip");
    assert!(!plain.headers.contains_key("content-encoding") && zipped.body.len() * 4 < plain.body.len());
}

async fn heads_that_are_too_large_are_refused(runner: TestRunner) {
    let with = |headers: String| format!("GET /v1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    let many = |count: usize| with((0..count).map(|n| format!("x-{n}: y\r\n")).collect());
    assert!(raw(&runner, many(98).as_bytes()).await.starts_with("HTTP/1.1 200"), "a hundred headers");
    assert!(raw(&runner, many(99).as_bytes()).await.starts_with("HTTP/1.1 431"), "and one");
    // Who is still writing when it is refused may not get to read why.
    let refused =
        |answer: &str| answer.is_empty() || ["HTTP/1.1 431", "HTTP/1.1 414"].iter().any(|s| answer.starts_with(s));
    let long = raw(&runner, with(format!("x: {}\r\n", "y".repeat(100_000))).as_bytes()).await;
    assert!(refused(&long), "{long}");
    let path = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "a".repeat(100_000));
    let answer = raw(&runner, path.as_bytes()).await;
    assert!(refused(&answer), "{answer}");
    for nonsense in ["GET\r\n\r\n", "GET /v1 HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02\x00\r\n\r\n"] {
        assert!(raw(&runner, nonsense.as_bytes()).await.starts_with("HTTP/1.1 400"), "{nonsense:?}");
    }
    assert_eq!(runner.client().get("/v1").await.status, 200);
}

async fn a_client_that_goes_away_in_the_middle_leaves_nothing_behind(runner: TestRunner) {
    for cut in [r#"{"id": "half"#, ""] {
        let head = format!(
            "POST {NOBODY} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100"
        );
        let mut stream = TcpStream::connect(runner.client().address).await.unwrap();
        stream.write_all(format!("{head}\r\n\r\n{cut}").as_bytes()).await.unwrap();
    }
    let waiting = "GET /v1/tenants/default/jobs/waits?wait_ms=60000 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    runner.client().post(NOBODY, &json!({ "id": "waits" })).await;
    for _ in 0..100 {
        let mut stream = TcpStream::connect(runner.client().address).await.unwrap();
        stream.write_all(waiting.as_bytes()).await.unwrap();
    }
    assert_eq!(stored(&runner).await, 1);
    assert_eq!(runner.client().delete("/v1/tenants/default/jobs/waits").await.json()["status"], "gone");
}
