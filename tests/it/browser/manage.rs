//! What a person manages with the page: tokens, lists of jobs, versions of handlers, and what the page itself does.

use gristmill::token::Scope::{Admin, Push, Read, Work};
use gristmill_tests::browser::Browser;
use gristmill_tests::guests;
use gristmill_tests::test_runner::TestRunner;
use gristmill_tests::wait::{SOON, until};
use serde_json::json;

use super::act::press;
use super::keys::ENTER;
use super::{EVIL, TOPICS, loaded, push, runner, state_of, url, visit};
use crate::tokens::token;

/// Nothing in the page became markup, and its scripts had no errors.
pub(super) async fn is_harmless(browser: &Browser) {
    browser.until("!window.hit && !document.querySelector('#root img, #root script')").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_made_and_revoked_the_audit_says_who_did_it_and_a_person_logs_out() {
    let (runner, browser) = (runner().await, Browser::start().await);
    let operator = token(&*runner.store, None, &[Push, Work, Read, Admin]).await;
    browser.open(&format!("http://{}/#token={operator}", runner.client().address)).await;
    loaded(&browser).await;
    browser.run("location.hash = '/t/default/tokens'").await;
    browser.until_text("The tenant has no tokens of its own.").await;
    browser.fill("[name=description]", EVIL).await;
    browser.click("[value=read]").await;
    press(&browser, "Make the token").await;
    browser.until_text("The new token:").await;
    browser.until("document.querySelector('main tbody')?.innerText.includes('onerror=')").await;
    let text = browser.run("return document.querySelector('main code').innerText").await;
    let made = runner.client().with_token(text.as_str().unwrap());
    assert_eq!(made.get("/v1/tenants/default/topics").await.status, 200);
    press(&browser, "Revoke").await;
    browser.click("dialog .main").await;
    browser.until_text("is revoked.").await;
    browser.until_text("The tenant has no tokens of its own.").await;
    assert_eq!(made.get("/v1/tenants/default/topics").await.status, 401);
    is_harmless(&browser).await;

    browser.press(&["g", "a"]).await;
    browser.until_text("POST /tokens").await;
    browser.until_text("DELETE /tokens/{id}").await;
    let id = runner.client().with_token(&operator).get("/v1/me").await.json()["token"]["id"].clone();
    browser.until_text(id.as_str().unwrap()).await;
    assert_eq!(browser.accessibility().await, Vec::<String>::new());
    browser
        .run("[...document.querySelectorAll('header button')].find(one => one.innerText === 'Log out').click()")
        .await;
    browser.until("document.querySelector('[type=password]')").await;
    browser.until("!sessionStorage.length").await;
    is_harmless(&browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_ended_in_lists_and_pushed_anew() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/t/default/topics/stuck/ready")).await;
    browser.click("[aria-label='Cancel ready-2']").await;
    press(&browser, "Cancel the job").await;
    browser.until_text("ready-2 is cancelled.").await;
    browser.until("!document.querySelector('main tbody').innerText.includes('ready-2')").await;

    visit(&browser, &url(&runner, "/t/default/topics/puppet/dead")).await;
    browser.click("[aria-label='Delete trapped']").await;
    press(&browser, "Delete the job").await;
    browser.until_text("trapped is deleted.").await;
    assert_eq!(state_of(&runner, "dead").await, "dead");
    browser.click("[aria-label='Respawn dead']").await;
    browser.until_text("dead is ready again.").await;

    visit(&browser, &url(&runner, "/t/default/jobs/running")).await;
    press(&browser, "Kill").await;
    press(&browser, "Kill the job").await;
    browser.until_text("running is killed.").await;

    visit(&browser, &url(&runner, "/t/default/jobs/ready")).await;
    browser.click("main .actions a").await;
    browser.until("document.querySelector('[name=key]')?.value.includes('onerror')").await;
    press(&browser, "Push").await;
    browser.until_text("is pushed.").await;
    browser.until("location.hash !== '#/t/default/jobs/ready' && location.hash.includes('/jobs/')").await;
    is_harmless(&browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_selected_by_the_keyboard_and_pages_follow_each_other() {
    let (runner, browser) = (runner().await, Browser::start().await);
    for n in 0..60 {
        push(&runner, "stuck", json!({ "id": format!("row-{n}") })).await;
    }
    visit(&browser, &url(&runner, "/t/default/topics/stuck/ready")).await;
    browser.until("document.querySelectorAll('main tbody tr').length === 50").await;
    press_link(&browser, "Next page").await;
    browser.until("document.querySelectorAll('main tbody tr').length === 12").await;
    press_link(&browser, "First page").await;
    browser.until("document.querySelectorAll('main tbody tr').length === 50").await;
    browser.press(&["j", "x", "j", "x"]).await;
    let chosen = browser
        .run("return [...document.querySelectorAll('main tbody :checked')].map(one => one.closest('tr').querySelector('a').innerText)")
        .await;
    let chosen: Vec<_> = chosen.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    assert_eq!(chosen.len(), 2);
    press(&browser, "Cancel 2 selected …").await;
    browser.until_text("2 jobs fit").await;
    press(&browser, "Cancel 2 jobs …").await;
    browser.click("dialog .main").await;
    browser.until("document.querySelector('main tbody')?.innerText.includes('Done')").await;
    assert_eq!(runner.client().get(&format!("{TOPICS}/stuck")).await.json()["ready"], 60);
    for id in chosen {
        assert_ne!(state_of(&runner, &id).await, "ready", "{id}");
    }
    is_harmless(&browser).await;
}

/// Follows the link that says this.
async fn press_link(browser: &Browser, words: &str) {
    let found = format!("[...document.querySelectorAll('main a')].find(one => one.innerText === {})", json!(words));
    browser.until(&found).await;
    browser.run(&format!("{found}.focus()")).await;
    browser.press(&[ENTER]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keyboard_pauses_the_page_and_changes_its_colours() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/t/default")).await;
    let button = |words: &str| {
        format!("[...document.querySelectorAll('header button')].some(one => one.innerText === '{words}')")
    };
    browser.press(&["p"]).await;
    browser.until(&button("paused")).await;
    push(&runner, "stuck", json!({})).await;
    browser.press(&["p"]).await;
    browser.until(&button("live")).await;
    browser.until_text("its 3 ready jobs").await;
    for theme in ["light", "dark", "system"] {
        browser.press(&["c"]).await;
        browser.until(&format!("document.documentElement.dataset.theme === '{theme}'")).await;
        browser.until(&button(theme)).await;
    }
    is_harmless(&browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_filtered_and_very_many_do_not_grow_the_page() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/t/default/events")).await;
    browser.fill("[name=topic]", "stuck").await;
    browser.fill("[name=kind]", "job-pushed").await;
    press(&browser, "Listen").await;
    browser.until("location.hash === '#/t/default/events?topic=stuck&kind=job-pushed'").await;
    browser.until_text("listening").await;
    push(&runner, "echo", json!({ "id": "left-out" })).await;
    push(&runner, "stuck", json!({ "id": "meant" })).await;
    browser.until_text("meant").await;
    assert!(!browser.text().await.contains("left-out"));
    browser.fill("[name=kind]", "no-such-kind").await;
    press(&browser, "Listen").await;
    browser.until("document.querySelector('main .state.warn')?.innerText.includes('kind')").await;

    // A stream in place of the server's, as fast as the page takes it.
    let stream = "const real = window.fetch; window.sent = 0; window.wanted = 1000; window.fetch = (where, options) => !/events/.test(where)
        ? real(where, options)
        : Promise.resolve(new Response(new ReadableStream({ async pull(stream) {
            while (window.sent >= window.wanted) await new Promise((go) => setTimeout(go, 10))
            let text = ''
            for (let n = 0; n < 100; n++) text += `data: {\"kind\":\"job-pushed\",\"at_ms\":1,\"tenant\":\"default\",\"topic\":\"t\",\"job\":\"j-${++window.sent}\"}\\n\\n`
            stream.enqueue(new TextEncoder().encode(text))
        } })))";
    browser.run(stream).await;
    browser.run("location.hash = '/t/default/events'").await;
    browser.until_text("j-1000").await;
    let before = browser.heap().await;
    browser.run("window.wanted = 1_000_000").await;
    browser.until_text("j-1000000").await;
    browser.until("document.querySelectorAll('main tbody tr').length === 200").await;
    browser.until("document.querySelectorAll('*').length < 5000").await;
    let after = browser.heap().await;
    assert!(after < before + 8e6, "from {before} to {after} bytes");
    is_harmless(&browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_of_a_handler_are_compared() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/t/default/topics/echo")).await;
    browser.until("document.querySelectorAll('[aria-label=Versions] tbody tr').length === 1").await;
    browser.until("document.querySelector('[aria-label=Versions] tbody')?.innerText.includes('serves')").await;
    // It imports more, and the topic does not grant it.
    runner.drop_in("echo", &std::fs::read(guests::CALLER).unwrap());
    browser.until("document.querySelectorAll('[aria-label=Versions] tbody tr').length === 2").await;
    browser.until_text("http is not granted").await;
    browser
        .until("/\\+ gristmill:job\\/http/.test(document.querySelector('[aria-label=Versions] pre')?.textContent)")
        .await;
    let serving = "[...document.querySelectorAll('[aria-label=Versions] tbody tr')].map(one => one.innerText.includes('serves')).join()";
    browser.until(&format!("{serving} === 'false,true'")).await;
    assert_eq!(browser.accessibility().await, Vec::<String>::new());
    is_harmless(&browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_is_hidden_is_not_in_the_page() {
    let manifest = "[limits]\nhide-payloads = true\n[topics.stuck]\n";
    let (runner, browser) = (TestRunner::start(manifest, &[]).await, Browser::start().await);
    push(&runner, "stuck", json!({ "id": "one", "body": "hush-hush", "metadata": { "told": "hush-hush" } })).await;
    let reads = token(&*runner.store, Some("default"), &[Read]).await;
    browser.open(&format!("http://{}/#token={reads}", runner.client().address)).await;
    loaded(&browser).await;
    browser.run("location.hash = '/t/default/jobs/one'").await;
    browser.until_text("Hidden: only an admin of the server sees it.").await;
    assert!(!browser.text().await.contains("hush"));
    browser.run("location.hash = '/t/default/find?q=meta.told:hush'").await;
    browser.until_text("hide-payloads").await;
    is_harmless(&browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_workers_and_queries_stay_texts() {
    let manifest = "[topics.by-hand]\nhandler = \"external\"\nattempts = 1\n[topics.stuck]\n";
    let (runner, browser) = (TestRunner::start(manifest, &[]).await, Browser::start().await);
    let client = runner.client();
    push(&runner, "by-hand", json!({ "id": "failed" })).await;
    let claimed = client.post(&format!("{TOPICS}/by-hand/claim"), &json!({ "wait_ms": 30_000 })).await;
    let claimed = claimed.json();
    let claims = claimed["claims"].as_array().unwrap_or_else(|| panic!("{claimed}"));
    let lease = &claims.iter().find(|claim| claim["job"]["spec"]["id"] == "failed").unwrap()["lease"];
    let failure = json!({ "code": EVIL, "message": EVIL });
    let settle = json!({ "settlements": [{ "lease": lease, "bury": { "error": failure } }] });
    client.post("/v1/tenants/default/leases/settle", &settle).await;
    let bulk = json!({ "q": format!("key:\"{}\"", EVIL.replace('"', "'")), "action": "cancel" });
    assert_eq!(client.post("/v1/tenants/default/bulk", &bulk).await.status, 201);
    until("the job to be dead", SOON, async || (state_of(&runner, "failed").await == "dead").then_some(())).await;
    for place in ["/t/default/bulk", "/t/default/dead", "/t/default/jobs/failed", "/t/default/topics/by-hand/dead"] {
        visit(&browser, &url(&runner, place)).await;
        browser.until_text("onerror=").await;
        is_harmless(&browser).await;
    }
}
