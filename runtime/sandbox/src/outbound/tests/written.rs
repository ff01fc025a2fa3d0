//! What a guest writes: sent as it is, or refused.

use super::server::{Server, ok};
use super::*;

#[tokio::test]
async fn a_request_arrives_as_it_was_written() {
    let server = Server::saying(
        "HTTP/1.1 201 Created\r\nX-Order: 7\r\nx-order: 8\r\nx-raw: \u{e4}\r\ncontent-length: 4\r\n\r\ndone",
    )
    .await;
    let mut request = get(server.url("/a%20b?c=d"));
    request.method = "PATCH".into();
    request.headers = vec![("X-One".into(), "1".into()), ("x-one".into(), "2".into()), ("x-two".into(), "ä".into())];
    request.body = Some(b"body".to_vec());
    let answer = fetch(request).await.unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (201, &b"done"[..]));
    assert_eq!(answer.url, server.url("/a%20b?c=d"));
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(answer.headers[..3], [pair("x-order", "7"), pair("x-order", "8"), pair("x-raw", "ä")]);
    let seen = &server.requests()[0];
    let host = format!("host: server.example:{}\r\n", server.port());
    assert!(seen.starts_with("PATCH /a%20b?c=d HTTP/1.1\r\n"), "{seen}");
    for part in [
        "x-one: 1\r\n",
        "x-one: 2\r\n",
        "x-two: ä\r\n",
        "content-length: 4\r\n",
        &host,
        "user-agent: gristmill/",
        "\r\n\r\nbody",
    ] {
        assert!(seen.contains(part), "{part:?} is missing in {seen:?}");
    }
}

#[tokio::test]
async fn a_guest_may_name_itself_and_sends_no_body_unless_it_has_one() {
    let server = Server::saying(&ok("")).await;
    let mut request = get(server.url("/"));
    request.headers = vec![("User-Agent".into(), "mine".into())];
    fetch(request).await.unwrap();
    let seen = &server.requests()[0];
    assert!(seen.contains("user-agent: mine\r\n") && !seen.contains("gristmill"), "{seen}");
    assert!(!seen.contains("content-length") && !seen.contains("transfer-encoding"), "{seen}");
}

#[tokio::test]
async fn urls_that_parsers_disagree_on_are_refused() {
    for url in [
        "",
        "/path",
        "good.example",
        "https://",
        "https:///path",
        "https:good.example",
        "https:/good.example",
        "https:good.example/://",
        "https://user@good.example/",
        "https://user:secret@good.example/",
        "https://good.example@evil.example/",
        "https://good.example#@evil.example/",
        "https://evil.example\\@good.example/",
        "https:\\\\good.example/",
        "https://good.example/\\..\\a",
        "https://good\t.example/",
        "https://good.example\r\nhost: evil.example/",
        "https://good.example/a b",
        " https://good.example/",
        "https://good.example/\0",
        "https://good.example/#fragment",
        "https://good.example:99999/",
        "https://[::1/",
        "https://good%00.example/",
        "https://256.256.256.256/",
        "https://1.2.3.4.5/",
    ] {
        let answer = send(&Outbound::new(), grant(&["*:*"], &[]), get(url)).await;
        assert_eq!(end(&answer), "invalid", "{url:?}: {answer:?}");
        assert!(!format!("{answer:?}").contains("secret"), "{answer:?}");
    }
    let long = format!("https://good.example/{}", "x".repeat(8 << 10));
    assert_eq!(end(&send(&Outbound::new(), grant(&["*"], &[]), get(long)).await), "invalid");
}

#[tokio::test]
async fn methods_that_are_none_or_turn_the_connection_around_are_refused() {
    for method in ["", "GET ", "GE T", "GET\r\nx: y", "G\0T", "CONNECT", "connect", "TRACE", "Trace", &"A".repeat(33)] {
        let request = Request { method: method.to_owned(), ..get("http://server.example/") };
        assert_eq!(end(&fetch(request).await), "invalid", "{method:?}");
    }
}

#[tokio::test]
async fn headers_that_smuggle_are_refused_and_not_repeated() {
    for (name, value) in [
        ("x", "a\r\nx-evil: 1"),
        ("x", "a\nb"),
        ("x", "a\r"),
        ("x", "a\0b"),
        ("x", "a\u{7f}"),
        ("x: y\r\nz", "1"),
        ("x y", "1"),
        ("x:", "1"),
        ("", "1"),
        ("x\0", "1"),
        ("ä", "1"),
        ("Host", "evil.example"),
        ("content-length", "0"),
        ("Content-Length", "5"),
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
        ("keep-alive", "1"),
        ("upgrade", "websocket"),
        ("te", "trailers"),
        ("trailer", "x"),
        ("expect", "100-continue"),
        ("proxy-authorization", "Basic x"),
        ("Proxy-Connection", "keep-alive"),
        ("http2-settings", "x"),
    ] {
        let mut request = get("http://server.example/");
        request.headers = vec![("authorization".into(), "Bearer hush".into()), (name.into(), value.into())];
        let answer = fetch(request).await;
        assert_eq!(end(&answer), "invalid", "{name:?}: {value:?}");
        let text = format!("{answer:?}");
        assert!(!text.contains("hush") && !text.contains("evil"), "{text}");
    }
}

#[tokio::test]
async fn headers_and_bodies_are_held_to_their_limits() {
    let server = Server::saying(&ok("")).await;
    let with = |count: usize, bytes: usize| {
        let mut request = get(server.url("/"));
        request.headers = (0..count).map(|number| (format!("x{number:03}"), "v".repeat(bytes))).collect();
        request
    };
    assert_eq!(end(&fetch(with(90, 100)).await), "answer");
    assert_eq!(end(&fetch(with(101, 1)).await), "invalid");
    assert_eq!(end(&fetch(with(1, 32 << 10)).await), "invalid");
    let body = |bytes: usize| Request { body: Some(vec![b'x'; bytes]), ..get(server.url("/")) };
    let small = || HttpGrant { request_bytes: 1000, ..local() };
    let outbound = resolving(&["127.0.0.1"]);
    assert_eq!(end(&send(&outbound, small(), body(1000)).await), "answer");
    assert!(matches!(send(&outbound, small(), body(1001)).await, Err(HttpError::TooLarge(1000))));
}
