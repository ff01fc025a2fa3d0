//! The keyboard alone: from the overview to a dead job, and to a new one.

use gristmill_tests::browser::Browser;

use super::{loaded, runner, state_of, url, visit};

pub(super) const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
pub(super) const TAB: &str = "\u{e004}";

#[tokio::test(flavor = "multi_thread")]
async fn a_person_without_a_pointer_finds_a_dead_job_and_runs_it_again() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/t/default")).await;
    browser.press(&["g", "d"]).await;
    browser.until("document.activeElement?.innerText === 'Dead jobs'").await;
    loaded(&browser).await;
    browser.press(&["j", "j", "k"]).await;
    browser.until("document.activeElement?.closest('tbody')").await;
    browser.press(&[ENTER]).await;
    browser.until("document.activeElement?.innerText === 'Find jobs'").await;
    loaded(&browser).await;
    browser.press(&["j"]).await;
    browser.until("document.activeElement?.closest('tbody')").await;
    let job = browser.run("return document.activeElement.innerText").await;
    let job = job.as_str().unwrap();
    browser.press(&[ENTER]).await;
    browser.until(&format!("document.activeElement?.innerText === 'Job {job}'")).await;
    loaded(&browser).await;
    assert_eq!(state_of(&runner, job).await, "dead");
    browser.press(&[TAB]).await;
    browser.until("document.activeElement?.innerText === 'Respawn'").await;
    browser.press(&[ENTER]).await;
    browser.until_text("is ready again.").await;

    browser.press(&["/"]).await;
    browser.until("document.activeElement?.id === 'search'").await;
    browser.press(&["s", "t", "u", "c", "k", ENTER]).await;
    browser.until("location.hash === '#/t/default/topics/stuck'").await;
    browser.press(&[ESCAPE]).await;
    browser.until("location.hash === '#/t/default/topics'").await;
    browser.press(&["?"]).await;
    browser.until_text("Next and previous row").await;
    browser.press(&["g", "o"]).await;
    browser.until("document.activeElement?.innerText === 'Overview'").await;
    // A link before everything else leads past the frame.
    browser.run("document.querySelector('a').focus()").await;
    browser.press(&[ENTER]).await;
    browser.until("document.activeElement?.id === 'main'").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
