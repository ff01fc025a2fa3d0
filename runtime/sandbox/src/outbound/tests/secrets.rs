//! Secrets that a guest does not see: where they go, and what comes back of them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_body::chunks;
use http_body_util::BodyExt;

use super::super::super::placeholders::Placeholders;
use super::super::Rest;
use super::server::{Piece, Server, ok};
use super::*;
use gristmill_core::http_grant::{Withheld, WithheldKind};
use gristmill_core::topic::Grants;

/// Has what a URL has to encode, and a part of the other one.
const KEY: &str = "sk_live/4eC39+Hq=?&% ä";
const TOKEN: &str = "live/4eC39";

mod futures_body {
    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use bytes::Bytes;
    use hyper::body::{Body, Frame};

    use super::HttpError;

    /// A body in these parts.
    pub(super) struct Chunks(VecDeque<Bytes>);

    pub(super) fn chunks(parts: &[&str]) -> Chunks {
        Chunks(parts.iter().map(|part| Bytes::copy_from_slice(part.as_bytes())).collect())
    }

    impl Body for Chunks {
        type Data = Bytes;
        type Error = HttpError;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
            Poll::Ready(self.0.pop_front().map(|bytes| Ok(Frame::data(bytes))))
        }
    }
}

/// An attempt of a topic with both secrets, which go to `api.example` only.
struct Handler {
    egress: Egress,
    /// Their placeholders.
    key: String,
    token: String,
}

fn handler_with(key: &[u8]) -> Handler {
    let withheld = [("key", key), ("token", TOKEN.as_bytes())].map(|(name, bytes)| {
        let hosts = vec!["http://api.example:*".parse().unwrap()];
        Arc::new(Withheld { kind: WithheldKind::Secret, name: name.into(), bytes: bytes.to_vec(), hosts })
    });
    let placeholders = Placeholders::new(&Grants { withheld: withheld.into(), ..Grants::default() }).unwrap();
    let [key, token] = ["key", "token"].map(|name| placeholders.secret(name).unwrap().to_owned());
    Handler { egress: Egress { placeholders: Some(placeholders), ..Egress::default() }, key, token }
}

fn handler() -> Handler {
    handler_with(KEY.as_bytes())
}

impl Handler {
    async fn send_as(&self, grant: HttpGrant, request: Request) -> Result<Response, HttpError> {
        let outbound = resolving(&["127.0.0.1"]);
        outbound.send(&"t".parse().unwrap(), &Arc::new(grant), request, REMAINING, self.egress.clone()).await.answer
    }

    async fn send(&self, request: Request) -> Result<Response, HttpError> {
        self.send_as(local(), request).await
    }
}

fn url(host: &str, server: &Server, path: &str) -> String {
    format!("http://{host}:{}{path}", server.port())
}

fn header(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

fn post(url: String, body: impl Into<Vec<u8>>) -> Request {
    Request { method: "POST".into(), body: Some(body.into()), ..get(url) }
}

#[tokio::test]
async fn a_secret_goes_to_its_hosts_and_to_no_other() {
    let server = Server::saying(&ok("")).await;
    let guest = handler();
    let path = format!("/a/{}/b?c={}&d=1", guest.key, guest.key);
    for host in ["api.example", "other.example"] {
        let body = format!("key={}, twice: {}.", guest.key, guest.key);
        let headers = vec![header("authorization", format!("Bearer {}", guest.key)), header("x-a", "b")];
        guest.send(Request { headers, ..post(url(host, &server, &path), body) }).await.unwrap();
    }
    let [api, other]: [String; 2] = server.requests().try_into().unwrap();
    let body = format!("key={KEY}, twice: {KEY}.");
    let target = "/a/sk_live/4eC39+Hq=%3F&%25%20%C3%A4/b?c=sk_live%2F4eC39%2BHq%3D%3F%26%25%20%C3%A4&d=1";
    for part in [
        format!("POST {target} HTTP/1.1\r\n"),
        format!("authorization: Bearer {KEY}\r\n"),
        format!("content-length: {}\r\n", body.len()),
        format!("\r\n\r\n{body}"),
    ] {
        assert!(api.contains(&part), "{part:?} is missing in {api}");
    }
    assert!(!api.contains("gristmill-secret-"), "{api}");
    assert!(other.contains(&path) && !other.contains("live"), "{other}");
    assert_eq!(other.matches(&guest.key).count(), 5, "{other}");
}

#[tokio::test]
async fn a_body_has_its_secret_as_its_media_type_has_texts() {
    let server = Server::saying(&ok("")).await;
    let guest = handler_with(br#"a"b\+/&c"#);
    for (kind, sent) in [
        ("text/plain", r#"a"b\+/&c"#),
        ("application/json; charset=utf-8", r#"a\"b\\+/&c"#),
        ("Application/Problem+JSON", r#"a\"b\\+/&c"#),
        ("application/x-www-form-urlencoded", "a%22b%5C%2B%2F%26c"),
    ] {
        let headers = vec![header("content-type", kind)];
        let request = Request { headers, ..post(url("api.example", &server, "/"), format!("<{}>", guest.key)) };
        guest.send(request).await.unwrap();
        assert!(server.requests().last().unwrap().ends_with(&format!("\r\n\r\n<{sent}>")), "{kind}");
    }
    for echo in [r#"a"b\+/&c"#, r#"a\"b\\+/&c"#, r#"a\"b\\+\/&c"#, "a%22b%5C%2B%2F%26c", "a%22b%5C+/&c"] {
        let server = Server::saying(&ok(echo)).await;
        let answer = guest.send(get(url("api.example", &server, "/"))).await.unwrap();
        assert_eq!(String::from_utf8(answer.body).unwrap(), guest.key, "{echo}");
    }
}

#[tokio::test]
async fn a_placeholder_of_another_attempt_stays_what_it_is() {
    let server = Server::saying(&ok("")).await;
    let earlier = handler();
    handler().send(post(url("api.example", &server, "/"), earlier.key.clone())).await.unwrap();
    assert!(server.requests()[0].ends_with(&format!("\r\n\r\n{}", earlier.key)));
}

#[tokio::test]
async fn credentials_of_basic_are_looked_into() {
    let server = Server::start(|request| vec![Piece::Text(ok(request.split_once("authorization: ").unwrap().1))]).await;
    let guest = handler();
    let written = STANDARD.encode(format!("user:{}", guest.key));
    let headers = vec![header("Authorization", format!("basic {written}"))];
    let answer = guest.send(Request { headers, ..get(url("api.example", &server, "/")) }).await.unwrap();
    let sent = format!("authorization: basic {}\r\n", STANDARD.encode(format!("user:{KEY}")));
    assert!(server.requests()[0].contains(&sent), "{:?}", server.requests());
    let answer = String::from_utf8(answer.body).unwrap();
    assert!(answer.starts_with(&format!("basic {written}\r\n")), "{answer}");

    // A secret that is all of the credentials, and credentials without any.
    let other = STANDARD.encode("user:password");
    for (value, sent) in [(&guest.token, TOKEN), (&other, other.as_str())] {
        let headers = vec![header("authorization", format!("Basic {value}"))];
        guest.send(Request { headers, ..get(url("api.example", &server, "/")) }).await.unwrap();
        assert!(server.requests().last().unwrap().contains(&format!("authorization: Basic {sent}\r\n")));
    }
}

#[tokio::test]
async fn a_redirect_to_another_host_has_no_secret() {
    let server = Server::start(|request| {
        let port = request.split_once("host: ").unwrap().1.split_once("\r\n").unwrap().0.split_once(':').unwrap().1;
        let location = format!("http://other.example:{port}/there?a={TOKEN}&b=live%2F4eC39");
        let moved = format!("HTTP/1.1 307 Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        vec![Piece::Text(if request.contains("/there") { ok("") } else { moved })]
    })
    .await;
    let guest = handler();
    let headers = vec![header("x-key", guest.token.clone())];
    let request = Request { headers, redirects: 1, ..post(url("api.example", &server, "/"), guest.token.clone()) };
    let answer = guest.send(request.clone()).await.unwrap();
    let there = format!("/there?a={}&b={}", guest.token, guest.token);
    assert_eq!(answer.url, url("other.example", &server, &there));
    let [first, second]: [String; 2] = server.requests().try_into().unwrap();
    assert!(first.contains(&format!("x-key: {TOKEN}\r\n")) && first.ends_with(TOKEN), "{first}");
    assert!(!second.contains("live") && second.contains(&there), "{second}");
    assert!(second.contains(&format!("x-key: {}\r\n", guest.token)) && second.ends_with(&guest.token), "{second}");
    let answer = guest.send(Request { redirects: 0, ..request }).await.unwrap();
    assert!(answer.headers.iter().any(|(_, value)| value.ends_with(&there)), "{answer:?}");
}

#[tokio::test]
async fn what_comes_back_of_a_secret_is_its_placeholder() {
    let echo = format!(
        "HTTP/1.1 200 OK\r\nx-key: Bearer {TOKEN}\r\nx-{}: 1\r\nx-other: 2\r\ntransfer-encoding: chunked\r\n\r\n",
        "sk_live-4ec39-quiet",
    );
    let text = format!("<{KEY}{TOKEN}{TOKEN}|{}|live%2F4eC39>", &TOKEN[..9]);
    let letters: Vec<char> = text.chars().collect();
    let chunks: String = letters.chunks(3).map(|letters| chunk(&letters.iter().collect::<String>())).collect();
    let server = Server::saying(&format!("{echo}{chunks}0\r\n\r\n")).await;
    let guest = handler_with(KEY.as_bytes());
    // Both hosts know the key.
    for host in ["api.example", "other.example"] {
        let answer = guest.send(get(url(host, &server, "/"))).await.unwrap();
        let Handler { key, token, .. } = &guest;
        let expected = format!("<{key}{token}{token}|{}|{token}>", &TOKEN[..9]);
        assert_eq!(String::from_utf8(answer.body).unwrap(), expected);
        assert!(answer.headers.contains(&header("x-key", format!("Bearer {token}"))), "{:?}", answer.headers);
    }
    let named = handler_with(b"sk_live-4ec39-quiet");
    let answer = named.send(get(url("api.example", &server, "/"))).await.unwrap();
    assert!(answer.headers.iter().all(|(name, _)| !name.contains("live")), "{:?}", answer.headers);
    assert!(answer.headers.contains(&header("x-other", "2")));
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

#[tokio::test]
async fn an_answer_has_no_length_that_it_may_not_have() {
    let server = Server::saying(&ok(TOKEN)).await;
    let guest = handler();
    let length = |answer: &Response| answer.headers.iter().find(|(name, _)| name == "content-length").cloned();
    let answer = guest.send(get(url("api.example", &server, "/"))).await.unwrap();
    assert_eq!((length(&answer), answer.body), (None, guest.token.clone().into_bytes()));
    let head = Server::saying("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n").await;
    let request = Request { method: "HEAD".into(), ..get(url("api.example", &head, "/")) };
    assert_eq!(length(&guest.send(request).await.unwrap()), Some(header("content-length", "9")));
    assert!(length(&fetch(get(server.url("/"))).await.unwrap()).is_some());
}

#[tokio::test]
async fn an_answer_with_its_placeholders_is_held_to_the_limit() {
    let guest = handler();
    let server = Server::saying(&ok(&TOKEN.repeat(2))).await;
    let bytes = 2 * guest.token.len() as u64;
    let request = || get(url("api.example", &server, "/"));
    let answer = guest.send_as(HttpGrant { response_bytes: bytes, ..local() }, request()).await;
    assert_eq!(answer.unwrap().body.len() as u64, bytes);
    let answer = guest.send_as(HttpGrant { response_bytes: bytes - 1, ..local() }, request()).await;
    assert!(matches!(answer, Err(HttpError::TooLarge(most)) if most == bytes - 1), "{answer:?}");
}

#[tokio::test]
async fn a_request_with_its_secrets_is_held_to_the_limits() {
    let server = Server::saying(&ok("")).await;
    let guest = handler_with(&[b'k'; 1000]);
    let to = |path: &str| url("api.example", &server, path);
    let small = || HttpGrant { request_bytes: 2000, ..local() };
    let twice = guest.key.repeat(2);
    assert_eq!(end(&guest.send_as(small(), post(to("/"), twice.clone())).await), "answer");
    let refused = guest.send_as(small(), post(to("/"), format!("{twice}."))).await;
    assert!(matches!(&refused, Err(HttpError::Invalid(why)) if why.contains("2000 bytes, which is")), "{refused:?}");
    let headers = |count: usize| vec![header("x", format!("{}{}", guest.key.repeat(32), "x".repeat(count)))];
    let most = Request { headers: headers(768), ..get(to("/")) };
    assert_eq!(end(&guest.send(most).await), "answer");
    let over = guest.send(Request { headers: headers(769), ..get(to("/")) }).await;
    assert!(matches!(&over, Err(HttpError::Invalid(why)) if why.contains("more than 32768 bytes")), "{over:?}");
    let path = |rest: usize| format!("/{}?{}{}", guest.key.repeat(4), guest.key.repeat(4), "x".repeat(rest));
    assert_eq!(end(&guest.send(get(to(&path(190)))).await), "answer");
    let over = guest.send(get(to(&path(191)))).await;
    assert!(matches!(&over, Err(HttpError::Invalid(why)) if why.contains("longer than 8192 bytes")), "{over:?}");
    assert_eq!(server.requests().len(), 3);
    assert!(server.requests()[2].starts_with(&format!("GET /{}?", "k".repeat(4000))));
}

#[tokio::test]
async fn a_secret_that_no_header_can_have_is_refused_by_its_name() {
    let server = Server::saying(&ok("")).await;
    let guest = handler_with(b"two lines\nof a key");
    let request =
        Request { headers: vec![header("x-key", guest.key.clone())], ..get(url("api.example", &server, "/")) };
    let Err(HttpError::Invalid(why)) = guest.send(request).await else { panic!("it was sent") };
    assert!(why.contains("`key`") && why.contains("`x-key`") && !why.contains("two lines"), "{why}");
    assert!(server.requests().is_empty());
    // A body has room for it.
    guest.send(post(url("api.example", &server, "/"), guest.key.clone())).await.unwrap();
    assert!(server.requests()[0].ends_with("two lines\nof a key"));
}

#[tokio::test]
async fn answers_in_which_no_secret_could_be_found_are_not_asked_for() {
    let server = Server::saying(&ok("")).await;
    let guest = handler();
    for (host, sent) in [("api.example", "identity"), ("other.example", "gzip, br")] {
        let headers = vec![header("accept-encoding", "gzip, br")];
        guest.send(Request { headers, ..get(url(host, &server, "/")) }).await.unwrap();
        assert!(server.requests().last().unwrap().contains(&format!("accept-encoding: {sent}\r\n")));
    }
}

/// The body of a request in chunks.
fn unchunked(request: &str) -> String {
    let (mut rest, mut body) = (request.split_once("\r\n\r\n").unwrap().1, String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let (chunk, after) = after.split_at(usize::from_str_radix(size, 16).unwrap());
        body.push_str(chunk);
        rest = after.strip_prefix("\r\n").unwrap();
    }
    body
}

#[tokio::test]
async fn a_body_that_is_still_written_gets_its_secrets_where_parts_meet() {
    let server = Server::saying(&ok("")).await;
    let guest = handler();
    let (left, right) = guest.key.split_at(20);
    let (begin, end) = guest.token.split_at(1);
    for (host, expected) in [
        ("api.example", format!("<{KEY}|{TOKEN}{KEY}>gristmill-secret-")),
        ("other.example", format!("<{}|{}{}>gristmill-secret-", guest.key, guest.token, guest.key)),
    ] {
        let more = [right, "|", begin, "", end, &guest.key, ">gristmill-secret-"];
        let bytes = format!("<{left}{}", more.concat()).len() as u64;
        let rest = Rest { body: chunks(&more).boxed_unsync(), whole: Some(bytes) };
        let request = post(url(host, &server, "/"), format!("<{left}"));
        let outbound = resolving(&["127.0.0.1"]);
        let (topic, grant) = ("t".parse().unwrap(), Arc::new(local()));
        let answer = outbound.open(&topic, &grant, request, Some(rest), None, guest.egress.clone()).await.unwrap();
        answer.into_body().collect().await.unwrap();
        let seen = server.requests().pop().unwrap();
        let is_known = seen.contains(&format!("content-length: {bytes}\r\n"));
        assert_eq!(is_known, host == "other.example", "its length is another with its secrets: {seen}");
        let body = if is_known { seen.split_once("\r\n\r\n").unwrap().1.to_owned() } else { unchunked(&seen) };
        assert_eq!(body, expected);
    }
}

#[tokio::test]
async fn a_body_that_grows_too_large_while_it_is_written_breaks_off() {
    let server = Server::start(|_| vec![Piece::Hang]).await;
    let guest = handler_with(&[b'k'; 1000]);
    let rest = Rest { body: chunks(&[&guest.key, &guest.key]).boxed_unsync(), whole: None };
    let grant = Arc::new(HttpGrant { request_bytes: 2001, ..local() });
    let request = post(url("api.example", &server, "/"), "xx");
    let outbound = resolving(&["127.0.0.1"]);
    let sent = outbound.open(&"t".parse().unwrap(), &grant, request, Some(rest), None, guest.egress.clone()).await;
    let Err(HttpError::Invalid(why)) = sent else { panic!("it was sent") };
    assert!(why.contains("`request-limit`"), "{why}");
}

#[tokio::test]
async fn an_answer_that_streams_is_cleaned_where_its_parts_meet() {
    let (left, right) = TOKEN.split_at(4);
    let (left, right) = (left.to_owned(), right.to_owned());
    let server = Server::start(move |_| {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
        let parts = [format!("before {left}"), format!("{right} between {left}"), "no".to_owned()];
        let parts = parts.map(|part| Piece::Text(chunk(&part)));
        [Piece::Text(head)].into_iter().chain(parts).chain([Piece::Text("0\r\n\r\n".into())]).collect()
    })
    .await;
    let guest = handler();
    let (topic, grant) = ("t".parse().unwrap(), Arc::new(local()));
    let outbound = resolving(&["127.0.0.1"]);
    let request = get(url("api.example", &server, "/"));
    let answer = outbound.open(&topic, &grant, request, None, None, guest.egress.clone()).await.unwrap();
    let body: Bytes = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(String::from_utf8_lossy(&body), format!("before {} between liveno", guest.token));
    // Read to its end, the connection takes the next request.
    outbound
        .send(&topic, &grant, get(url("api.example", &server, "/")), REMAINING, Egress::default())
        .await
        .answer
        .unwrap();
    assert_eq!(server.connections(), [0, 0]);
}

#[tokio::test]
async fn a_trace_and_an_error_have_placeholders() {
    use super::super::super::request_trace::RequestTrace;
    use gristmill_core::trace::TraceContext;
    let server = Server::start(|_| vec![Piece::Text("HTTP/1.1 live/4eC39\r\n\r\n".into()), Piece::Close]).await;
    let mut guest = handler();
    let context = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
    let trace = RequestTrace::new(context);
    guest.egress.trace = Some(trace.clone());
    let path = format!("/{}?a={}", guest.token, guest.token);
    let refused = guest.send(get(url("api.example", &server, &path))).await.unwrap_err();
    let sent = trace.take();
    assert!(sent.kept[0].url.as_str().ends_with(&path), "{sent:?}");
    assert!(server.requests()[0].starts_with(&format!("GET /{TOKEN}?a=live%2F4eC39 ")));
    assert!(!format!("{refused:?} {sent:?}").contains("4eC39"), "{refused:?} {sent:?}");
}
