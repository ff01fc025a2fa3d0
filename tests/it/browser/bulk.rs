//! One action on all jobs of a query.

use gristmill_tests::browser::Browser;
use serde_json::json;

use super::act::press;
use super::keys::{ENTER, TAB};
use super::{TOPICS, push, runner, state_of, url, visit};

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_query_are_counted_and_cancelled_once_a_person_has_typed_how_many() {
    let (runner, browser) = (runner().await, Browser::start().await);
    for n in 0..101 {
        push(&runner, "stuck", json!({ "id": format!("wanted-{n}"), "metadata": { "order": "17" } })).await;
    }
    visit(&browser, &url(&runner, "/t/default/find?q=meta.order%3A17")).await;
    // By the keyboard alone: behind the five states and the query.
    browser.until("document.activeElement?.innerText === 'Find jobs'").await;
    browser.press(&[TAB; 7]).await;
    browser.until("document.activeElement?.innerText === 'Cancel all …'").await;
    browser.press(&[ENTER]).await;
    browser.until("location.hash === '#/t/default/bulk'").await;
    browser.until_text("101 jobs fit, of").await;
    browser.until("document.querySelectorAll('main section a[href*=wanted-]').length === 5").await;
    for scheme in ["light", "dark"] {
        browser.prefer(scheme).await;
        assert_eq!(browser.accessibility().await, Vec::<String>::new(), "{scheme}");
    }
    browser.resize(320).await;
    browser.until("document.documentElement.scrollWidth <= innerWidth").await;
    press(&browser, "Cancel 101 jobs …").await;
    browser.until("document.activeElement === document.querySelector('dialog input')").await;
    assert_eq!(browser.accessibility().await, Vec::<String>::new());
    browser.press(&[ENTER, "1", "0", ENTER]).await;
    browser.until("document.querySelector('dialog input:invalid')?.value === '10'").await;
    let state = runner.client().get("/v1/tenants/default/bulk").await.json()["bulk"][0]["state"].take();
    assert_eq!(state, "counted");
    browser.press(&["1", ENTER]).await;
    browser.until_text("It has begun.").await;
    browser.until("document.querySelector('main tbody')?.innerText.includes('Done')").await;
    let numbers = "[...document.querySelectorAll('main tbody .n')].map(one => one.innerText).join()";
    browser.until(&format!("{numbers} === '101,101'")).await;
    assert_eq!(runner.client().get(&format!("{TOPICS}/stuck")).await.json()["ready"], 2);
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_jobs_of_a_query_are_deleted_and_an_action_is_aborted() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/t/default/topics/puppet/dead?q=reason%3Atrap")).await;
    press(&browser, "Delete all …").await;
    browser.until_text("Delete all jobs of state:dead topic:puppet reason:trap").await;
    press(&browser, "Delete 1 job …").await;
    press(&browser, "Leave it").await;
    press(&browser, "Delete 1 job …").await;
    press(&browser, "Delete").await;
    browser.until("document.querySelector('main tbody')?.innerText.includes('Done')").await;
    assert_eq!(
        (state_of(&runner, "trapped").await, state_of(&runner, "dead").await),
        (json!("finished"), json!("dead"))
    );

    visit(&browser, &url(&runner, "/t/default/find?q=reason%3Arejected")).await;
    press(&browser, "Respawn all …").await;
    browser.until_text("1 job fit").await;
    press(&browser, "Abort").await;
    browser.until("document.querySelector('main tbody')?.innerText.includes('Aborted')").await;
    assert_eq!(state_of(&runner, "dead").await, "dead");

    // A query must choose.
    visit(&browser, &url(&runner, "/t/default/find?q=state%3Adead")).await;
    press(&browser, "Respawn all …").await;
    browser.until("document.querySelector('.notice.bad')?.innerText.includes('condition')").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_jobs_of_a_query_get_another_priority() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/t/default/find?q=id%3Aready*")).await;
    press(&browser, "Change all …").await;
    browser.run("document.querySelector('[name=priority]').value = 'high'").await;
    press(&browser, "Change").await;
    browser.until_text("priority high").await;
    press(&browser, "Change 2 jobs …").await;
    browser.click("dialog .main").await;
    browser.until("document.querySelector('main tbody')?.innerText.includes('Done')").await;
    let job = runner.client().get("/v1/tenants/default/jobs/ready-2").await.json();
    assert_eq!(job["job"]["spec"]["priority"], "high");
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
