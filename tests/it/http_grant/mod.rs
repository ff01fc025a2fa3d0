//! Handlers that send requests, end to end: what they reach, what they do not, and what it costs others.
//!
//! Addresses, redirects and hostile servers are gone through one by one in `wasm/outbound/tests`.

mod bounded;
mod granted;
mod once;
mod webhook;
mod withheld;

use caller::Reply;
use gristmill::store::{JobView, ResultView};
use gristmill_tests::guests;
use gristmill_tests::test_runner::TestRunner;

/// The caller on several terms, and the webhook.
const MANIFEST: &str = r#"
    [defaults]
    attempts = 3
    backoff = "10ms"
    output-limit = "16MiB"

    [topics.caller.http]
    allow = ["http://*:*", "*:*"]
    networks = ["127.0.0.1"]
    requests = 50
    request-limit = "4MiB"
    timeout = "5m"

    # Every name and every port, but nothing that is not public.
    [topics.public]
    handler = "caller"
    [topics.public.http]
    allow = ["http://*:*", "*:*"]

    [topics.hasty]
    handler = "caller"
    attempts = 1
    timeout = "1s"
    [topics.hasty.http]
    allow = ["http://*:*"]
    networks = ["127.0.0.1"]
    timeout = "5m"

    [topics.narrow]
    handler = "caller"
    concurrency = 4
    timeout = "5m"
    [topics.narrow.http]
    allow = ["http://*:*"]
    networks = ["127.0.0.1"]
    timeout = "5m"

    [topics.webhook.http]
    allow = ["http://*:*"]
    networks = ["127.0.0.1"]
    timeout = "5m"
    [topics.webhook.secrets]
    secret = { env = "CARGO_PKG_NAME" }
"#;

async fn runner() -> TestRunner {
    TestRunner::start(MANIFEST, &[("caller", guests::CALLER), ("webhook", guests::WEBHOOK)]).await
}

fn replies(view: &JobView) -> Vec<Reply> {
    match &view.result {
        Some(ResultView::Complete(Some(payload))) => serde_json::from_slice(&payload.data).unwrap(),
        _ => panic!("no replies: {view:?}"),
    }
}

fn code(reply: &Reply) -> &str {
    match reply {
        Reply::Answer { .. } => "answer",
        Reply::Error { code, .. } => code,
    }
}
