//! What a person can do with the page; the API says whether it was done.

use gristmill_tests::browser::Browser;
use gristmill_tests::guests;
use gristmill_tests::wait::{SOON, until};
use serde_json::json;

use super::{TOPICS, runner, state_of, url, visit};

/// The button that says this.
pub(super) async fn press(browser: &Browser, words: &str) {
    let found = format!(
        "[...document.querySelectorAll('main button, dialog button')].find(one => one.innerText === {})",
        json!(words)
    );
    browser.until(&found).await;
    browser.run(&format!("for (const one of document.querySelectorAll('.meant')) one.classList.remove('meant'); {found}.classList.add('meant')")).await;
    browser.click(".meant").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_cancelled_respawned_and_deleted_after_a_question() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/t/default/jobs/delayed")).await;
    press(&browser, "Cancel").await;
    press(&browser, "Leave it").await;
    browser.until("!document.querySelector('dialog')").await;
    assert_eq!(state_of(&runner, "delayed").await, "delayed");
    press(&browser, "Cancel").await;
    press(&browser, "Cancel the job").await;
    browser.until_text("delayed is cancelled.").await;

    visit(&browser, &url(&runner, "/t/default/jobs/running")).await;
    press(&browser, "Cancel").await;
    press(&browser, "Cancel the job").await;
    browser.until_text("its handler is asked to stop").await;

    visit(&browser, &url(&runner, "/t/default/jobs/dead")).await;
    press(&browser, "Respawn").await;
    browser.until_text("dead is ready again.").await;
    // Its handler gives it up once more.
    crate::http_api::until_it_is(&runner, "dead", "dead").await;

    // All of a topic, as a bulk action.
    visit(&browser, &url(&runner, "/t/default/topics/puppet/dead")).await;
    press(&browser, "Respawn all …").await;
    browser.until_text("2 jobs fit").await;
    press(&browser, "Abort").await;
    visit(&browser, &url(&runner, "/t/default/topics/puppet/dead")).await;
    press(&browser, "Delete all …").await;
    press(&browser, "Delete 2 jobs …").await;
    browser.click("dialog .main").await;
    browser.until("document.querySelector('main tbody')?.innerText.includes('Done')").await;
    assert_eq!(state_of(&runner, "dead").await, "finished");
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dead_are_grouped_and_a_group_is_respawned_and_deleted() {
    let (runner, browser) = (runner().await, Browser::start().await);
    for id in ["out-1", "out-2"] {
        let reject =
            json!({ "do": [{ "end": { "reject": { "code": "full", "message": format!("mailbox {id}7 is full") } } }] });
        super::push(&runner, "puppet", json!({ "id": id, "body": reject })).await;
        crate::http_api::until_it_is(&runner, id, "dead").await;
    }
    visit(&browser, &url(&runner, "/t/default/dead")).await;
    browser.until_text("mailbox out-# is full").await;
    // The largest group is the first one.
    browser.click("main tbody th a").await;
    browser.until_text("looked at").await;
    browser.until_text("out-1").await;
    assert!(!browser.text().await.contains("trapped"));
    visit(&browser, &url(&runner, "/t/default/dead?q=code%3Afull")).await;
    press(&browser, "Respawn …").await;
    browser.until_text("Respawn 2 jobs …").await;
    press(&browser, "Abort").await;
    visit(&browser, &url(&runner, "/t/default/dead?q=code%3Afull")).await;
    press(&browser, "Delete …").await;
    press(&browser, "Delete 2 jobs …").await;
    browser.click("dialog .main").await;
    browser.until("document.querySelector('main tbody')?.innerText.includes('Done')").await;
    visit(&browser, &url(&runner, "/t/default/dead?q=code%3Afull")).await;
    browser.until_text("No job is dead").await;
    assert_eq!(state_of(&runner, "trapped").await, "dead");
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_found_by_a_query_in_the_search_and_above_a_list() {
    let (runner, browser) = (runner().await, Browser::start().await);
    super::push(&runner, "stuck", json!({ "id": "wanted", "body": { "user": { "id": 42 } } })).await;
    visit(&browser, &url(&runner, "/t/default/topics/stuck/ready")).await;
    browser.until_text("ready-2").await;
    browser.fill("[name=q]", "body.user.id:42").await;
    browser.run("document.querySelector('main form').requestSubmit()").await;
    browser.until("location.hash.endsWith('?q=body.user.id%3A42')").await;
    browser.until("!document.querySelector('main').innerText.includes('ready-2')").await;
    browser.until_text("wanted").await;
    browser.fill("#search", "state:dead reason:trap").await;
    browser.run("document.querySelector('[role=search]').requestSubmit()").await;
    browser.until("location.hash === '#/t/default/find?q=state%3Adead%20reason%3Atrap'").await;
    browser.until_text("trapped").await;
    assert!(!browser.text().await.contains("ready-2"));
    // Jobs of a state are one step away.
    browser.click("[aria-label=States] a[href$='state%3Aready']").await;
    browser.until_text("ready-2").await;
    browser.until("document.querySelector('[aria-label=States] [aria-current]').innerText === 'Ready 3'").await;
    // What is wrong with a query is said where it is written.
    browser.fill("[name=q]", "state:ded").await;
    browser.run("document.querySelector('main form').requestSubmit()").await;
    browser.until_text("use ready, delayed, waiting, running, dead").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_paused_and_resumed_and_gets_jobs_and_a_component() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/t/default/topics/echo")).await;
    press(&browser, "Pause").await;
    browser.until_text("echo is paused.").await;
    browser.until_text("The topic is paused.").await;
    press(&browser, "Resume").await;
    browser.until_text("echo goes on.").await;

    visit(&browser, &url(&runner, "/t/default/handlers")).await;
    browser.run("document.querySelector('select[name=topic]').value = 'stuck'").await;
    browser.choose_file("[type=file]", guests::ECHO).await;
    browser.click("form button.main").await;
    browser.until_text("serves now.").await;
    // Its jobs no longer wait.
    until("the jobs to be done", SOON, async || {
        let topic = runner.client().get(&format!("{TOPICS}/stuck")).await.json();
        (topic["ready"] == 0 && topic["running"] == 0).then_some(())
    })
    .await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_what_changes_without_being_asked() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/t/default/events")).await;
    browser.until_text("listening").await;
    super::push(&runner, "stuck", json!({ "id": "one-more" })).await;
    browser.until_text("job-pushed").await;
    browser.until_text("one-more").await;
    // Of a bulk action it says who began it.
    let bulk = json!({ "q": "id:one-more", "action": "cancel" });
    let made = runner.client().post("/v1/tenants/default/bulk", &bulk).await.json();
    let id = made["id"].as_str().unwrap();
    until("the jobs to be counted", SOON, async || {
        let start =
            runner.client().post(&format!("/v1/tenants/default/bulk/{id}/start"), &json!({ "expect": 1 })).await;
        (start.status == 200).then_some(())
    })
    .await;
    browser.until_text("actor operator").await;
    browser.until_text("state done").await;
    assert!(!browser.text().await.contains("[object"));
    super::push(&runner, "stuck", json!({ "id": "and-another" })).await;
    visit(&browser, &url(&runner, "/t/default")).await;
    browser.until_text("its 3 ready jobs").await;
    super::push(&runner, "stuck", json!({})).await;
    browser.until_text("its 4 ready jobs").await;
    // Rows do not move while the keyboard is on one of them.
    visit(&browser, &url(&runner, "/t/default/topics/stuck/ready")).await;
    browser.press(&["j"]).await;
    super::push(&runner, "stuck", json!({ "id": "held-back" })).await;
    browser.until_text("The rows have changed.").await;
    assert!(!browser.text().await.contains("held-back"));
    browser.press(&["r"]).await;
    browser.until_text("held-back").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
