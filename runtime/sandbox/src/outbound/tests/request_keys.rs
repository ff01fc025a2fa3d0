//! `Idempotency-Key`: the same over all attempts of a job, and for nothing else.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};

use super::super::super::placeholders::Placeholders;
use super::super::{RequestKeys, Rest};
use super::server::{Server, ok};
use super::*;
use gristmill_core::http_grant::{Withheld, WithheldKind};
use gristmill_core::job::{JobSpec, Payload};
use gristmill_core::topic::Grants;

fn job(topic: &str, id: &str) -> JobSpec {
    let mut spec = JobSpec::new(topic.parse().unwrap(), Payload { data: Vec::new(), content_type: None });
    spec.id = id.parse().unwrap();
    spec
}

/// A new attempt of this job, with a placeholder of its own for a secret that no host gets.
fn attempt(spec: &JobSpec) -> Egress {
    let secret =
        Withheld { kind: WithheldKind::Secret, name: "key".into(), bytes: b"12345678".into(), hosts: Vec::new() };
    let grants = Grants { withheld: vec![Arc::new(secret)], ..Grants::default() };
    Egress { placeholders: Placeholders::new(&grants), keys: Some(Arc::new(RequestKeys::of(spec))), trace: None }
}

fn post(url: String, body: &str) -> Request {
    Request { method: "POST".into(), body: Some(body.into()), ..get(url) }
}

fn key_of(request: &str) -> Option<String> {
    let value = request.lines().find_map(|line| line.strip_prefix("idempotency-key: "))?;
    Some(value.to_owned())
}

async fn send(egress: &Egress, server: &Server, request: Request) -> Option<String> {
    let outbound = resolving(&["127.0.0.1"]);
    let sent = outbound.send(&"t".parse().unwrap(), &Arc::new(local()), request, REMAINING, egress.clone()).await;
    sent.answer.unwrap();
    key_of(server.requests().last().unwrap())
}

#[tokio::test]
async fn each_attempt_of_a_job_sends_the_same_keys() {
    let server = Server::saying(&ok("")).await;
    let spec = job("pay", "order-7");
    let requests = |egress: &Egress| {
        let placeholder = egress.placeholders.as_ref().unwrap().secret("key").unwrap().to_owned();
        let to = |path: &str| server.url(path);
        let patch = Request { method: "PATCH".into(), ..post(to("/charges"), "5 EUR") };
        [
            post(to("/charges"), "5 EUR"),
            post(to("/charges"), "6 EUR"),
            post(to("/refunds"), "5 EUR"),
            patch,
            post(to("/charges"), "5 EUR"),
            post(to(&format!("/charges?key={placeholder}")), &format!("key: {placeholder}")),
        ]
    };
    let first = attempt(&spec);
    let mut keys = Vec::new();
    for request in requests(&first) {
        keys.push(send(&first, &server, request).await.expect("a key"));
    }
    assert!(keys.iter().all(|key| key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit())), "{keys:?}");
    let different: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(different.len(), keys.len(), "each is another request, or sent once more");
    // The next attempt leaves out what the first had done, and does the rest in another order.
    let second = attempt(&spec);
    for (place, request) in requests(&second).into_iter().enumerate().skip(1).rev().filter(|(place, _)| *place != 4) {
        assert_eq!(send(&second, &server, request).await.as_ref(), Some(&keys[place]), "{place}");
    }
    for other in [job("pay", "order-8"), job("refund", "order-7"), job("acme/pay", "order-7")] {
        let key = send(&attempt(&other), &server, post(server.url("/charges"), "5 EUR")).await.unwrap();
        assert!(!keys.contains(&key), "{other:?}");
    }
}

#[tokio::test]
async fn a_key_of_the_handler_and_methods_that_need_none_are_left_alone() {
    let server = Server::saying(&ok("")).await;
    let egress = attempt(&job("pay", "order-7"));
    let own = vec![("Idempotency-Key".to_owned(), "mine".to_owned())];
    let request = Request { headers: own, ..post(server.url("/"), "") };
    assert_eq!(send(&egress, &server, request).await.as_deref(), Some("mine"));
    assert_eq!(server.requests()[0].matches("dempotency-").count(), 1);
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
        let request = Request { method: method.into(), ..get(server.url("/")) };
        assert_eq!(send(&egress, &server, request).await, None, "{method}");
    }
    assert_eq!(send(&Egress::default(), &server, post(server.url("/"), "")).await, None, "its topic wants none");
}

#[tokio::test]
async fn a_body_whose_end_is_not_known_counts_with_its_begin() {
    let server = Server::saying(&ok("")).await;
    let spec = job("pay", "order-7");
    let key = async |egress: &Egress, begin: &str, rest: &'static str| {
        let rest = Full::new(Bytes::from_static(rest.as_bytes())).map_err(|never| match never {}).boxed_unsync();
        let rest = Rest { body: rest, whole: None };
        let (topic, grant) = ("t".parse().unwrap(), Arc::new(local()));
        let request = post(server.url("/"), begin);
        let outbound = resolving(&["127.0.0.1"]);
        let answer = outbound.open(&topic, &grant, request, Some(rest), None, egress.clone()).await.unwrap();
        answer.into_body().collect().await.unwrap();
        key_of(server.requests().last().unwrap()).expect("a key")
    };
    let begin = "x".repeat(64 << 10);
    let first = attempt(&spec);
    let (one, two) = (key(&first, &format!("{begin}y"), "z").await, key(&first, &begin, "other").await);
    assert_ne!(one, two, "the second one that begins so");
    assert_eq!(key(&attempt(&spec), &begin, "yz").await, one, "wherever its first part ended");
    assert_ne!(key(&attempt(&spec), &begin[1..], "xyz").await, one);
}

#[tokio::test]
async fn a_redirect_keeps_the_key() {
    let moved = "HTTP/1.1 307 Moved\r\nlocation: /there\r\ncontent-length: 0\r\n\r\n";
    let server = Server::saying(moved).await;
    let egress = attempt(&job("pay", "order-7"));
    send(&egress, &server, Request { redirects: 1, ..post(server.url("/"), "5 EUR") }).await.unwrap();
    let keys: Vec<_> = server.requests().iter().map(|request| key_of(request).unwrap()).collect();
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
}
