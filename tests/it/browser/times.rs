//! Schedules, workers and the bill: what happens without a producer, and what it costs.

use std::time::Duration;

use gristmill::bill::{BillLine, Cost, Day};
use gristmill::job::{Name, TopicId, WorkerId};
use gristmill::store::BillEntry;
use gristmill::time::Timestamp;
use gristmill_tests::browser::Browser;
use gristmill_tests::guests;
use gristmill_tests::test_runner::{On, TestRunner};
use hyper::Request;
use serde_json::json;

use super::act::press;
use super::{push, runner, url, visit};

const SCHEDULES: &str = "/v1/tenants/default/schedules";

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_run_paused_resumed_and_deleted() {
    let (runner, browser) = (runner().await, Browser::start().await);
    let client = runner.client();
    let weekly = Request::put(format!("{SCHEDULES}/stuck/weekly")).header("content-type", "application/json");
    assert!(client.send(weekly, br#"{ "cron": "0 6 * * MON" }"#.to_vec()).await.status < 300);
    visit(&browser, &url(&runner, "/t/default/schedules")).await;
    for text in ["At 03:00", "Europe/Berlin", "At 06:00, on Monday", "UTC"] {
        browser.until_text(text).await;
    }
    // `echo` comes first.
    press(&browser, "Run now").await;
    browser.until_text("nightly has pushed").await;
    browser.until_text("Completed").await;
    browser.click("main td a[href*='/jobs/']").await;
    browser.until_text("Life so far").await;
    browser.until_text("Completed").await;

    visit(&browser, &url(&runner, "/t/default/schedules")).await;
    press(&browser, "Pause").await;
    browser.until_text("nightly is paused.").await;
    let nightly = format!("{SCHEDULES}/echo/nightly");
    assert_eq!(client.get(&nightly).await.json()["paused"], true);
    press(&browser, "Resume").await;
    browser.until_text("nightly goes on.").await;
    assert_eq!(client.get(&nightly).await.json()["paused"], false);
    // Of the two, only a manifest removes the other one.
    press(&browser, "Delete").await;
    press(&browser, "Delete the schedule").await;
    browser.until_text("weekly is deleted.").await;
    browser.until("document.querySelectorAll('main tbody tr').length === 1").await;
    assert_eq!(client.get(&format!("{SCHEDULES}/stuck/weekly")).await.status, 404);
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_leads_to_its_jobs() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/workers")).await;
    browser.until("document.querySelector('main tbody .n a')?.innerText === '1'").await;
    browser.click("main tbody .n a").await;
    browser.until("location.hash.startsWith('#/t/default/find?q=state%3Arunning')").await;
    browser.until("document.querySelector('main tbody th a')?.innerText === 'running'").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bill_says_what_attempts_cost_and_which_budget_is_used_up() {
    let manifest = "[limits]\njobs-per-day = 1\n[topics.echo]\n";
    let runner = TestRunner::start_on(On::Memory, manifest, &[("echo", guests::ECHO)]).await;
    let browser = Browser::start().await;
    visit(&browser, &url(&runner, "/t/default/bill")).await;
    browser.until_text("No attempt has ended").await;
    push(&runner, "echo", json!({ "id": "first" })).await;
    push(&runner, "echo", json!({ "id": "second" })).await;
    browser.until_text("jobs-per-day").await;
    let tenant: Name = "default".parse().unwrap();
    let today = Day::of(Timestamp::now()).number();
    let line = |topic: &str, days_ago, attempts| BillLine {
        topic: TopicId { tenant: tenant.clone(), topic: topic.parse().unwrap() },
        day: Day::from_number(today - days_ago),
        cost: Cost::of_amounts([attempts, 2_000_000, 3 * 1_024_000, 4_000_000, 5 << 10, 6 << 20, 7]),
    };
    let entry = BillEntry {
        lines: vec![line("echo", 2, 1000), line("echo", 1, 20), line("sink", 1, 3)],
        tenant: tenant.clone(),
        writer: WorkerId::new("writer"),
        number: 1,
        keep: Duration::from_secs(3650 * 86_400),
        used_us: 0,
    };
    runner.store.add_to_bills(&[entry]).await.unwrap().remove(0).unwrap();
    // Two days, all days, two topics, and the budget.
    let attempts = "[...document.querySelectorAll('main tbody td:nth-child(2)')].map(one => one.innerText).join()";
    browser.until(&format!("{attempts} === '23,1,000,1,023,1,020,3,jobs-per-day'")).await;
    for text in ["6 M", "12s", "15 KiB", "18 MiB"] {
        browser.until_text(text).await;
    }
    assert_eq!(browser.accessibility().await, Vec::<String>::new());
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
