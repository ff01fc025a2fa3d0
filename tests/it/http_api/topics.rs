//! Topics: what is in them, who does their jobs, and why nobody does.

use gristmill::job::JobId;
use gristmill::time::Timestamp;
use gristmill_tests::guests;
use gristmill_tests::test_runner::{On, TestRunner};
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use serde_json::{Value, json};

use super::{ECHO, NOBODY, refused};

const MANIFEST: &str = r#"
    [defaults]
    clock = false
    [topics.echo]
    [topics.puppet]
    [topics.wants-clock]
    handler = "puppet"
    [topics.without]
    [topics.elsewhere]
    handler = "external"
    [topics.broken]
    [topics.slow]
    handler = "echo"
    rate = "1/h"
"#;

async fn runner(on: On) -> TestRunner {
    let runner = TestRunner::start_on(on, MANIFEST, &[("echo", guests::ECHO), ("puppet", guests::PUPPET)]).await;
    runner.drop_in("broken", b"no component");
    runner
}

on_both_stores! {
    every_topic_says_why_it_is_idle
    every_job_says_why_it_is_not_running
    a_pause_of_an_unknown_topic_says_so
    a_job_in_line_gets_a_forecast_by_the_pace_of_those_before_it
    a_job_that_a_rate_keeps_in_line_is_told_the_rate_and_when_it_starts
    topics_show_counts_and_rates
    an_unknown_topic_is_not_found
    a_topic_is_purged_of_its_waiting_and_dead_jobs
    a_topic_with_running_jobs_is_not_purged
}

async fn topic(runner: &TestRunner, name: &str) -> Value {
    runner.client().get(&format!("/v1/tenants/default/topics/{name}")).await.json()
}

async fn every_topic_says_why_it_is_idle(runner: TestRunner) {
    runner.client().post(NOBODY, &json!({})).await;
    let reason = async |name| topic(&runner, name).await["idle"]["reason"].clone();
    assert_eq!(reason("nobody").await, "no-handler");
    assert_eq!(reason("without").await, "no-handler");
    assert_eq!(reason("echo").await, "empty");
    assert_eq!(reason("elsewhere").await, "empty");
    runner.push("elsewhere", b"x").await;
    assert_eq!(reason("elsewhere").await, Value::Null, "pull workers take it");
    let lacking = topic(&runner, "wants-clock").await;
    assert_eq!((&lacking["idle"]["reason"], &lacking["lacking"]), (&json!("lacks-grants"), &json!(["clock"])));
    assert!(lacking["idle"]["detail"].as_str().unwrap().contains("`clock`"), "{lacking}");
    until("the file to be refused", SOON, async || (reason("broken").await == "refused").then_some(())).await;
    runner.client().post("/v1/tenants/default/topics/echo/pause", &json!({})).await;
    assert_eq!(reason("echo").await, "paused");
    std::fs::remove_file(runner.handlers().join("broken.wasm")).unwrap();
    until("it to be forgotten", SOON, async || (reason("broken").await == "no-handler").then_some(())).await;
}

async fn every_job_says_why_it_is_not_running(runner: TestRunner) {
    let client = runner.client();
    let why = async |id: &str| client.get(&format!("/v1/tenants/default/jobs/{id}/why")).await.json();
    let push = async |topic: &str, job: Value| {
        let pushed = client.post(&format!("/v1/tenants/default/topics/{topic}/jobs"), &job).await.json();
        pushed["id"].as_str().unwrap().to_owned()
    };
    let (first, second) = (push("without", json!({})).await, push("without", json!({})).await);
    let waits = why(&second).await;
    assert_eq!((&waits["reason"], &waits["ahead"]), (&json!("topic-idle"), &json!(1)), "{waits}");
    assert_eq!(waits["idle"]["reason"], "no-handler");
    assert_eq!(
        waits["detail"],
        "ready: one job of its topic stands before it, and its topic has no handler: there is no without.wasm in the handlers folder"
    );
    client.post("/v1/tenants/default/topics/without/pause", &json!({})).await;
    let paused = why(&first).await;
    assert_eq!((&paused["ahead"], &paused["idle"]["reason"]), (&json!(0), &json!("paused")), "{paused}");

    let pulled = push("elsewhere", json!({})).await;
    assert_eq!(why(&pulled).await["reason"], "in-line", "a pull worker may take it");
    let later = push("echo", json!({ "delay_ms": 3_600_000 })).await;
    assert_eq!(why(&later).await["reason"], "delayed");
    assert!(why(&later).await["until_ms"].is_u64());
    refused(&client.get("/v1/tenants/default/jobs/unknown/why").await, 404, "job-unknown");

    let topic = client.get("/v1/tenants/default/topics/without/why").await.json();
    assert_eq!(topic["idle"]["reason"], "paused");
    let detail = topic["detail"].as_str().unwrap();
    assert!(detail.starts_with("`without` begins no job: it was paused by operator "), "{detail}");
    assert!(detail.ends_with(" ago: `gristmill resume without` (2 ready, 0 delayed, 0 running)"), "{detail}");
    let said = paused["detail"].as_str().unwrap();
    assert!(said.contains("and its topic was paused by operator "), "{said}");
    let shown = client.get("/v1/tenants/default/topics/without").await.json();
    assert_eq!(shown["pause"]["by"], "operator", "{shown}");
    let before_now = shown["pause"]["since_ms"].as_u64().unwrap() <= Timestamp::now().as_millis();
    assert!(before_now && shown["idle"]["detail"].as_str().unwrap().contains("by operator"), "{shown}");

    let schedule = "/v1/tenants/default/schedules/without/nightly";
    let put = Request::builder().method("PUT").uri(schedule).header("content-type", "application/json");
    assert_eq!(client.send(put, br#"{"cron":"@daily"}"#.to_vec()).await.status, 200);
    let run = client.post(&format!("{schedule}/run"), &json!({ "id": "by-hand" })).await.json();
    assert_eq!(run["job"], "by-hand", "{run}");
    let scheduled = why("by-hand").await;
    assert_eq!((&scheduled["ahead"], &scheduled["idle"]["reason"]), (&json!(2), &json!("paused")), "{scheduled}");
}

async fn a_pause_of_an_unknown_topic_says_so(runner: TestRunner) {
    let client = runner.client();
    let set = async |topic: &str, verb: &str| {
        client.post(&format!("/v1/tenants/default/topics/{topic}/{verb}"), &json!({})).await.json()
    };
    assert_eq!(set("slow", "pause").await, json!({ "changed": true }));
    for (verb, changed) in [("pause", true), ("resume", true), ("resume", false)] {
        let answer = set("slwo", verb).await;
        let warning = answer["warnings"][0].as_str().unwrap_or_default();
        assert!(warning.starts_with("there is no topic `slwo` (did you mean `slow`?): "), "{answer}");
        assert_eq!(answer["changed"], changed);
    }
}

async fn a_job_in_line_gets_a_forecast_by_the_pace_of_those_before_it(runner: TestRunner) {
    let (client, topic) = (runner.client(), "/v1/tenants/default/topics/elsewhere");
    runner.push("elsewhere", b"done").await;
    let (next, last) = (runner.push("elsewhere", b"x").await, runner.push("elsewhere", b"y").await);
    let claimed = client.post(&format!("{topic}/claim"), &json!({ "max": 1 })).await.json();
    let settle = json!({ "settlements": [{ "lease": claimed["claims"][0]["lease"], "ack": {} }] });
    assert_eq!(client.post("/v1/tenants/default/leases/settle", &settle).await.json()["settled"], json!(["done"]));
    let expected = async |id: &JobId| {
        let why = client.get(&format!("/v1/tenants/default/jobs/{id}/why")).await.json();
        let by_pace =
            why["expected_by"] == "pace" && why["detail"].as_str().unwrap().contains("pace of the last minutes");
        why["expected_in_ms"].as_u64().filter(|_| by_pace)
    };
    let first = until("a forecast", SOON, async || expected(&next).await).await;
    let second = until("a forecast", SOON, async || expected(&last).await).await;
    assert!(second > first, "{first} {second}");
}

async fn a_job_that_a_rate_keeps_in_line_is_told_the_rate_and_when_it_starts(runner: TestRunner) {
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(runner.push("slow", b"x").await);
    }
    let path = format!("/v1/tenants/default/jobs/{}/why", jobs[2]);
    let limited = until("the rate to be used up", SOON, async || {
        let why = runner.client().get(&path).await.json();
        (why["idle"]["reason"] == "rate-limited").then_some(why)
    })
    .await;
    let limit = &limited["idle"]["limit"];
    assert_eq!((&limit["rate"], &limit["burst"]), (&json!("1/h"), &json!(1)), "{limited}");
    assert!(limited["detail"].as_str().unwrap().contains("its `rate` (1/h, 1 at once) allows"), "{limited}");
    assert_eq!((&limited["expected_by"], &limited["ahead"]), (&json!("rate"), &json!(1)), "{limited}");
    let hours = limited["expected_in_ms"].as_u64().unwrap() as f64 / 3_600_000.0;
    assert!(1.5 < hours && hours <= 2.0, "the second one starts within an hour, and this one an hour later: {limited}");
}

async fn topics_show_counts_and_rates(runner: TestRunner) {
    let path = format!("{ECHO}?wait_ms=60000");
    assert_eq!(topic(&runner, "echo").await["rates"], Value::Null);
    runner.client().post(&path, &json!({ "body": 1 })).await;
    let echo =
        until("a rate", SOON, async || Some(topic(&runner, "echo").await).filter(|echo| !echo["rates"].is_null()))
            .await;
    assert_eq!((&echo["totals"]["acked"], &echo["ready"], &echo["paused"]), (&json!(1), &json!(0), &json!(false)));
    assert!(
        echo["rates"]["over_ms"].as_u64().unwrap() >= 1000 && echo["rates"]["per_second"]["acked"].is_f64(),
        "{echo}"
    );
    assert_eq!((&echo["handler"], echo["version"].as_str().unwrap().len()), (&json!("echo"), 12));
    let all = runner.client().get("/v1/tenants/default/topics").await.json();
    let names: Vec<_> =
        all["topics"].as_array().unwrap().iter().map(|topic| topic["topic"].as_str().unwrap()).collect();
    assert_eq!(names, ["broken", "echo", "elsewhere", "puppet", "slow", "wants-clock", "without"]);
}

async fn an_unknown_topic_is_not_found(runner: TestRunner) {
    refused(&runner.client().get("/v1/tenants/default/topics/unheard-of").await, 404, "topic-unknown");
    refused(&runner.client().get("/v1/tenants/acme/topics/echo").await, 404, "topic-unknown");
    assert_eq!(runner.client().get("/v1/tenants/acme/topics").await.json(), json!({ "topics": [] }));
}

async fn a_topic_is_purged_of_its_waiting_and_dead_jobs(runner: TestRunner) {
    let (client, stray) = (runner.client(), "/v1/tenants/default/topics/stray");
    refused(&client.delete(stray).await, 404, "topic-unknown");
    client.post(&format!("{stray}/jobs"), &json!({ "body": 1 })).await;
    client.post(&format!("{stray}/jobs"), &json!({ "body": 2, "delay_ms": 60_000 })).await;
    let problem = client.delete(stray).await;
    refused(&problem, 409, "topic-has-jobs");
    let detail = problem.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("1 ready, 1 delayed and 0 dead"), "{detail}");
    let purged = client.delete(&format!("{stray}?jobs=true")).await;
    assert_eq!((purged.status, purged.json()), (200, json!({ "waiting": 2, "dead": 0, "forgotten": true })));
    refused(&client.get(stray).await, 404, "topic-unknown");

    let echo = "/v1/tenants/default/topics/echo";
    client.post(&format!("{ECHO}?wait_ms=60000"), &json!({ "body": 1 })).await;
    assert_eq!(topic(&runner, "echo").await["totals"]["acked"], 1);
    let purged = client.delete(echo).await;
    assert_eq!((purged.status, purged.json()), (200, json!({ "waiting": 0, "dead": 0, "forgotten": true })));
    assert_eq!(topic(&runner, "echo").await["totals"], json!({}), "it has a handler, so it is listed");
}

async fn a_topic_with_running_jobs_is_not_purged(runner: TestRunner) {
    let (client, topic) = (runner.client(), "/v1/tenants/default/topics/elsewhere");
    runner.push("elsewhere", b"x").await;
    runner.push("elsewhere", b"y").await;
    client.post(&format!("{topic}/claim"), &json!({ "max": 1 })).await;
    let problem = client.delete(&format!("{topic}?jobs=true")).await;
    refused(&problem, 409, "topic-has-jobs");
    let topic = client.get(topic).await.json();
    assert_eq!((&topic["ready"], &topic["running"]), (&json!(1), &json!(1)), "nothing was removed");
}
