//! The page says what was done.

use gristmill::job::{Due, JobSpec};
use gristmill::server::{HttpServer, HttpServerSettings};
use gristmill::store::embedded::EmbeddedStore;
use gristmill_tests::guests;
use gristmill_tests::http_client::{Answer, HttpClient};
use gristmill_tests::test_runner::{On, TestRunner, spec};
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use hyper::http::request::Builder;
use puppet::{Cause, End, Script, Step};
use serde_json::json;

use super::reader::Samples;

const MANIFEST: &str = r#"
    [defaults]
    backoff = "10ms"
    [topics.puppet]
    attempts = 3
    [topics.sink]
    handler = "nobody"
    [tenants.acme.topics.work]
    handler = "puppet"
"#;

async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, MANIFEST, &[("puppet", guests::PUPPET)]).await
}

on_both_stores! {
    attempts_are_counted_by_their_end
    jobs_are_counted_where_they_wait
    a_tenants_page_shows_nothing_of_another
    a_page_is_the_same_in_both_formats
    calls_and_requests_are_counted_by_name_and_template
}

/// As it is at this moment.
async fn page_now(runner: &TestRunner, path: &str) -> Samples {
    let answer = runner.client().get(path).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    Samples::read(&answer.text())
}

/// Once the store has answered for it within the time that it is given.
async fn page(runner: &TestRunner, path: &str) -> Samples {
    let is_whole = |page: &Samples| page.get("gristmill_store_up") == 1.0;
    until("the store to answer", SOON, async || Some(page_now(runner, path).await).filter(is_whole)).await
}

/// The same as an answer, to any request for it.
async fn answered(runner: &TestRunner, request: impl Fn() -> Builder) -> Answer {
    until("the store to answer", SOON, async || {
        let answer = runner.client().send(request(), Vec::new()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        (Samples::read(&answer.text()).get("gristmill_store_up") == 1.0).then_some(answer)
    })
    .await
}

async fn work(runner: &TestRunner, topic: &str, script: Script) {
    runner.work(topic, &script.to_json()).await;
}

/// Of the topic `puppet`, with these further labels.
fn of(name: &str, labels: &str) -> String {
    format!("{name}{{tenant=\"default\",topic=\"puppet\"{labels}}}")
}

async fn attempts_are_counted_by_their_end(runner: TestRunner) {
    for _ in 0..3 {
        work(&runner, "puppet", Script::end(End::Complete)).await;
    }
    work(&runner, "puppet", Script::end(End::Unreachable)).await;
    work(&runner, "puppet", Script::end(End::Reject(Cause::default()))).await;
    let again = Step::RetryUntilAttempt { attempt: 2, after_ms: Some(1) };
    work(&runner, "puppet", Script::new([again, Step::End(End::Complete)])).await;

    let page = page(&runner, "/metrics").await;
    let attempts = |outcome| page.find(&of("gristmill_node_attempts_total", &format!(",outcome=\"{outcome}\"")));
    assert_eq!(["complete", "trapped", "reject", "retry"].map(attempts), [4.0, 2.0, 1.0, 1.0].map(Some));
    let jobs = |name, event, reason| page.find(&of(name, &format!(",event=\"{event}\",reason=\"{reason}\"")));
    // One server alone has done what the store has counted.
    for name in ["gristmill_node_jobs_total", "gristmill_store_jobs_total"] {
        assert_eq!(jobs(name, "acked", ""), Some(4.0), "{name}");
        assert_eq!(jobs(name, "retried", ""), Some(2.0), "{name}");
        assert_eq!(jobs(name, "dead", "trap"), Some(1.0), "{name}");
        assert_eq!(jobs(name, "dead", "rejected"), Some(1.0), "{name}");
        assert_eq!(jobs(name, "dead", "timeout"), None, "{name}");
    }
    assert_eq!(page.get("gristmill_store_up"), 1.0);
    let count = |name: &str| page.get(&of(&format!("{name}_count"), ""));
    assert_eq!(count("gristmill_node_attempt_duration_seconds"), 8.0);
    assert_eq!(count("gristmill_node_attempt_fuel"), 8.0);
    assert_eq!(count("gristmill_node_attempt_memory_peak_bytes"), 8.0);
    // Of first attempts, and of jobs that are over.
    assert_eq!(count("gristmill_node_wait_seconds"), 6.0);
    assert_eq!(count("gristmill_node_latency_seconds"), 6.0);
    let fuel: u64 = runner.records().iter().map(|record| record.run.unwrap().fuel).sum();
    assert_eq!(page.get(&of("gristmill_node_fuel_total", "")), fuel as f64);
    let version = runner.records()[0].run.unwrap().version.unwrap();
    let handler = format!(",handler=\"puppet\",version=\"{version}\"");
    assert_eq!(page.get(&of("gristmill_node_handler_info", &handler)), 1.0);
    assert_eq!(page.get(r#"gristmill_node_handler_reloads_total{handler="puppet",result="loaded"}"#), 1.0);
    assert!(page.get(r#"gristmill_node_handler_load_seconds{handler="puppet"}"#) > 0.0);
    assert_eq!(page.get("gristmill_node_guests_max"), 64.0);
}

async fn jobs_are_counted_where_they_wait(runner: TestRunner) {
    runner.push("sink", b"").await;
    runner.push("sink", b"").await;
    runner.push_job(spec("sink", b""), Due::After(std::time::Duration::from_secs(3600))).await;
    work(&runner, "puppet", Script::end(End::Reject(Cause::default()))).await;
    let path = "/v1/tenants/default/topics/sink/pause";
    assert_eq!(runner.client().post(path, &json!({})).await.status, 200);
    let page = page(&runner, "/metrics").await;
    let depth = |topic, state| {
        page.get(&format!("gristmill_store_depth{{tenant=\"default\",topic=\"{topic}\",state=\"{state}\"}}"))
    };
    assert_eq!(["ready", "delayed", "running", "dead"].map(|state| depth("sink", state)), [2.0, 1.0, 0.0, 0.0]);
    assert_eq!(depth("puppet", "dead"), 1.0);
    let oldest =
        |topic| page.find(&format!("gristmill_store_oldest_ready_seconds{{tenant=\"default\",topic=\"{topic}\"}}"));
    assert!(oldest("sink").is_some_and(|age| (0.0..600.0).contains(&age)), "{:?}", oldest("sink"));
    assert_eq!(oldest("puppet"), None);
    let paused = |topic| page.get(&format!("gristmill_store_topic_paused{{tenant=\"default\",topic=\"{topic}\"}}"));
    assert_eq!((paused("sink"), paused("puppet")), (1.0, 0.0));
}

async fn a_tenants_page_shows_nothing_of_another(runner: TestRunner) {
    work(&runner, "puppet", Script::end(End::Complete)).await;
    let theirs =
        JobSpec { topic: "acme/work".parse().unwrap(), ..spec("puppet", &Script::end(End::Complete).to_json()) };
    let job = runner.push_job(theirs, Due::Now).await;
    until("the job", SOON, async || runner.attempts_at(&job).pop()).await;
    let both = page(&runner, "/metrics").await;
    let acked = |page: &Samples, tenant: &str, topic: &str| {
        let labels = format!("{{tenant=\"{tenant}\",topic=\"{topic}\",event=\"acked\",reason=\"\"}}");
        [
            page.find(&format!("gristmill_node_jobs_total{labels}")),
            page.find(&format!("gristmill_store_jobs_total{labels}")),
        ]
    };
    assert_eq!(acked(&both, "default", "puppet"), [Some(1.0); 2]);
    assert_eq!(acked(&both, "acme", "work"), [Some(1.0); 2]);

    let answer = answered(&runner, || Request::get("/v1/tenants/acme/metrics")).await.text();
    let ours = Samples::read(&answer);
    assert_eq!(acked(&ours, "acme", "work"), [Some(1.0); 2]);
    assert!(!answer.contains("tenant=\"default\""), "{answer}");
    let of_nobody = answer.lines().filter(|line| !line.starts_with('#') && !line.contains("tenant=\"acme\""));
    assert_eq!(of_nobody.collect::<Vec<_>>(), ["gristmill_store_up 1"]);
}

async fn a_page_is_the_same_in_both_formats(runner: TestRunner) {
    work(&runner, "puppet", Script::end(End::Complete)).await;
    let text = page(&runner, "/metrics").await;
    let request = || Request::get("/metrics").header("accept", "application/openmetrics-text; version=1.0.0");
    let answer = answered(&runner, request).await;
    assert_eq!(answer.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(answer.text().ends_with("# EOF\n"));
    let open_metrics = Samples::read(&answer.text());
    for name in ["gristmill_node_jobs_total", "gristmill_store_jobs_total", "gristmill_node_attempt_fuel_bucket"] {
        assert!(!text.with(name).is_empty());
        assert_eq!(text.with(name), open_metrics.with(name));
    }
}

async fn calls_and_requests_are_counted_by_name_and_template(runner: TestRunner) {
    work(&runner, "puppet", Script::end(End::Complete)).await;
    for id in ["secret-1", "secret-2"] {
        assert_eq!(runner.client().get(&format!("/v1/tenants/default/jobs/{id}")).await.status, 404);
    }
    assert_eq!(runner.client().get("/no/such/path-1").await.status, 404);
    let document = json!({ "jobs": [{ "id": "a", "topic": "sink" }] });
    assert_eq!(runner.client().post("/v1/jobs", &document).await.status, 200);

    let calls = |operation| {
        format!("gristmill_node_store_call_duration_seconds_count{{operation=\"{operation}\",result=\"ok\"}}")
    };
    // The runner's first heartbeat waits for nobody's job.
    let answer = until("a heartbeat", SOON, async || {
        let answer = runner.client().get("/metrics").await.text();
        Samples::read(&answer).find(&calls("heartbeat")).map(|_| answer)
    })
    .await;
    assert!(!answer.contains("secret-1") && !answer.contains("path-1"), "{answer}");
    let page = Samples::read(&answer);
    let requests = |route, status| {
        page.get(&format!("gristmill_node_http_requests_total{{method=\"GET\",route=\"{route}\",status=\"{status}\"}}"))
    };
    assert_eq!(requests("/v1/tenants/{tenant}/jobs/{id}", 404), 2.0);
    assert_eq!(requests("_none", 404), 1.0);
    assert!(page.get("gristmill_node_http_connections") >= 1.0, "its own is open");
    assert!(page.get("gristmill_node_http_accepted_total") >= 5.0);
    for operation in ["claim", "settle", "heartbeat", "push", "job"] {
        assert!(page.get(&calls(operation)) >= 1.0, "{operation}");
    }
    let pushed = r#"gristmill_node_jobs_total{tenant="default",topic="sink",event="pushed",reason=""}"#;
    assert_eq!(page.get(pushed), 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_store_leaves_the_servers_own_metrics() {
    let mut runner = runner(On::Redis).await;
    work(&runner, "puppet", Script::end(End::Complete)).await;
    runner.redis.as_mut().unwrap().stop();
    let page = until("the store to be missed", SOON, async || {
        let page = page_now(&runner, "/metrics").await;
        (page.get("gristmill_store_up") == 0.0).then_some(page)
    })
    .await;
    assert_eq!(page.get(&of("gristmill_node_jobs_total", ",event=\"acked\",reason=\"\"")), 1.0);
    until("a page without depths", SOON, async || {
        let page = page_now(&runner, "/metrics").await;
        page.with("gristmill_store_depth").is_empty().then_some(())
    })
    .await;
    runner.redis.as_mut().unwrap().resume().await;
    self::page(&runner, "/metrics").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_beyond_the_bound_share_a_series() {
    const BOUND: usize = 1000;
    let runner = runner(On::Memory).await;
    let jobs = |numbers: std::ops::Range<usize>| {
        let job = |number| json!({ "tenant": "many", "topic": format!("t{number:04}"), "id": format!("j{number}") });
        json!({ "jobs": numbers.map(job).collect::<Vec<_>>() })
    };
    // Three that the page has met before are of the manifest.
    let before = page(&runner, "/metrics").await.with("gristmill_node_handler_info").len();
    assert_eq!(before, 3);
    for numbers in [0..BOUND - before, BOUND - before..BOUND - before + 2] {
        let answer = runner.client().post("/v1/jobs", &jobs(numbers)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let page = page(&runner, "/metrics").await;
    let pushed = page.with("event=\"pushed\",reason=\"\",tenant=\"many\"");
    let of_node = pushed.iter().filter(|(name, _)| name.starts_with("gristmill_node_")).count();
    assert_eq!(of_node, BOUND - before + 1);
    let other = |name: &str, labels: &str| page.get(&format!("{name}{{tenant=\"many\",topic=\"_other\",{labels}}}"));
    assert_eq!(other("gristmill_node_jobs_total", "event=\"pushed\",reason=\"\""), 2.0);
    assert_eq!(other("gristmill_store_jobs_total", "event=\"pushed\",reason=\"\""), 2.0);
    assert_eq!(other("gristmill_store_depth", "state=\"ready\""), 2.0);
    assert_eq!(page.with("gristmill_store_topic_paused").len(), BOUND - before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_served_before_the_handlers_are_loaded() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let store = std::sync::Arc::new(EmbeddedStore::in_memory().await.unwrap());
    let server = HttpServer::start(listener, store, "a store", &HttpServerSettings::default()).await.unwrap();
    let client = HttpClient::new(server.address());
    let page = until("the store to answer", SOON, async || {
        let page = Samples::read(&client.get("/metrics").await.text());
        (page.get("gristmill_store_up") == 1.0).then_some(page)
    })
    .await;
    assert!(page.find(&format!("gristmill_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))).is_some());
    assert!(page.get("process_resident_memory_bytes") > 0.0);
    server.shutdown().await;
}
