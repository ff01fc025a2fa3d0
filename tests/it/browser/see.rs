//! What can be seen: every page, in both themes, wide and narrow, and without mistakes in accessibility.

use gristmill::config::PageSettings;
use gristmill::server::HttpServerSettings;
use gristmill_tests::browser::Browser;
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::test_runner::{On, TestRunner};
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use serde_json::{Value, json};

use super::history::{answer, go};
use super::{EVIL, TOPICS, push, runner, url, visit};

/// Each page, and a text that it shows.
const PAGES: [(&str, &str); 28] = [
    ("/t/default", "stuck: no handler does its 2 ready jobs"),
    ("/t/default/topics", "works"),
    ("/t/default/topics/stuck", "there is no stuck.wasm in the handlers folder"),
    ("/t/default/topics/paused", "Resume"),
    ("/t/default/topics/stuck/ready", "ready-2"),
    ("/t/default/topics/echo/delayed", "in 5"),
    ("/t/default/topics/puppet/running", "of 10m"),
    ("/t/default/topics/puppet/dead", "trapped"),
    ("/t/default/topics/stuck/push", "The body is"),
    ("/t/default/find?q=state%3Awaiting", "after others"),
    ("/t/default/jobs/batch", "0 of 1 job ended; not sealed"),
    ("/t/default/schedules", "At 03:00"),
    ("/t/default/bulk", "A query begins one"),
    ("/t/default/bill", "No attempt has ended"),
    ("/workers", "puppet"),
    ("/t/default/jobs/ready", "there is no stuck.wasm in the handlers folder"),
    ("/t/default/jobs/running", "Kill"),
    ("/t/default/jobs/trapped", "Backtrace"),
    ("/t/default/jobs/finished", "Completed"),
    ("/t/default/running", "Worker"),
    ("/t/default/dead", "Respawn"),
    ("/t/default/find?q=state%3Adead", "looked at"),
    ("/t/default/find?q=state%3Afinished", "Completed"),
    ("/t/default/handlers", "Upload a component"),
    ("/t/default/events", "listening"),
    ("/t/default/tokens", "Make a token"),
    ("/t/default/audit", "/topics/{topic}/pause"),
    ("/help", "Next and previous row"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_accessible_in_both_themes_and_fits_a_narrow_screen() {
    let (runner, browser) = (runner().await, Browser::start().await);
    for (place, text) in PAGES.into_iter().chain([("/tenants", "Needs attention")]) {
        browser.resize(1280).await;
        visit(&browser, &url(&runner, place)).await;
        browser.until_text(text).await;
        browser.prefer("light").await;
        assert_eq!(browser.contrast().await, Vec::<String>::new(), "{place}, light");
        browser.prefer("dark").await;
        assert_eq!(browser.accessibility().await, Vec::<String>::new(), "{place}, wide and dark");
        browser.resize(320).await;
        assert_eq!(browser.accessibility().await, Vec::<String>::new(), "{place}, narrow and dark");
        if place == PAGES[0].0 {
            let colours =
                "const { color, backgroundColor } = getComputedStyle(document.body); return [color, backgroundColor]";
            let dark = browser.run(colours).await;
            // Against what the system says.
            browser.prefer("light").await;
            assert_ne!(browser.run(colours).await, dark);
            browser.run("document.documentElement.dataset.theme = 'dark'").await;
            assert_eq!(browser.run(colours).await, dark);
        }
        let too_wide = browser.run("return document.documentElement.scrollWidth - innerWidth").await;
        assert!(too_wide.as_i64().unwrap() <= 0, "{place} is {too_wide} pixels too wide");
        assert_eq!(browser.errors().await, Vec::<String>::new(), "{place}");
        // Nothing of a table is out of sight, its buttons least of all. A drawing may be larger.
        for width in [360, 1024, 1280] {
            browser.resize(width).await;
            assert_eq!(browser.run(CUT).await, json!([]), "{place} at {width} pixels");
        }
    }
    browser.until("document.title.includes('staging')").await;
}

/// The tables of which something is out of sight.
const CUT: &str = "return [...document.querySelectorAll('main .scroll:not([aria-label=Workflow])')].filter(one => one.scrollWidth > one.clientWidth).map(one => one.innerText)";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_failed_attempt_asked_of_the_host_is_listed_with_its_log_lines() {
    let (runner, browser) = (runner().await, Browser::start().await);
    let calls = "/v1/tenants/default/jobs/trapped/recording/calls";
    let recorded = async || (!runner.client().get(calls).await.json()["recorded"].is_null()).then_some(());
    until("the recording", SOON, recorded).await;
    visit(&browser, &url(&runner, "/t/default/jobs/trapped")).await;
    browser.click("details.calls summary").await;
    browser.until_text("Attempt 1 ended as trapped after ").await;
    let rows = "return [...document.querySelectorAll('.calls tbody tr')].map(row => row.innerText.split(/\\s+/).slice(-3).join(' '))";
    let rows = browser.run(rows).await.to_string();
    assert!(rows.contains("context.now") && rows.contains(" ms"), "{rows}");
    browser.until(&format!("document.querySelector('.calls tbody').innerText.includes({})", json!(EVIL))).await;
    for width in [320, 1280] {
        browser.resize(width).await;
        assert_eq!(browser.accessibility().await, Vec::<String>::new(), "{width} pixels");
        assert_eq!(browser.run(CUT).await, json!([]), "{width} pixels");
    }
    // A job without a recording says so.
    runner.store.forget_recordings(&"puppet".parse().unwrap(), &["dead".parse().unwrap()]).await.unwrap();
    visit(&browser, &url(&runner, "/t/default/jobs/dead")).await;
    browser.click("details.calls summary").await;
    browser.until_text("No recording of this job is kept").await;
    assert_eq!((browser.run("return window.hit ?? null").await, browser.errors().await), (Value::Null, Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_names_leave_room_for_what_stands_beside_them() {
    let (runner, browser) = (runner().await, Browser::start().await);
    let (long, client) = ("w".repeat(128), runner.client());
    push(&runner, &long, json!({ "id": "named", "key": long, "metadata": { long.clone(): long } })).await;
    let jobs = format!("/v1/tenants/{long}/topics/{long}/jobs");
    assert_eq!(client.post(&jobs, &json!({ "body": 1 })).await.status, 201);
    visit(&browser, &url(&runner, "/help")).await;
    let mut topic = client.get(&format!("{TOPICS}/echo")).await.json();
    let rates = json!({ "over_ms": 60_000, "per_second": { "retried": 12345.6, "acked": 12345.6 } });
    (topic["topic"], topic["handler"], topic["rates"]) = (long.clone().into(), long.clone().into(), rates);
    (topic["ready"], topic["dead"], topic["oldest_ready_ms"]) = (123_456.into(), 123_456.into(), 1.into());
    answer(&browser, "default/topics", 200, &json!({ "topics": [topic] }).to_string()).await;
    let works = json!({ "worker": long, "kind": "pull", "running": 1, "topics": [long] });
    answer(&browser, "workers", 200, &json!({ "workers": [works], "complete": true }).to_string()).await;
    for (place, text) in [
        ("/t/default", "50% fail"),
        ("/t/default/handlers", "serves"),
        ("/t/default/jobs/named", "Metadata"),
        ("/t/default/find?q=id%3Anamed", "looked at"),
        ("/tenants", "Bill"),
        ("/workers", "pull worker"),
    ] {
        for width in [360, 1280] {
            browser.resize(width).await;
            go(&browser, place).await;
            browser.until_text(text).await;
            assert_eq!(browser.run(CUT).await, json!([]), "{place} at {width} pixels");
            browser.until("document.documentElement.scrollWidth <= innerWidth").await;
        }
    }
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_runner_does_and_what_no_topic_tells_is_said_as_well() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/help")).await;
    let mut topic = runner.client().get(&format!("{TOPICS}/stuck")).await.json();
    topic["idle"] = json!({ "reason": "no-handler-here", "detail": "another runner lives" });
    topic["oldest_ready_ms"] = 1.into();
    answer(&browser, "topics", 200, &json!({ "topics": [topic] }).to_string()).await;
    answer(&browser, "readyz", 200, "ready\nthe file of 1 handler was refused: its name takes a token\n").await;
    go(&browser, "/t/default").await;
    browser.until_text("stuck: no runner does its jobs").await;
    browser.until_text("A component is not used the file of 1 handler was refused; gristmill check says why").await;
    // Without a connection, what is shown is old.
    answer(&browser, "topics", 400, &json!({ "detail": "`q` is wrong" }).to_string()).await;
    browser.until_text("The server does not understand this. q is wrong What is below is").await;
    // A tenant without jobs is no other one.
    go(&browser, "/t/nobody").await;
    browser.until("document.querySelector('.tenant select').value === 'nobody'").await;
    // A wrong query can be mended.
    go(&browser, "/t/nobody/find?q=%22").await;
    browser.until("document.querySelector('[name=q]').value === '\"'").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_now_comes_first_and_only_the_worst_is_unfolded() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/help")).await;
    let mut topic = runner.client().get(&format!("{TOPICS}/puppet")).await.json();
    (topic["running"], topic["idle"]) = (0.into(), json!({ "reason": "empty", "detail": "no job is ready" }));
    let with = |name: String, dead: u64, rates: Value| {
        let mut topic = topic.clone();
        (topic["topic"], topic["dead"], topic["rates"]) = (name.into(), dead.into(), rates);
        topic
    };
    let mut topics: Vec<_> = (1..8).map(|n| with(format!("dead-{n}"), n * 100, json!(null))).collect();
    topics.push(with(
        "zz-fails".into(),
        0,
        json!({ "over_ms": 60_000, "per_second": { "retried": 0.5, "acked": 0.1 } }),
    ));
    answer(&browser, "topics", 200, &json!({ "topics": topics }).to_string()).await;
    go(&browser, "/t/default").await;
    let shown =
        "[...document.querySelectorAll('section > .concerns a')].map(one => one.innerText.split(':')[0]).join()";
    browser.until(&format!("{shown} === 'zz-fails,dead-7,dead-6,dead-5,dead-4'")).await;
    browser.until_text("zz-fails: 83% of the attempts fail 30 a minute").await;
    browser.until("document.querySelector('section details:not([open]) summary')?.innerText === '3 more'").await;
    browser.until("document.querySelector('[aria-label=Topics] tbody').innerText.includes('only dead jobs')").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_says_where_it_is_and_leads_back() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/t/default/jobs/dead")).await;
    browser.until("document.title.startsWith('Dead · Job dead · staging')").await;
    browser.until("document.querySelector('.nav [aria-current]').innerText === 'Topics'").await;
    browser.click("[aria-label='Way back'] a[href$=puppet]").await;
    browser.until("document.querySelector('h1').innerText === 'puppet'").await;
    visit(&browser, &url(&runner, "/t/default/topics/paused")).await;
    browser.until("document.title.startsWith('paused · paused')").await;
    // A narrow screen shows the links when they are wanted.
    browser.resize(360).await;
    browser.click(".menu").await;
    browser.click(".nav a[href$=schedules]").await;
    browser.until_text("At 03:00").await;
    browser.until("!document.querySelector('.nav').checkVisibility()").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn characters_that_json_names_by_their_codes_are_read_as_such() {
    let (runner, browser) = (runner().await, Browser::start().await);
    let push = Request::post(format!("{TOPICS}/stuck/jobs")).header("content-type", "application/json");
    let body = r#"{"id": "coded", "body": {"a": "M\u00fcller \ud83d\ude00", "b": "\u0000 \u202e \\u00fc \u0022"}}"#;
    assert_eq!(runner.client().send(push, body.as_bytes().to_vec()).await.status, 201);
    visit(&browser, &url(&runner, "/t/default/jobs/coded")).await;
    browser.until_text("\"a\": \"Müller 😀\"").await;
    browser.until_text(r#""b": "\u0000 \u202e \\u00fc \u0022""#).await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_producers_and_handlers_stay_texts() {
    let (runner, browser) = (runner().await, Browser::start().await);
    let bold = "document.querySelector('#root img, #root script')";
    for (place, shows) in [
        ("/t/default/jobs/ready", true),
        ("/t/default/jobs/dead", true),
        ("/t/default/jobs/finished", true),
        ("/t/default/topics/stuck/ready", true),
        ("/t/default/topics/puppet/dead", true),
        ("/t/default/dead", true),
        ("/t/default/find?q=onerror", true),
        ("/t/default/running", true),
        // In a field there is no text of the page.
        ("/t/default/topics/stuck/push?from=ready", false),
        (&format!("/t/default/topics/{}", EVIL.replace('"', "%22").replace('/', "%2F")), true),
    ] {
        visit(&browser, &url(&runner, place)).await;
        if shows {
            browser.until_text("onerror=").await;
        }
        browser.until(&format!("!window.hit && !{bold}")).await;
        assert_eq!(browser.errors().await, Vec::<String>::new(), "{place}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_says_how_much_of_its_time_is_used() {
    let (runner, browser) = (runner().await, Browser::start().await);
    for place in [
        "/t/default/running",
        "/t/default/topics/puppet/running",
        "/t/default/find?q=id%3Arunning",
        "/t/default/jobs/running",
    ] {
        visit(&browser, &url(&runner, place)).await;
        browser.until_text("of 10m").await;
        browser
            .until("document.querySelector('meter').max === 600000 && document.querySelector('meter').value > 0")
            .await;
    }
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_lead_to_what_they_count() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/t/default/bill")).await;
    browser.click("dd a[href$=running]").await;
    browser.until_text("Running jobs").await;
    visit(&browser, &url(&runner, "/t/default/topics/puppet")).await;
    browser.click("[aria-label=Totals] a[href*='reason%3Atrap']").await;
    browser.until("document.querySelector('main tbody')?.innerText.includes('trapped')").await;
    visit(&browser, &url(&runner, "/t/default")).await;
    browser.click("[aria-label=Topics] a[href*='events?topic=puppet']").await;
    browser.until_text("listening").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_number_keeps_its_digits_from_the_form_to_the_job() {
    let (runner, browser) = (runner().await, Browser::start().await);
    visit(&browser, &url(&runner, "/t/default/topics/stuck/push")).await;
    browser.fill("[name=body]", r#"{"big": 12345678901234567890, "small": 1.10}"#).await;
    browser.click("button.main").await;
    browser.until_text("is pushed.").await;
    browser.until_text(r#""big": 12345678901234567890"#).await;
    browser.until_text(r#""small": 1.10"#).await;
    browser.click(".actions a").await;
    browser.until("document.querySelector('[name=body]')?.value.includes('12345678901234567890')").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_come_with_a_policy_and_are_sent_once() {
    let runner = TestRunner::start_on(On::Memory, "", &[]).await;
    let client: HttpClient = runner.client();
    let answer = client.get("/").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = answer.header("content-security-policy");
    for rule in ["default-src 'none'", "require-trusted-types-for 'script'", "frame-ancestors 'none'"] {
        assert!(policy.contains(rule), "{policy}");
    }
    let known = Request::get("/").header("if-none-match", answer.header("etag"));
    let again = client.send(known, Vec::new()).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(client.get("/page/app.js").await.header("content-type"), "text/javascript; charset=utf-8");
    assert_eq!(client.get("/page/vendor/LICENSE-htm").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifest_turns_the_page_off() {
    let page = PageSettings { enabled: false, ..PageSettings::default() };
    let settings = HttpServerSettings { page, ..HttpServerSettings::default() };
    let runner = TestRunner::start_with(settings, On::Memory, "", &[]).await;
    for path in ["/", "/page/app.js"] {
        assert_eq!(runner.client().get(path).await.json()["code"], "not-found", "{path}");
    }
}
