//! Redirects: each hop is a request of its own.

use super::server::{Piece, Server, ok};
use super::*;

fn to(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
}

/// Answers `/` with a redirect, and everything else with the text.
async fn redirecting(status: u16, location: &'static str) -> Server {
    let answer = move |request: &str| {
        let first = request.split(' ').nth(1) == Some("/");
        vec![Piece::Text(if first { to(status, location) } else { ok("there") })]
    };
    Server::start(answer).await
}

fn following(url: String, redirects: u32) -> Request {
    Request { redirects, ..get(url) }
}

#[tokio::test]
async fn a_redirect_is_followed_only_if_asked_for() {
    let server = redirecting(302, "/there").await;
    let answer = fetch(following(server.url("/"), 0)).await.unwrap();
    assert_eq!((answer.status, answer.url), (302, server.url("/")));
    let answer = fetch(following(server.url("/"), 1)).await.unwrap();
    assert_eq!((answer.status, answer.body, answer.url), (200, b"there".to_vec(), server.url("/there")));
}

#[tokio::test]
async fn a_redirect_leads_nowhere_that_is_not_granted() {
    for location in [
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "http://0x0a000001/",
        "http://[::1]/",
        "//10.0.0.1/",
        "https://server.example/",
        "http://other.example/",
        "http://server.example:1/",
        "ftp://server.example/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://user:pass@server.example/",
        "http://server.example@evil.example/",
    ] {
        let server = redirecting(302, location).await;
        let patterns =
            [format!("http://server.example:{}", server.port()), "http://10.0.0.1".into(), "http://[::1]".into()];
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let answer =
            send(&resolving(&["127.0.0.1"]), grant(&patterns, &["127.0.0.1/32"]), following(server.url("/"), 5)).await;
        denial(answer);
        assert_eq!(server.requests().len(), 1, "{location}");
    }
}

#[tokio::test]
async fn a_circle_ends_when_the_allowance_does() {
    let server = Server::saying(&to(307, "/")).await;
    let outbound = resolving(&["127.0.0.1"]);
    let last = sent(&outbound, local(), following(server.url("/"), u32::MAX), REMAINING).await;
    assert_eq!((last.answer.unwrap().status, last.requests), (307, 21), "the last redirect is the answer");
    let cut = sent(&outbound, local(), following(server.url("/"), 20), 5).await;
    assert_eq!((end(&cut.answer), cut.requests), ("too many", 5));
}

#[tokio::test]
async fn credentials_stay_with_their_origin() {
    let headers = || {
        let pair = |name: &str| (name.to_owned(), "hush".to_owned());
        vec![pair("authorization"), pair("cookie"), pair("x-other")]
    };
    let other = Server::saying(&ok("")).await;
    let location = other.url("/there");
    let server = Server::start(move |_| vec![Piece::Text(to(302, &location))]).await;
    fetch(Request { headers: headers(), ..following(server.url("/"), 1) }).await.unwrap();
    let seen = &other.requests()[0];
    assert!(seen.contains("x-other: hush") && !seen.contains("authorization") && !seen.contains("cookie"), "{seen}");

    let server = redirecting(302, "/there").await;
    fetch(Request { headers: headers(), ..following(server.url("/"), 1) }).await.unwrap();
    let seen = &server.requests()[1];
    assert!(seen.contains("authorization: hush") && seen.contains("cookie: hush"), "{seen}");
}

#[tokio::test]
async fn the_status_decides_what_is_sent_again() {
    let cases = [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "HEAD", "HEAD"),
        (301, "PUT", "PUT"),
        (302, "DELETE", "DELETE"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
    ];
    for (status, method, next) in cases {
        let server = redirecting(status, "/there").await;
        let request = Request {
            method: method.into(),
            headers: vec![("content-type".into(), "text/plain".into())],
            body: Some(b"body".to_vec()),
            ..following(server.url("/"), 1)
        };
        fetch(request).await.unwrap();
        let seen = &server.requests()[1];
        assert!(seen.starts_with(&format!("{next} /there ")), "{status} {method}: {seen}");
        let keeps = next == method && next != "HEAD" || method == "HEAD";
        assert_eq!(
            (seen.ends_with("body"), seen.contains("content-type")),
            (keeps, keeps),
            "{status} {method}: {seen}"
        );
    }
}

#[tokio::test]
async fn a_redirect_that_says_not_where_is_an_answer() {
    for head in [
        "302 Found\r\n",
        "300 Choose\r\nlocation: /there\r\n",
        "302 Found\r\nlocation: http://[\r\n",
        "200 OK\r\nlocation: /there\r\n",
    ] {
        let server = Server::saying(&format!("HTTP/1.1 {head}content-length: 0\r\n\r\n")).await;
        assert_eq!(end(&fetch(following(server.url("/"), 5)).await), "answer", "{head}");
        assert_eq!(server.requests().len(), 1, "{head}");
    }
}
