//! What the server remembers: minutes and days as charts, and attempts with their log lines.

use gristmill_tests::browser::Browser;
use serde_json::json;

use super::keys::ENTER;
use super::{EVIL, push, runner, url, visit};

/// Answers requests whose address has a word in it, in place of the server.
pub(super) async fn answer(browser: &Browser, word: &str, status: u16, document: &str) {
    let script = format!(
        "const real = window.fetch; window.fetch = (where, ...others) =>
            String(where).includes('{word}') ? Promise.resolve(new Response({}, {{ status: {status} }})) : real(where, ...others)",
        json!(document)
    );
    browser.run(&script).await;
}

pub(super) async fn go(browser: &Browser, place: &str) {
    browser.run(&format!("location.hash = '{place}'")).await;
    super::loaded(browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn minutes_and_days_are_charts_with_axes_and_tables() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/help")).await;
    let minute = |n: u64, done| json!({ "at_ms": 1_800_000_000_000_u64 + n * 60_000, "done": done, "failed": n, "dead": 0, "enqueued": 1234, "ready": 5, "running": 1 });
    let history = json!({ "since_ms": 1, "minutes": [minute(1, 40), minute(2, 150), minute(3, 80)], "days": [] });
    answer(&browser, "history", 200, &history.to_string()).await;
    for place in ["/t/default", "/t/default/topics/stuck"] {
        go(&browser, place).await;
        browser.until("document.querySelectorAll('figure').length === 3").await;
        // Round numbers at the axis, and the same numbers as a table.
        browser
            .until("document.querySelector('figure .y').innerText.split(/\\s*\\n\\s*/).join() === '2 k,1 k,0'")
            .await;
        browser.run("document.querySelector('summary').focus()").await;
        browser.press(&[ENTER]).await;
        browser.until("document.querySelector('details[open] tbody').innerText.includes('1,234')").await;
        browser
            .until("document.querySelector('figure title').textContent.endsWith('40 done, 1 failed, 1,234 pushed')")
            .await;
        for scheme in ["light", "dark"] {
            browser.prefer(scheme).await;
            assert_eq!(browser.accessibility().await, Vec::<String>::new(), "{place}, {scheme}");
        }
        browser.resize(320).await;
        browser.until("document.documentElement.scrollWidth <= innerWidth").await;
        browser.resize(1280).await;
    }
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_are_listed_with_their_log_lines() {
    let (runner, browser) = (runner().await, Browser::start().await);
    let end = json!({ "end": { "reject": { "code": "full", "message": EVIL, "context": "" } } });
    push(&runner, "puppet", json!({ "id": "talks", "body": { "do": [{ "log": format!("sent {EVIL}") }, end] } })).await;
    crate::http_api::until_it_is(&runner, "talks", "dead").await;
    for (place, head) in [("/t/default/jobs/talks", "Recent attempts"), ("/t/default/topics/puppet", "Recent failures")]
    {
        visit(&browser, &url(&runner, place)).await;
        browser.until_text(head).await;
        browser.until_text(&format!("sent {EVIL}")).await;
        browser.until("!window.hit && !document.querySelector('#root img, #root script')").await;
        browser.resize(320).await;
        browser.until("document.documentElement.scrollWidth <= innerWidth").await;
        assert_eq!(browser.accessibility().await, Vec::<String>::new(), "{place}");
        browser.resize(1280).await;
    }
    browser.click("main li a[href$=talks]").await;
    browser.until_text("Job talks").await;
    visit(&browser, &url(&runner, "/t/default/topics/stuck")).await;
    browser.until_text("None since").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_does_without_what_its_server_lacks() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/help")).await;
    for word in ["history", "attempts"] {
        answer(&browser, word, 404, "{}").await;
    }
    for (place, text) in
        [("/t/default", "ready jobs"), ("/t/default/topics/stuck", "Limits"), ("/t/default/jobs/dead", "Life so far")]
    {
        go(&browser, place).await;
        browser.until_text(text).await;
        browser.until("!/History|Recent|not answer/.test(document.querySelector('main').innerText)").await;
    }
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
