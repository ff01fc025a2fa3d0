//! What a person can do to a job before it runs, and while it does.

use gristmill_tests::browser::Browser;
use serde_json::json;

use super::act::press;
use super::keys::{ENTER, TAB};
use super::{push, runner, state_of, url, visit};

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_is_made_ready_and_a_ready_one_is_changed() {
    let (runner, browser) = (runner().await, Browser::start().await);
    push(&runner, "stuck", json!({ "id": "later", "delay_ms": 3_600_000 })).await;
    visit(&browser, &url(&runner, "/t/default/jobs/later")).await;
    press(&browser, "Run now").await;
    browser.until_text("later is changed.").await;
    browser.until("![...document.querySelectorAll('main button')].some(one => one.innerText === 'Run now')").await;
    assert_eq!(state_of(&runner, "later").await, "ready");

    // By the keyboard alone.
    browser.run("[...document.querySelectorAll('main button')].find(one => one.innerText === 'Change').focus()").await;
    browser.press(&[ENTER]).await;
    browser.until("document.activeElement?.name === 'priority'").await;
    assert_eq!(browser.accessibility().await, Vec::<String>::new());
    browser.press(&["h", TAB]).await;
    browser
        .until("document.activeElement?.name === 'due' && document.querySelector('[name=priority]').value === 'high'")
        .await;
    browser.run("document.activeElement.value = '2030-01-02T03:04:05'").await;
    browser.press(&[ENTER]).await;
    browser.until("!document.querySelector('dialog')").await;
    browser.until("document.querySelector('.facts')?.innerText.includes('high')").await;
    let due = browser.run("return Date.parse('2030-01-02T03:04:05')").await;
    let job = runner.client().get("/v1/tenants/default/jobs/later").await.json();
    assert_eq!((job["state"].as_str(), job["until_ms"].as_f64()), (Some("delayed"), due.as_f64()));

    // What is left as it is, is not changed.
    press(&browser, "Change").await;
    browser.click("dialog .main").await;
    browser.until_text("later is unchanged.").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_is_killed_after_a_warning() {
    let (runner, browser) = (runner().await, Browser::start().await);
    push(&runner, "puppet", json!({ "id": "endless", "body": { "do": [{ "end": "infinite-loop" }] } })).await;
    crate::http_api::until_it_is(&runner, "endless", "running").await;
    visit(&browser, &url(&runner, "/t/default/jobs/endless")).await;
    press(&browser, "Kill").await;
    browser.until_text("in the middle of what it does").await;
    assert_eq!(browser.accessibility().await, Vec::<String>::new());
    press(&browser, "Leave it").await;
    browser.until("!document.querySelector('dialog')").await;
    assert_eq!(state_of(&runner, "endless").await, "running");
    press(&browser, "Kill").await;
    press(&browser, "Kill the job").await;
    browser.until_text("endless is killed.").await;
    browser.until_text("Cancelled").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
