//! Texts of people, handlers and producers that would show themselves if they became markup, in schedules and events.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gristmill_tests::browser::Browser;
use hyper::Request;
use serde_json::{Value, json};

use super::act::press;
use super::history::{answer, go};
use super::manage::is_harmless;
use super::{EVIL, TOPICS, loaded, runner, url, visit};

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_schedules_and_of_their_jobs_stay_texts() {
    let (runner, browser) = (runner().await, Browser::start().await);
    let body = json!({ "base64": STANDARD.encode(EVIL), "content_type": "text/html" });
    let weekly = json!({ "cron": "0 6 * * MON", "body": body, "metadata": [[EVIL, EVIL]] });
    let put = Request::put("/v1/tenants/default/schedules/stuck/weekly").header("content-type", "application/json");
    let put = runner.client().send(put, weekly.to_string().into_bytes()).await;
    assert!(put.status < 300, "{}", put.text());
    visit(&browser, &url(&runner, "/t/default/schedules")).await;
    browser.click("[aria-label='Run now: weekly']").await;
    browser.until_text("weekly has pushed").await;
    browser.click("main td a[href*='/jobs/']").await;
    browser.until_text("Metadata").await;
    browser
        .until("document.querySelector('[aria-label=Metadata] tbody').innerText.split('onerror=').length === 3")
        .await;
    is_harmless(&browser).await;

    // What this server would refuse, as another one might say it.
    let firing = |result: &str| json!({ "result": result, "job": EVIL, "tick_ms": 1 });
    let schedule = json!({
        "tenant": "default", "topic": EVIL, "name": EVIL, "in_words": EVIL, "paused": false, "origin": "api", "upcoming_ms": [1],
        "schedule": { "cron": EVIL, "timezone": EVIL }, "firings": [firing("job"), firing(EVIL)],
    });
    visit(&browser, &url(&runner, "/help")).await;
    answer(&browser, "schedules", 200, &json!({ "schedules": [schedule] }).to_string()).await;
    go(&browser, "/t/default/schedules").await;
    // The schedule, its topic, its times and time zone.
    browser.until("document.querySelector('main tbody').innerText.split('onerror=').length > 4").await;
    press(&browser, "Delete").await;
    browser.until("document.querySelector('dialog').innerText.includes('onerror=')").await;
    is_harmless(&browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_actors_and_of_events_stay_texts() {
    let (runner, browser) = (runner().await, Browser::start().await);
    let wanted = json!({ "scopes": ["push", "work", "read", "admin"], "description": EVIL });
    let made = runner.client().post("/v1/tenants/default/tokens", &wanted).await.json();
    let token = made["text"].as_str().unwrap_or_else(|| panic!("{made}"));
    browser.open(&format!("http://{}/#token={token}", runner.client().address)).await;
    loaded(&browser).await;
    go(&browser, "/t/default/events").await;
    browser.until_text("listening").await;
    let client = runner.client().with_token(token);
    assert_eq!(client.post(&format!("{TOPICS}/echo/pause"), &json!({})).await.status, 200);
    browser.until("/topic-paused.*actor.*onerror=/s.test(document.querySelector('main tbody')?.innerText)").await;
    is_harmless(&browser).await;

    // What this server would refuse, as another one might say it.
    let names = ["kind", "topic", "job", "handler", "worker", "version", "reason", "actor", "token", EVIL];
    let mut event: serde_json::Map<String, Value> =
        names.map(|name| (name.to_owned(), EVIL.into())).into_iter().collect();
    event.insert("tenant".into(), "default".into());
    event.insert("at_ms".into(), 1.into());
    event.insert("bulk".into(), json!({ "id": EVIL, "action": EVIL, "q": EVIL, "actor": EVIL }));
    go(&browser, "/help").await;
    answer(&browser, "events", 200, &format!("data: {}\n\n", Value::Object(event))).await;
    go(&browser, "/t/default/events").await;
    // Each of them, and the name of one.
    browser.until("document.querySelector('main tbody tr')?.innerText.split('onerror=').length > 14").await;
    is_harmless(&browser).await;
}
