//! The page, in a real browser.

mod act;
mod bulk;
mod change;
mod flow;
mod history;
mod injected;
mod keys;
mod manage;
mod safe;
mod see;
mod times;

use gristmill::config::PageSettings;
use gristmill::server::HttpServerSettings;
use gristmill_tests::browser::Browser;
use gristmill_tests::guests;
use gristmill_tests::test_runner::{On, TestRunner};
use serde_json::{Value, json};

const MANIFEST: &str = r#"
    [defaults]
    result-retention = "1h"
    [topics.puppet]
    attempts = 1
    timeout = "10m"
    [topics.echo]
    # No component does its jobs.
    [topics.stuck]
    [topics.paused]
    handler = "echo"
    [topics.echo.schedule.nightly]
    cron = "0 3 1 1 *"
    timezone = "Europe/Berlin"
"#;
const TOPICS: &str = "/v1/tenants/default/topics";

/// A text that would show itself if it became markup or a script.
const EVIL: &str = r#"<img src=x onerror="window.hit=1"><script>window.hit=1</script>"#;

/// A runner with something of everything: jobs in each state, whose every text is [`EVIL`], a schedule, and a paused topic.
async fn runner() -> TestRunner {
    let page = PageSettings { name: Some("staging".parse().unwrap()), colour: Some("#7a3e9d".into()), enabled: true };
    let settings = HttpServerSettings { page, ..HttpServerSettings::default() };
    let handlers = [("echo", guests::ECHO), ("puppet", guests::PUPPET)];
    let runner = TestRunner::start_with(settings, On::Memory, MANIFEST, &handlers).await;
    let evil = json!({ "body": EVIL, "metadata": { EVIL: EVIL }, "content_type": "text/html" });
    let with = |more: Value| {
        let mut job = evil.clone();
        // One each: jobs of a key wait for each other.
        job["key"] = format!("{EVIL}{}", more["id"]).into();
        job["unique"] = json!({ "value": job["key"] });
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        job
    };
    push(&runner, "stuck", with(json!({ "id": "ready" }))).await;
    push(&runner, "stuck", with(json!({ "id": "ready-2" }))).await;
    push(&runner, "echo", with(json!({ "id": "delayed", "delay_ms": 3_600_000 }))).await;
    // A batch with a member, and a job that waits for the batch.
    push(&runner, "echo", with(json!({ "id": "batch", "open": true }))).await;
    push(&runner, "echo", with(json!({ "id": "member", "batch": "batch", "delay_ms": 3_600_000 }))).await;
    push(&runner, "echo", with(json!({ "id": "after", "after": ["batch", "delayed"] }))).await;
    push(&runner, "echo", with(json!({ "id": "finished", "keep_result_ms": 600_000 }))).await;
    let wait = json!({ "do": ["wait-until-cancelled"] });
    push(&runner, "puppet", with(json!({ "id": "running", "body": wait, "content_type": null }))).await;
    let reject = json!({ "do": [{ "end": { "reject": { "code": "bad", "message": EVIL, "context": EVIL } } }] });
    push(&runner, "puppet", with(json!({ "id": "dead", "body": reject }))).await;
    push(
        &runner,
        "puppet",
        json!({ "id": "trapped", "body": { "do": [{ "log": EVIL }, { "host-calls": 2 }, { "end": "unreachable" }] } }),
    )
    .await;
    for (id, state) in [("running", "running"), ("dead", "dead"), ("trapped", "dead"), ("finished", "finished")] {
        crate::http_api::until_it_is(&runner, id, state).await;
    }
    runner.client().post(&format!("{TOPICS}/paused/pause"), &json!({})).await;
    runner
}

async fn push(runner: &TestRunner, topic: &str, job: Value) {
    let answer = runner.client().post(&format!("{TOPICS}/{topic}/jobs"), &job).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
}

/// A state of a job, as the API says it.
async fn state_of(runner: &TestRunner, id: &str) -> Value {
    runner.client().get(&format!("/v1/tenants/default/jobs/{id}")).await.json()["state"].take()
}

fn url(runner: &TestRunner, place: &str) -> String {
    format!("http://{}/#{place}", runner.client().address)
}

/// Opens a place of the page, and waits until it has loaded.
async fn visit(browser: &Browser, url: &str) {
    browser.open("about:blank").await;
    browser.open(url).await;
    loaded(browser).await;
}

async fn loaded(browser: &Browser) {
    browser.until("document.querySelector('main[aria-busy=false] h1')").await;
}
