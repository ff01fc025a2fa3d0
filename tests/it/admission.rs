//! One way in: every entrance for new jobs holds every rule, at its edge and one past it.

use std::time::Duration;

use gristmill::job::{Job, TopicId};
use gristmill::store::{JobState, StateFilter};
use gristmill_tests::guests;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::test_runner::{On, TestRunner};
use hyper::Request;
use puppet::{Enqueue, Script, Step};
use serde_json::{Value, json};

const MANIFEST: &str = r#"
    [limits]
    payload = 3000
    [topics.mail]
    handler = "nobody"
    payload-limit = 2000
    ttl = "1m"
    [topics.wide]
    handler = "nobody"
    [topics.external]
    handler = "external"
    [topics.puppet]
    attempts = 1
"#;

const TEN_YEARS: u64 = 10 * 366 * 24 * 3600 * 1000;
const NINETY_DAYS: u64 = 90 * 24 * 3600 * 1000;
const YEAR_9999: u64 = 253_402_300_799_999;

on_both_stores! {
    every_entrance_holds_every_rule_it_can_be_asked_to_break
    the_topics_time_to_live_holds_at_every_entrance
    a_job_of_an_unknown_topic_is_stored_with_a_warning
    a_topic_that_is_refused_names_the_one_that_was_meant
}

async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, MANIFEST, &[("puppet", guests::PUPPET)]).await
}

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Body,
    BodyOfTenant,
    Key,
    Delay,
    Due,
    Ttl,
    KeepResult,
    Window,
    Attempts,
}

const BOUNDS: [(Field, u64); 9] = [
    (Field::Body, 2000),
    (Field::BodyOfTenant, 3000),
    (Field::Key, 64 << 10),
    (Field::Delay, TEN_YEARS),
    (Field::Due, YEAR_9999),
    (Field::Ttl, TEN_YEARS),
    (Field::KeepResult, NINETY_DAYS),
    (Field::Window, NINETY_DAYS),
    (Field::Attempts, 1000),
];

#[derive(Debug, Clone, Copy)]
enum Entrance {
    Topic,
    Jobs,
    Lmstfy,
    LmstfyMany,
    Wasm,
    Pull,
}

const ENTRANCES: [Entrance; 6] =
    [Entrance::Topic, Entrance::Jobs, Entrance::Lmstfy, Entrance::LmstfyMany, Entrance::Wasm, Entrance::Pull];

impl Field {
    fn topic(self) -> &'static str {
        if self == Self::BodyOfTenant { "wide" } else { "mail" }
    }
}

async fn every_entrance_holds_every_rule_it_can_be_asked_to_break(runner: TestRunner) {
    let mut asked = 0;
    for entrance in ENTRANCES {
        for (field, bound) in BOUNDS {
            let Some(taken) = push(&runner, entrance, field, bound).await else { continue };
            assert!(taken, "{entrance:?} takes {field:?} at {bound}");
            assert_eq!(
                push(&runner, entrance, field, bound + 1).await,
                Some(false),
                "{entrance:?}: one past {field:?}"
            );
            asked += 1;
        }
    }
    assert_eq!(asked, 9 + 9 + 2 + 2 + 4 + 9, "an entrance that can say more is asked for more");
}

/// Whether the entrance takes a job with this value; `None` if it cannot be told such a value.
async fn push(runner: &TestRunner, entrance: Entrance, field: Field, value: u64) -> Option<bool> {
    let (client, topic) = (runner.client(), field.topic());
    match entrance {
        Entrance::Topic => {
            let path = format!("/v1/tenants/default/topics/{topic}/jobs");
            taken(&client.post(&path, &plain(field, value)).await.json(), "status")
        }
        Entrance::Jobs => {
            let answer = client.post("/v1/jobs", &json!({ "jobs": [with_topic(field, value)] })).await;
            taken(&answer.json(), "pushed")
        }
        Entrance::Lmstfy | Entrance::LmstfyMany if !is_body(field) => None,
        Entrance::Lmstfy => {
            let request = Request::put(format!("/api/default/{topic}"));
            Some(client.send(request, vec![b'x'; value as usize]).await.status == 201)
        }
        Entrance::LmstfyMany => {
            let body = json!(["x".repeat(value as usize - 2)]).to_string();
            Some(client.send(Request::put(format!("/api/default/{topic}/bulk")), body.into()).await.status == 201)
        }
        Entrance::Wasm => {
            let job = enqueue(field, value)?;
            let view = runner.work("puppet", &Script::new([Step::Enqueue(job)]).to_json()).await;
            Some(view.state == JobState::Finished)
        }
        Entrance::Pull => {
            let answer = settle_with(runner, with_topic(field, value)).await;
            taken(&answer, "settled")
        }
    }
}

fn is_body(field: Field) -> bool {
    matches!(field, Field::Body | Field::BodyOfTenant)
}

/// What an answer has if the job was taken; otherwise it is a problem that says what is wrong with the request.
#[track_caller]
fn taken(answer: &Value, key: &str) -> Option<bool> {
    if answer.get(key).is_some_and(|found| !found.is_number()) {
        return Some(true);
    }
    assert!(matches!(answer["code"].as_str(), Some("too-large" | "bad-request")), "{answer}");
    Some(false)
}

fn plain(field: Field, value: u64) -> Value {
    match field {
        // With its quotation marks it is as long as that.
        Field::Body | Field::BodyOfTenant => json!({ "body": "x".repeat(value as usize - 2) }),
        // The media type of no body is none.
        Field::Key => json!({ "key": "k".repeat(value as usize) }),
        Field::Delay => json!({ "delay_ms": value }),
        Field::Due => json!({ "at_ms": value }),
        Field::Ttl => json!({ "ttl_ms": value }),
        Field::KeepResult => json!({ "keep_result_ms": value }),
        Field::Window => json!({ "unique": { "value": format!("{value}"), "window_ms": value } }),
        Field::Attempts => json!({ "attempts_max": value }),
    }
}

fn with_topic(field: Field, value: u64) -> Value {
    let mut said = plain(field, value);
    said["id"] = json!(format!("j{:016x}", fastrand::u64(..)));
    said["topic"] = json!(field.topic());
    said
}

/// What the puppet can say of a job.
fn enqueue(field: Field, value: u64) -> Option<Enqueue> {
    let job = Enqueue { topic: field.topic().into(), ..Enqueue::default() };
    match field {
        Field::Body | Field::BodyOfTenant => Some(Enqueue { data: "x".repeat(value as usize), ..job }),
        Field::Key => {
            // The body of a text has a media type, which counts.
            let media = "text/plain; charset=utf-8".len();
            Some(Enqueue { key: Some("k".repeat(value as usize - media)), ..job })
        }
        Field::Due => {
            // The puppet only knows delays from its own now: an hour before the end of time, and an hour after it.
            let now = gristmill::time::Timestamp::now().as_millis();
            let hour = 3_600_000;
            let at = if value > YEAR_9999 { value + hour } else { value - hour };
            Some(Enqueue { delay_ms: Some(at - now), ..job })
        }
        _ => None,
    }
}

/// Settles a job of a pull worker with this follow-up; gives it back if that is refused.
async fn settle_with(runner: &TestRunner, follow_up: Value) -> Value {
    let client = runner.client();
    runner.push("external", b"").await;
    let path = "/v1/tenants/default/topics/external/claim";
    let claims = client.post(path, &json!({ "wait_ms": 30_000 })).await.json();
    let lease = &claims["claims"][0]["lease"];
    let settle = async |settlement: Value| {
        client.post("/v1/tenants/default/leases/settle", &json!({ "settlements": [settlement] })).await.json()
    };
    let answer = settle(json!({ "lease": lease, "ack": {}, "follow_ups": [follow_up] })).await;
    if answer.get("settled").is_none() {
        settle(json!({ "lease": lease, "ack": {} })).await;
    }
    answer
}

async fn ready(runner: &TestRunner, topic: &str) -> Vec<Job> {
    let topic: TopicId = topic.parse().unwrap();
    let page = runner.store.jobs(&topic, StateFilter::Ready, None, 100).await.unwrap();
    page.jobs.into_iter().filter_map(|view| view.job).collect()
}

async fn the_topics_time_to_live_holds_at_every_entrance(runner: TestRunner) {
    for (index, entrance) in ENTRANCES.into_iter().enumerate() {
        assert_eq!(push(&runner, entrance, Field::Body, 10).await, Some(true), "{entrance:?}");
        let jobs = ready(&runner, "mail").await;
        assert_eq!(jobs.len(), index + 1, "{entrance:?}");
        assert!(jobs.iter().all(|job| job.spec.options.ttl == Some(Duration::from_secs(60))), "{entrance:?}: {jobs:?}");
    }
    // A job's own comes before the topic's.
    assert_eq!(push(&runner, Entrance::Topic, Field::Ttl, 5000).await, Some(true));
    assert!(ready(&runner, "mail").await.iter().any(|job| job.spec.options.ttl == Some(Duration::from_secs(5))));
}

async fn a_job_of_an_unknown_topic_is_stored_with_a_warning(runner: TestRunner) {
    let client = runner.client();
    let warning = "there is no topic `mial` (did you mean `mail`?)";
    let path = "/v1/tenants/default/topics/mial/jobs";
    let spec = json!({ "id": "j", "tenant": "default", "topic": "mial" });
    for answer in [
        client.post(path, &json!({})).await,
        client.post(path, &json!({ "jobs": [{}, {}] })).await,
        client.post("/v1/jobs", &json!({ "jobs": [spec] })).await,
    ] {
        let answer = answer.json();
        let warnings = answer["warnings"].as_array().unwrap_or_else(|| panic!("{answer}"));
        assert!(warnings.len() == 1 && warnings[0].as_str().unwrap().starts_with(warning), "{answer}");
    }
    assert_eq!(client.send(Request::put("/api/default/mial"), b"x".to_vec()).await.status, 201);
    assert_eq!(ready(&runner, "mial").await.len(), 5);
    let known = client.post("/v1/tenants/default/topics/mail/jobs", &json!({})).await.json();
    assert!(known.get("warnings").is_none(), "{known}");
}

async fn a_topic_that_is_refused_names_the_one_that_was_meant(runner: TestRunner) {
    runner.rewrite(&format!("[handlers]\nunknown-topics = \"refuse\"\n{MANIFEST}"));
    let client = runner.client();
    let path = "/v1/tenants/default/topics/mial/jobs";
    let answer = gristmill_tests::wait::until("the manifest", gristmill_tests::wait::SOON, async || {
        let answer = client.post(path, &json!({})).await;
        (answer.status != 201).then_some(answer)
    })
    .await;
    assert_eq!((answer.status, &answer.json()["code"]), (404, &json!("topic-unknown")));
    assert!(answer.text().contains("did you mean `mail`?"), "{}", answer.text());
    let spec = json!({ "id": "j", "tenant": "default", "topic": "mial" });
    let answer = client.post("/v1/jobs", &json!({ "jobs": [spec] })).await;
    assert_eq!(answer.json()["code"], "topic-unknown");
    assert_eq!(client.send(Request::put("/api/default/mial"), b"x".to_vec()).await.status, 404);
    assert_eq!(client.post("/v1/tenants/default/topics/mail/jobs", &json!({})).await.status, 201);
}

/// The command line, straight into the store and by way of the server that owns it.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_holds_every_rule_with_and_without_a_server() {
    for project in [TestProject::new(MANIFEST, &[]).await, TestProject::on_redis(MANIFEST, &[]).await] {
        command_line(&project);
        let server = project.serve().await;
        command_line(&project);
        drop(server);
    }
}

fn command_line(project: &TestProject) {
    let body = |bytes: usize| "x".repeat(bytes);
    let id = project.run(&["push", "mail", "--data", &body(2000)]).done();
    let job = project.run(&["job", "show", id.trim(), "--json"]).ended(0).document();
    assert_eq!(job["job"]["ttl_ms"], 60_000, "{job}");
    for arguments in [
        ["push", "mail", "--data", &body(2001)],
        ["push", "wide", "--data", &body(3001)],
        ["push", "mail", "--delay", "3661d"],
        ["push", "mail", "--ttl", "3661d"],
        ["push", "mail", "--keep-result", "3661d"],
        ["push", "mail", "--key", &body((64 << 10) + 1)],
    ] {
        let said = project.run(&arguments);
        assert!(said.ended(2).out.is_empty() && said.err.starts_with("error: "), "{}", said.err);
        assert!(!said.err.contains("jobs[0]") && !said.err.contains("refused to push"), "{}", said.err);
    }
    let said = project.run(&["push", "mial", "--data", "x"]);
    assert!(said.ended(0).err.contains("there is no topic `mial` (did you mean `mail`?)"), "{}", said.err);
}
