//! The stock handler `webhook`, as it is delivered.

use std::sync::atomic::{AtomicUsize, Ordering};

use gristmill::job::{Due, JobSpec};
use gristmill::outcome::Reason;
use gristmill::store::{JobState, JobView};
use gristmill_tests::server::{Answer, Server};
use gristmill_tests::test_runner::{TestRunner, spec};

use super::runner;

async fn deliver(runner: &TestRunner, url: String) -> JobView {
    let job = JobSpec { metadata: vec![("url".into(), url)], ..spec("webhook", b"{\"order\":7}") };
    let id = runner.push_job(job, Due::Now).await;
    runner.end_of(&id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_carries_what_its_receiver_needs() {
    let (runner, server) = (runner().await, Server::start(|_| Answer::ok("")).await);
    let view = deliver(&runner, server.url("/in")).await;
    assert_eq!(view.state, JobState::Finished, "{view:?}");
    let [seen]: [String; 1] = server.requests().try_into().unwrap();
    let id = view.id.as_str();
    for part in
        [format!("idempotency-key: {id}\r\n"), format!("webhook-id: {id}\r\n"), "gristmill-attempt: 1\r\n".into()]
    {
        assert!(seen.contains(&part), "{part} is missing in {seen}");
    }
    assert!(seen.contains("webhook-signature: v1,") && seen.contains("webhook-timestamp: "), "{seen}");
    assert!(seen.starts_with("POST /in HTTP/1.1\r\n") && seen.ends_with("{\"order\":7}"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_overloaded_is_tried_again() {
    let runner = runner().await;
    let tries = AtomicUsize::new(0);
    let server = Server::start(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => Answer::Now("503 Service Unavailable", "retry-after: 0\r\n", "later".into()),
        _ => Answer::ok(""),
    });
    let view = deliver(&runner, server.await.url("/in")).await;
    assert_eq!((view.state, view.attempts), (JobState::Finished, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_wants_no_more_gets_no_more() {
    let (runner, server) = (runner().await, Server::start(|_| Answer::Now("410 Gone", "", "bye".into())).await);
    let view = deliver(&runner, server.url("/in")).await;
    let failure = view.last_failure.expect("it failed");
    assert_eq!((failure.reason, failure.detail.code.as_str(), view.attempts), (Reason::Rejected, "gone", 1));
    let context = failure.detail.context.expect("a context").data;
    assert_eq!(String::from_utf8_lossy(&context), "{\"status\":410,\"body\":\"bye\"}");
}
