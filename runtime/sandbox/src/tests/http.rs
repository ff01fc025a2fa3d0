//! `http`, as a guest meets it. What goes over the wire is tested in `outbound`.

use std::sync::Arc;

use super::guest::handler_in;
use super::{attempt, limited, load};
use crate::{Attempt, Component, Report};
use gristmill_core::http_grant::HttpGrant;
use gristmill_core::outcome::{LimitName, Outcome};
use gristmill_core::topic::Grants;

// The cases of `http-error`, by their number.
const DENIED: u8 = 0;
const INVALID: u8 = 1;
const TOO_LARGE: u8 = 3;
const TOO_MANY: u8 = 4;

/// Sends a GET to the URL in the body, and returns the answer: `[is an error, which]`.
async fn sender() -> Component {
    let functions = r#"
        (import "gristmill:job/http@0.1.0" "send" (func $send (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32 i32)))
        (data (i32.const 2200) "GET")"#;
    let handle = "(call $send (i32.const 2200) (i32.const 3)
            (call $body (local.get $job)) (call $body_n (local.get $job)) (i32.const 0) (i32.const 0)
            (i32.const 1) (i32.const 2100) (i32.const 5) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 4000))
        (i32.store8 (i32.const 4001) (i32.load8_u (i32.const 4008)))
        (call $return (i32.const 4000) (i32.const 2))";
    load(&handler_in(&[], "gristmill:job/job-handler-http", functions, handle)).await
}

fn granted(url: &str, change: impl FnOnce(&mut HttpGrant)) -> Attempt {
    let mut grant = HttpGrant::of(vec!["good.example".parse().unwrap(), "127.0.0.1".parse().unwrap()]);
    change(&mut grant);
    let grants = Grants { http: Some(Arc::new(grant)), ..Grants::default() };
    Attempt { grants: Arc::new(grants), ..attempt(url) }
}

fn refusal(report: Report) -> u8 {
    match report.outcome {
        Outcome::Complete(Some(result)) if result.data[0] == 1 => result.data[1],
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_topic_without_a_grant_sends_nothing() {
    assert_eq!(refusal(sender().await.invoke(attempt("https://good.example")).await), DENIED);
}

#[tokio::test]
async fn what_is_not_granted_is_denied() {
    let component = sender().await;
    for url in ["https://evil.example", "http://good.example", "https://127.0.0.1"] {
        assert_eq!(refusal(component.invoke(granted(url, |_| {})).await), DENIED, "{url}");
    }
    assert_eq!(refusal(component.invoke(granted("good.example", |_| {})).await), INVALID);
}

#[tokio::test]
async fn bodies_and_requests_are_held_to_their_limits() {
    let component = sender().await;
    let small = granted("https://good.example", |grant| grant.request_bytes = 4);
    assert_eq!(refusal(component.invoke(small).await), TOO_LARGE);
    let none_left = granted("https://good.example", |grant| grant.requests = 0);
    assert_eq!(refusal(component.invoke(none_left).await), TOO_MANY);
}

#[tokio::test]
async fn a_request_is_a_host_call() {
    let attempt = limited("https://good.example", |limits| limits.host_calls = 0);
    let outcome = sender().await.invoke(attempt).await.outcome;
    assert_eq!(outcome, Outcome::LimitExceeded { limit: LimitName::HostCalls, allowed: 0 });
}
