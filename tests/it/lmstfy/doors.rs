//! What every path has in common: unknown ones, wrong methods, slashes, and who is kept out.

use gristmill::config::LmstfySettings;
use gristmill::server::HttpServerSettings;
use gristmill_tests::test_runner::{On, TestRunner};
use hyper::Request;
use serde_json::json;

use super::{Client, error, runner};

on_both_stores! {
    an_unknown_job_gets_lmstfys_error
    a_slash_too_many_is_redirected
    pages_of_other_sites_are_kept_out
    a_head_consumes_nothing
}

async fn an_unknown_job_gets_lmstfys_error(runner: TestRunner) {
    let client = Client::of(&runner);
    for request in [
        Request::post(client.path("q")),
        Request::patch(client.path("q/peek")),
        Request::put(client.path("q/size")),
        Request::get(client.path("q/bulk")),
        Request::get(client.path("q/nothing")),
        Request::get("/api"),
        Request::get("/api/ns"),
        Request::get("/api//q"),
        Request::get(client.path("q/nothing/")),
    ] {
        let answer = client.send(request, b"").await;
        assert_eq!((answer.status, answer.json()), (404, json!({ "error": "api not found" })));
    }
}

async fn a_slash_too_many_is_redirected(runner: TestRunner) {
    let client = Client::of(&runner);
    let answer = client.get("q/?ttr=5&count=2").await;
    assert_eq!((answer.status, answer.header("location")), (301, "/api/ns/q?ttr=5&count=2"));
    let answer = client.put("q/deadletter/", b"").await;
    assert_eq!((answer.status, answer.header("location")), (307, "/api/ns/q/deadletter"));
}

async fn pages_of_other_sites_are_kept_out(runner: TestRunner) {
    let client = Client::of(&runner);
    client.publish("q", "").await;
    for site in ["cross-site", "same-site"] {
        let answer = client.send(Request::get(client.path("q")).header("Sec-Fetch-Site", site), b"").await;
        assert_eq!(answer.status, 403, "{site}");
    }
    assert_eq!(client.size("q").await, 1);
    let answer = client.send(Request::get(client.path("q")).header("Sec-Fetch-Site", "none"), b"").await;
    assert_eq!(answer.status, 200);
}

async fn a_head_consumes_nothing(runner: TestRunner) {
    let client = Client::of(&runner);
    client.publish("q", "").await;
    assert_eq!(client.send(Request::head(client.path("q")), b"").await.status, 404);
    assert_eq!(client.size("q").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_api_is_not_served() {
    let lmstfy = LmstfySettings { enabled: false, ..LmstfySettings::default() };
    let settings = HttpServerSettings { lmstfy, ..HttpServerSettings::default() };
    let runner = TestRunner::start_with(settings, On::Memory, "", &[]).await;
    let client = Client::of(&runner);
    let answer = client.get("q/size").await;
    assert_eq!((answer.status, error(&answer)), (404, "api not found".into()));
}
