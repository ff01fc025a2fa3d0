//! What is reached and what is not.

use caller::{Call, Reply, payload};
use gristmill_tests::server::{Answer, Server};

use super::{code, replies, runner};

#[tokio::test(flavor = "multi_thread")]
async fn a_granted_request_gets_its_answer() {
    let (runner, server) =
        (runner().await, Server::start(|_| Answer::Now("201 Created", "x-a: b\r\n", "made".into())).await);
    let call = Call { method: "PUT".into(), body: Some("thing".into()), ..Call::get(server.url("/things?a=1")) };
    let view = runner.work("caller", &call.alone()).await;
    let [Reply::Answer { status: 201, headers, body, url }] = &replies(&view)[..] else {
        panic!("{view:?}");
    };
    assert_eq!((headers[0].clone(), body.as_str()), (("x-a".to_owned(), "b".to_owned()), "made"));
    assert_eq!(*url, server.url("/things?a=1"));
    let [seen]: [String; 1] = server.requests().try_into().unwrap();
    assert!(seen.starts_with("PUT /things?a=1 HTTP/1.1\r\n") && seen.ends_with("\r\n\r\nthing"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_cannot_reach_loopback_without_a_grant() {
    let (runner, server) = (runner().await, Server::start(|_| Answer::ok("inside")).await);
    let hosts = ["localhost", "127.0.0.1", "0x7f000001", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]"];
    let urls = hosts.map(|host| Call::get(format!("http://{host}:{}/", server.port())));
    let view = runner.work("public", &payload(&urls)).await;
    for (host, reply) in hosts.iter().zip(replies(&view)) {
        assert_eq!(code(&reply), "http-denied", "{host}: {reply:?}");
    }
    assert!(server.requests().is_empty());
    let granted = runner.work("caller", &Call::get(format!("http://localhost:{}/", server.port())).alone()).await;
    assert_eq!(code(&replies(&granted)[0]), "answer", "by its address, whatever it is called: {granted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_does_not_lead_where_a_request_may_not_go() {
    let runner = runner().await;
    let server =
        Server::start(|_| Answer::Now("302 Found", "location: http://169.254.169.254/latest/\r\n", "".into())).await;
    let call = Call { redirects: 5, ..Call::get(server.url("/")) };
    let view = runner.work("caller", &call.alone()).await;
    assert!(
        matches!(&replies(&view)[0], Reply::Error { code, message }
        if code == "http-denied" && message.contains("169.254.169.254")),
        "{view:?}"
    );
}
