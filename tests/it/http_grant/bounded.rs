//! What requests may cost, and whom.

use caller::{Call, Reply};
use gristmill::job::{Due, NewJob};
use gristmill::outcome::Reason;
use gristmill_tests::server::{Answer, Server};
use gristmill_tests::test_runner::spec;
use gristmill_tests::wait::{SOON, until};

use super::{code, replies, runner};

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_sends_no_more_requests_than_it_may() {
    let (runner, server) = (runner().await, Server::start(|_| Answer::ok("")).await);
    let view = runner.work("caller", &Call { times: 1000, ..Call::get(server.url("/")) }.alone()).await;
    let replies = replies(&view);
    assert!(replies[..50].iter().all(|reply| code(reply) == "answer"));
    assert!(replies.len() == 1000 && replies[50..].iter().all(|reply| code(reply) == "http-too-many"));
    assert_eq!(server.requests().len(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_may_be_larger_than_a_jobs_if_it_is_granted() {
    let (runner, server) = (runner().await, Server::start(|_| Answer::ok("")).await);
    let post = |bytes| Call { method: "POST".into(), body_bytes: bytes, ..Call::get(server.url("/")) }.alone();
    let view = runner.work("caller", &post(4 << 20)).await;
    assert_eq!(code(&replies(&view)[0]), "answer", "{view:?}");
    let view = runner.work("caller", &post((4 << 20) + 1)).await;
    assert_eq!(code(&replies(&view)[0]), "http-too-large", "{view:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_held_to_its_limit() {
    let (runner, server) =
        (runner().await, Server::start(|_| Answer::Now("200 OK", "", "x".repeat((1 << 20) + 1))).await);
    let view = runner.work("caller", &Call::get(server.url("/")).alone()).await;
    assert_eq!(code(&replies(&view)[0]), "http-too-large", "{view:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_ends_with_its_attempt() {
    let (runner, server) = (runner().await, Server::start(|_| Answer::Held).await);
    // One that was not sent in its attempt's time is not seen there.
    until("a request that waits", SOON, async || {
        let view = runner.work("hasty", &Call::get(server.url("/")).alone()).await;
        assert_eq!(view.last_failure.map(|failure| failure.reason), Some(Reason::Timeout));
        (!server.requests().is_empty()).then_some(())
    })
    .await;
    server.until_given_up(server.requests().len()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_ends_when_its_time_is_up_and_the_guest_goes_on() {
    let (runner, server) = (runner().await, Server::start(|_| Answer::Held).await);
    let call = Call { timeout_ms: Some(100), times: 2, ..Call::get(server.url("/")) };
    // Those that were not sent in their time are not seen there.
    until("two requests that wait", SOON, async || {
        let view = runner.work("caller", &call.clone().alone()).await;
        let replies = replies(&view);
        assert!(replies.len() == 2 && replies.iter().all(|reply| code(reply) == "http-timeout"), "{view:?}");
        (server.requests().len() >= 2).then_some(())
    })
    .await;
    server.until_given_up(server.requests().len()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_wait_for_http_answers_delay_no_other_job() {
    let (runner, slow) = (runner().await, Server::start(|_| Answer::Held).await);
    let jobs: Vec<NewJob> =
        (0..1000).map(|_| NewJob { spec: spec("narrow", &Call::get(slow.url("/")).alone()), due: Due::Now }).collect();
    runner.store.push(&jobs).await.unwrap();
    slow.until_held(4).await;

    let quick = Server::start(|_| Answer::ok("quick")).await;
    for _ in 0..20 {
        let view = runner.work("caller", &Call::get(quick.url("/")).alone()).await;
        assert!(matches!(&replies(&view)[0], Reply::Answer { body, .. } if body == "quick"), "{view:?}");
    }
    slow.release();
    let done = || runner.records().iter().filter(|record| record.claim.lease.topic.topic.as_str() == "narrow").count();
    until("a thousand jobs", 4 * SOON, async || (done() == 1000).then_some(())).await;
    assert_eq!((slow.held_at_most(), slow.requests().len()), (4, 1000));
}
