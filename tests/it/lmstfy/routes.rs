//! What all paths have in common: unknown paths, wrong methods, slashes, and which requests are refused.

use gristmill::config::LmstfySettings;
use gristmill::server::HttpServerSettings;
use gristmill_tests::test_runner::{On, TestRunner};
use hyper::Request;
use serde_json::json;

use super::{Client, error, runner};

on_both_stores! {
    an_unknown_job_gets_lmstfys_error
    a_slash_too_many_is_redirected
    pages_of_other_sites_are_refused
    a_head_consumes_nothing
    a_page_of_another_site_is_known_by_its_origin
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

async fn pages_of_other_sites_are_refused(runner: TestRunner) {
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

async fn a_page_of_another_site_is_known_by_its_origin(runner: TestRunner) {
    let client = Client::of(&runner);
    client.publish("q", "").await;
    let admin = runner.lmstfy_admin();
    for header in ["origin", "referer"] {
        let picture = Request::get(client.path("q")).header(header, "http://evil.example/");
        assert_eq!(client.send(picture, b"").await.status, 403, "{header}");
        let form = Request::post("/token/ns").header(header, "http://evil.example");
        let form = form.header("content-type", "application/x-www-form-urlencoded");
        let form = admin.send(form, b"description=x&token=01ARZ3NDEKTSV4RRFFQ69G5FAV".to_vec()).await;
        assert_eq!(form.status, 403, "{header}");
    }
    assert_eq!(client.size("q").await, 1);
    let own = Request::get("/info").header("origin", format!("http://{}", admin.address));
    assert_eq!(admin.send(own, Vec::new()).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_with_a_handler_has_no_consumers() {
    let manifest = "[tenants.ns.topics.mail]\n[tenants.ns.topics.print]\nhandler = \"external\"";
    let runner = TestRunner::start_on(On::Memory, manifest, &[]).await;
    let client = Client::of(&runner);
    for queue in ["mail", "print", "other"] {
        client.publish(queue, "").await;
    }
    for path in ["mail", "print,mail", "mail,print"] {
        let refused = client.get(path).await;
        assert_eq!(refused.status, 409, "{path}");
        assert!(error(&refused).contains("external"), "{}", refused.text());
    }
    client.consume("print").await;
    client.consume("other").await;
    assert_eq!(client.size("mail").await, 1);
}
