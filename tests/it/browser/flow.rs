//! Jobs that wait for others: what the page shows of them, and what a person can do.

use gristmill_tests::browser::Browser;
use serde_json::json;

use super::act::press;
use super::keys::ENTER;
use super::{push, runner, state_of, url, visit};

/// What the graph of a job says of another one, or of the job itself.
async fn until_node(browser: &Browser, job: &str, state: &str) {
    let node =
        format!("[...document.querySelectorAll('.flow li')].find(one => one.innerText.startsWith({}))", json!(job));
    browser.until(&format!("{node}?.innerText.endsWith({})", json!(state))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_followed_sealed_and_started() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/t/default")).await;
    browser.click("main a[aria-label='2 waiting']").await;
    browser.until_text("after others").await;
    push(&runner, "echo", json!({ "id": "quick", "batch": "batch" })).await;
    visit(&browser, &url(&runner, "/t/default/jobs/batch")).await;
    browser.until_text("1 of 2 jobs ended; not sealed").await;
    until_node(&browser, "quick", "Completed").await;
    until_node(&browser, "member", "Delayed").await;
    until_node(&browser, "batch", "Waiting").await;
    until_node(&browser, "after", "Waiting").await;
    press(&browser, "Seal").await;
    browser.until_text("batch is sealed.").await;
    browser.until("!document.body.innerText.includes('not sealed')").await;
    // Each node leads to its job.
    browser.click(".flow a[href$=member]").await;
    browser.until_text("Job member").await;
    until_node(&browser, "batch", "Waiting").await;
    press(&browser, "Cancel").await;
    press(&browser, "Cancel the job").await;
    crate::http_api::until_it_is(&runner, "batch", "dead").await;
    visit(&browser, &url(&runner, "/t/default/jobs/batch")).await;
    browser.until_text("2 of 2 jobs ended, 1 of them not done").await;
    until_node(&browser, "member", "Cancelled").await;
    browser.until_text("a job that it waited for was not done").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_is_shown_in_steps_from_its_first_jobs_to_its_last() {
    let (runner, browser) = (runner().await, Browser::start().await);
    push(&runner, "echo", json!({ "id": "publish", "after": ["after"] })).await;
    push(&runner, "echo", json!({ "id": "mail", "after": ["publish", "delayed"] })).await;
    visit(&browser, &url(&runner, "/t/default/jobs/mail")).await;
    let ids = "[...document.querySelectorAll('.flow > ol > li')].map(step => [...step.querySelectorAll('a')].map(one => one.innerText).sort().join()).join(' / ')";
    browser.until(&format!("{ids} === 'delayed,member / batch / after / publish / mail'")).await;
    // What a node says of the lines to it.
    browser.until("/^mail\\s+after (publish, delayed|delayed, publish)\\s+echo\\s+Waiting$/.test(document.querySelector('.flow [aria-current=true]').innerText)").await;
    browser.until("document.querySelector('.flow [aria-current=true]').innerText.startsWith('mail')").await;
    // A line past a step goes round its jobs.
    let crossed = "(() => {
        const boxes = [...document.querySelectorAll('.flow ul li')].map(one => one.getBoundingClientRect())
        return [...document.querySelectorAll('.flow > svg path')].filter(path => Array.from({ length: 200 }, (_, n) => path.getPointAtLength(path.getTotalLength() * n / 200).matrixTransform(path.getScreenCTM())).some(({ x, y }) => boxes.some(box => x > box.left + 9 && x < box.right - 9 && y > box.top + 1 && y < box.bottom - 1))).length
    })()";
    browser.until("document.querySelectorAll('.flow > svg path').length === 6").await;
    browser.until(&format!("{crossed} === 0")).await;
    browser.resize(320).await;
    browser.until("document.documentElement.scrollWidth <= innerWidth").await;
    assert_eq!(browser.accessibility().await, Vec::<String>::new());
    browser.resize(1280).await;
    // By the keyboard to the first job, four steps away.
    browser.run("document.querySelector('.flow a[href$=member]').focus()").await;
    browser.press(&[ENTER]).await;
    browser.until_text("Job member").await;
    until_node(&browser, "mail", "Waiting").await;
    browser.until("document.querySelector('.flow [aria-current=true]').innerText.startsWith('member')").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_members_of_a_batch_are_one_node_with_their_states() {
    let (runner, browser) = (runner().await, Browser::start().await);
    for n in 0..30 {
        let delay = if n < 3 { 0 } else { 3_600_000 };
        push(&runner, "echo", json!({ "id": format!("part-{n}"), "batch": "batch", "delay_ms": delay })).await;
    }
    for n in 0..3 {
        crate::http_api::until_it_is(&runner, &format!("part-{n}"), "finished").await;
    }
    visit(&browser, &url(&runner, "/t/default/jobs/batch")).await;
    browser.until_text("3 of 31 jobs ended").await;
    // The members, the batch, and what waits for it; a line from each to the next.
    browser.until("[...document.querySelectorAll('.flow ul li')].map(one => one.innerText.split('\\n')[0]).sort().join() === '31 jobs,after,batch'").await;
    browser.until("document.querySelectorAll('.flow > svg path').length === 2").await;
    browser.until("[...document.querySelectorAll('.flow [title]')].some(one => one.title === 'delayed' && one.innerText === '28')").await;
    for scheme in ["light", "dark"] {
        browser.prefer(scheme).await;
        assert_eq!(browser.accessibility().await, Vec::<String>::new(), "{scheme}");
    }
    browser.click(".flow button").await;
    browser.until("document.querySelector('.members a')?.checkVisibility()").await;
    assert_eq!(browser.accessibility().await, Vec::<String>::new());
    browser.click(".members a[href$='part-29']").await;
    browser.until_text("Job part-29").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_cancelled_with_all_that_wait_for_it() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/t/default/jobs/member")).await;
    press(&browser, "Cancel the tree").await;
    press(&browser, "Leave it").await;
    press(&browser, "Cancel the tree").await;
    press(&browser, "Cancel them all").await;
    browser.until_text("3 jobs cancelled.").await;
    for id in ["member", "batch", "after"] {
        assert_eq!(state_of(&runner, id).await, "finished", "{id}");
    }
    assert_eq!(state_of(&runner, "delayed").await, "delayed");
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
