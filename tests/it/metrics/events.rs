//! The streams tell what happens, to who may know it.

use gristmill::job::{Due, JobId, JobOptions};
use gristmill::token::Scope;
use gristmill_tests::guests;
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::test_runner::{On, TestRunner, spec_with};
use gristmill_tests::wait::{SOON, until};
use http_body_util::BodyExt;
use hyper::Request;
use puppet::{Cause, End, Script, Step};
use serde_json::{Value, json};

use super::reader::Samples;
use super::stream::{Event, Stream};
use crate::tokens::token;

const MANIFEST: &str = r#"
    [handlers]
    rescan = "1h"
    auto-topics = false
    [topics.puppet]
    attempts = 3
    backoff = "10ms"
    # The end of an attempt is emitted before the next one begins.
    concurrency = 1
    [topics.sink]
    handler = "nobody"
    [tenants.acme.topics.work]
    handler = "puppet"
"#;

async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, MANIFEST, &[("puppet", guests::PUPPET)]).await
}

on_both_stores! {
    the_events_of_a_job_come_in_order
    a_tenant_hears_nothing_of_another
    a_stream_can_be_narrowed_to_a_topic_a_job_and_kinds
    pauses_cancels_and_respawns_emit_events
    what_an_operator_asks_for_says_who_asked
}

/// Pushes through the door.
async fn push(runner: &TestRunner, topic: &str, id: &str, script: &Script) -> JobId {
    let (tenant, topic) = topic.split_once('/').unwrap_or(("default", topic));
    let body = base64(&script.to_json());
    let document = json!({ "jobs": [{ "id": id, "tenant": tenant, "topic": topic, "body_base64": body }] });
    let answer = runner.client().post("/v1/jobs", &document).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    id.parse().unwrap()
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// What happened to which job: a push and the start of its job may be emitted in either order.
fn kind_and_job(events: &[Event]) -> Vec<(&str, &str)> {
    events.iter().map(|event| (&*event.name, event.data["job"].as_str().unwrap_or_default())).collect()
}

async fn the_events_of_a_job_come_in_order(runner: TestRunner) {
    let mut stream =
        Stream::open(&runner, "/v1/events?kind=job-started,job-completed,job-retried,job-snoozed,job-dead").await;
    let again = Step::RetryUntilAttempt { attempt: 2, after_ms: Some(1) };
    let script = Script::new([again, Step::End(End::Text("flour of a secret kind".into()))]);
    push(&runner, "puppet", "patient", &script).await;
    let events = stream.take(4).await;
    let expected = ["job-started", "job-retried", "job-started", "job-completed"];
    assert_eq!(kind_and_job(&events), expected.map(|kind| (kind, "patient")));
    assert_eq!(events.iter().map(|event| event.id.unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let [started, retried, _, completed] = [&events[0].data, &events[1].data, &events[2].data, &events[3].data];
    let fields = |data: &Value, names: &[&str]| names.iter().map(|name| data[*name].clone()).collect::<Value>();
    let place = ["kind", "tenant", "topic", "attempt", "delivery"];
    assert_eq!(fields(started, &place), json!(["job-started", "default", "puppet", 1, 1]));
    assert_eq!(fields(completed, &place), json!(["job-completed", "default", "puppet", 2, 2]));
    assert_eq!(fields(retried, &["reason", "again_in_ms"]), json!(["failed", 1]));
    assert_eq!((&started["handler"], &started["worker"]), (&json!("puppet"), &json!("runner")));
    assert!(completed["fuel"].as_u64() > Some(0) && completed["duration_ms"].is_u64());
    assert!(events.iter().all(|event| !event.data.to_string().contains("flour")), "no results");

    push(&runner, "puppet", "mad", &Script::end(End::Reject(Cause { code: "c".into(), ..Cause::default() }))).await;
    let events = stream.take(2).await;
    assert_eq!(kind_and_job(&events), [("job-started", "mad"), ("job-dead", "mad")]);
    assert_eq!(events[1].data["reason"], "rejected");
}

async fn a_tenant_hears_nothing_of_another(runner: TestRunner) {
    let mut theirs = Stream::open(&runner, "/v1/tenants/acme/events").await;
    let mut all = Stream::open(&runner, "/v1/events?kind=job-completed").await;
    for number in 0..3 {
        push(&runner, "puppet", &format!("ours-{number}"), &Script::end(End::Complete)).await;
        push(&runner, "acme/work", &format!("theirs-{number}"), &Script::end(End::Complete)).await;
    }
    let mut completed: Vec<_> = all.take(6).await.into_iter().map(|event| event.data["job"].clone()).collect();
    completed.sort_by_key(Value::to_string);
    assert_eq!(completed, ["ours-0", "ours-1", "ours-2", "theirs-0", "theirs-1", "theirs-2"]);
    let events = theirs.take(9).await;
    assert!(events.iter().all(|event| event.data["tenant"] == "acme"), "{events:?}");
    // Not even how much happens beside it.
    assert_eq!(events.iter().map(|event| event.id.unwrap()).collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
}

async fn a_stream_can_be_narrowed_to_a_topic_a_job_and_kinds(runner: TestRunner) {
    let mut sink = Stream::open(&runner, "/v1/tenants/default/events?topic=sink").await;
    let mut one = Stream::open(&runner, "/v1/tenants/default/events?job=b&kind=job-completed,job-dead").await;
    for job in ["a", "b"] {
        push(&runner, "puppet", job, &Script::end(End::Complete)).await;
    }
    push(&runner, "sink", "c", &Script::end(End::Complete)).await;
    assert_eq!(kind_and_job(&one.take(1).await), [("job-completed", "b")]);
    assert_eq!(kind_and_job(&sink.take(1).await), [("job-pushed", "c")]);

    let answer = runner.client().get("/v1/events?kind=job-vanished").await;
    assert_eq!((answer.status, &answer.json()["code"]), (400, &json!("bad-request")));
    assert!(answer.text().contains("job-vanished") && answer.text().contains("job-taken-back"), "{}", answer.text());
    assert_eq!(runner.client().get("/v1/events?tenant=acme").await.status, 400, "unknown fields are refused");
}

async fn what_an_operator_asks_for_says_who_asked(runner: TestRunner) {
    let kinds = "topic-paused,job-changed,job-cancelled,job-stopping,job-respawned,job-deleted,job-pushed";
    let mut stream = Stream::open(&runner, &format!("/v1/tenants/default/events?kind={kinds}")).await;
    let say = async |path: &str, document: Value| {
        let answer = runner.client().post(&format!("/v1/tenants/default/{path}"), &document).await;
        assert!((200..300).contains(&answer.status), "{}", answer.text());
        answer.json()
    };
    let dead = [1, 2].map(|_| Script::end(End::Reject(Cause::default())).to_json());
    let dead = [runner.push("puppet", &dead[0]).await, runner.push("puppet", &dead[1]).await];
    for job in &dead {
        runner.end_of(job).await;
    }
    let runs = runner.push("puppet", &Script::new([Step::WaitUntilCancelled]).to_json()).await;
    until("the job to run", SOON, async || {
        let view = runner.store.job(&"default".parse().unwrap(), &runs).await.unwrap()?;
        matches!(view.state, gristmill::store::JobState::Running { .. }).then_some(())
    })
    .await;
    let waits = runner.push("sink", b"").await;
    say("change", json!({ "ids": [waits], "priority": "high" })).await;
    say("cancel", json!({ "ids": [runs], "kill": true })).await;
    say("topics/sink/pause", json!({})).await;
    say("topics/puppet/dead/respawn", json!({ "ids": [dead[0]] })).await;
    say("topics/puppet/dead/delete", json!({ "ids": [dead[1]] })).await;
    let expected = [
        ("job-changed", waits.as_str(), Value::Null),
        ("job-stopping", runs.as_str(), json!("killed")),
        ("topic-paused", "", Value::Null),
        ("job-respawned", dead[0].as_str(), Value::Null),
        ("job-deleted", dead[1].as_str(), Value::Null),
    ];
    let mut events = Vec::new();
    while events.len() < expected.len() {
        let event = stream.next().await.expect("another event");
        // When the killed job ends, and who pushed jobs, is not what this is about.
        if !["job-cancelled", "job-pushed"].contains(&&*event.name) {
            assert_eq!(event.data["actor"], "operator", "{event:?}");
            events.push(event);
        }
    }
    assert_eq!(kind_and_job(&events), expected.each_ref().map(|(kind, job, _)| (*kind, *job)));
    assert_eq!(
        events.iter().map(|event| event.data["reason"].clone()).collect::<Vec<_>>(),
        expected.map(|(.., reason)| reason)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn events_about_tokens_name_the_token_that_made_or_revoked_them() {
    let runner = runner(On::Memory).await;
    let operator = runner.client().with_token(&token(&*runner.store, None, &[Scope::Admin, Scope::Read]).await);
    let own = operator.get("/v1/me").await.json()["token"]["id"].as_str().unwrap().to_owned();
    let mut stream = Stream::open_as(&operator, "/v1/tenants/acme/events?kind=token-added,token-revoked").await;
    let new = json!({ "scopes": ["read"], "description": "for ada" });
    let made = operator.post("/v1/tenants/acme/tokens", &new).await.json()["token"]["id"].clone();
    operator.delete(&format!("/v1/tokens/{}", made.as_str().unwrap())).await;
    for (event, kind) in stream.take(2).await.iter().zip(["token-added", "token-revoked"]) {
        assert_eq!((&*event.name, &event.data["token"], &event.data["actor"]), (kind, &made, &json!(own)));
    }
}

async fn pauses_cancels_and_respawns_emit_events(runner: TestRunner) {
    let kinds = "topic-paused,topic-resumed,job-cancelled,job-respawned";
    let mut stream = Stream::open(&runner, &format!("/v1/tenants/default/events?kind={kinds}")).await;
    let say = async |path: &str, document: Value| {
        let answer = runner.client().post(&format!("/v1/tenants/default/{path}"), &document).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    let dead = runner.push("puppet", &Script::end(End::Reject(Cause::default())).to_json()).await;
    runner.end_of(&dead).await;
    say("topics/puppet/pause", json!({})).await;
    say("topics/puppet/pause", json!({})).await;
    let waits = runner.push("sink", b"").await;
    say("cancel", json!({ "ids": [waits, "nobody"] })).await;
    say("topics/puppet/dead/respawn", json!({ "ids": [dead, "nobody"] })).await;
    say("topics/puppet/resume", json!({})).await;
    let events = stream.take(4).await;
    let (waits, dead) = (waits.as_str(), dead.as_str());
    let expected = [("topic-paused", ""), ("job-cancelled", waits), ("job-respawned", dead), ("topic-resumed", "")];
    assert_eq!(kind_and_job(&events), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_handler_reach_the_tenants_it_serves() {
    let runner = runner(On::Memory).await;
    let mut all = Stream::open(&runner, "/v1/events").await;
    let mut theirs = Stream::open(&runner, "/v1/tenants/acme/events").await;
    let mut others = Stream::open(&runner, "/v1/tenants/others/events").await;
    let component = std::fs::read(guests::PUPPET).unwrap();
    runner.drop_in("another", &std::fs::read(guests::ECHO).unwrap());
    assert_eq!(all.take(1).await[0].data["handler"], "another");
    runner.drop_in("puppet", &std::fs::read(guests::ECHO).unwrap());
    let replaced = theirs.take(1).await.remove(0);
    assert_eq!((&*replaced.name, &replaced.data["handler"]), ("handler-replaced", &json!("puppet")));
    assert!(replaced.data["version"].is_string());
    runner.drop_in("puppet", b"no component");
    let refused = theirs.take(1).await.remove(0);
    assert_eq!(refused.name, "handler-refused");
    assert!(!refused.data["reason"].as_str().unwrap().is_empty());
    std::fs::remove_file(runner.handlers().join("puppet.wasm")).unwrap();
    assert_eq!(theirs.take(1).await[0].name, "handler-removed");
    runner.drop_in("puppet", &component);
    assert_eq!(theirs.take(1).await[0].name, "handler-loaded");
    let names: Vec<String> = all.take(4).await.into_iter().map(|event| event.name).collect();
    assert_eq!(names, ["handler-replaced", "handler-refused", "handler-removed", "handler-loaded"]);

    let mut runner = runner;
    runner.shutdown().await;
    assert_eq!(others.next().await, None, "it ended with the server, and had nothing to tell");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_gets_the_number_of_missed_events_and_delays_no_other() {
    let runner = runner(On::Memory).await;
    let mut slow = Stream::open(&runner, "/v1/events?kind=job-pushed").await;
    let mut jobs = 0;
    // More than waits for it, here and in the sockets on the way.
    until("the reader to be too slow", 4 * SOON, async || {
        let job = |number| json!({ "id": format!("{jobs}-{number}"), "topic": "sink" });
        let document = json!({ "jobs": (0..1000).map(job).collect::<Vec<_>>() });
        assert_eq!(runner.client().post("/v1/jobs", &document).await.status, 200);
        jobs += 1000;
        let page = Samples::read(&runner.client().get("/metrics").await.text());
        (page.get("gristmill_node_events_missed_total") > 0.0).then_some(())
    })
    .await;
    push(&runner, "sink", "last", &Script::end(End::Complete)).await;
    let jobs = jobs + 1;
    let (mut heard, mut missed, mut gaps, mut at) = (0, 0, 0, 0);
    while at < jobs {
        let event = slow.next().await.unwrap();
        match event.id {
            Some(id) => {
                heard += 1;
                at += 1;
                assert_eq!(id, at, "in order, and what is missing was said");
            }
            None => {
                assert_eq!(event.name, "lagged");
                let these = event.data["missed"].as_u64().unwrap();
                (missed, gaps, at) = (missed + these, gaps + 1, at + these);
            }
        }
    }
    assert!(gaps > 0, "it was slow");
    assert_eq!(heard + missed, jobs);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_receive_the_events_of_a_server_until_it_ends() {
    use gristmill::server::RemoteStore;
    let mut runner = runner(On::Memory).await;
    let server = RemoteStore::connect(runner.client().address).await.unwrap();
    let mut of_acme = server.events(Some(&"acme".parse().unwrap())).await.unwrap();
    let mut all = server.events(None).await.unwrap();
    push(&runner, "sink", "j1", &Script::new([])).await;
    push(&runner, "acme/work", "j2", &Script::new([])).await;
    let first = all.recv().await.unwrap();
    assert_eq!((&*first.kind, first.topic, first.job), ("job-pushed", "sink".parse().ok(), "j1".parse().ok()));
    // A push and the start of its job may be emitted in either order.
    let first = of_acme.recv().await.unwrap();
    assert_eq!((first.tenant, first.job), ("acme".parse().ok(), "j2".parse().ok()));
    runner.shutdown().await;
    until("the end of the stream", SOON, async || of_acme.recv().await.is_none().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_may_open_so_many_streams_and_no_more() {
    let runner = runner(On::Memory).await;
    let client = async |tenant| runner.client().with_token(&token(&*runner.store, tenant, &[Scope::Read]).await);
    let (operator, acme, other) = (client(None).await, client(Some("acme")).await, client(Some("default")).await);
    let open = async |client: &HttpClient, tenant: &str| {
        client.begin(Request::get(format!("/v1/tenants/{tenant}/events")), Vec::new()).await
    };
    let mut streams = Vec::new();
    // What the operator listens to takes nothing of the tenant's share.
    for client in [&operator, &acme] {
        for _ in 0..16 {
            streams.push(open(client, "acme").await);
        }
    }
    assert!(streams.iter().all(|stream| stream.status() == 200));
    let answer = acme.get("/v1/tenants/acme/events").await;
    assert_eq!((answer.status, &answer.json()["code"]), (503, &json!("too-many-streams")));
    assert_eq!(open(&other, "default").await.status(), 200);
    streams.pop();
    // The server notices when it sends the next comment that the client is gone.
    until("room for another stream", SOON, async || {
        let response = open(&acme, "acme").await;
        if response.status() == 200 {
            return Some(());
        }
        drop(response.into_body().collect().await);
        None
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_event_of_a_dead_worker_says_what_becomes_of_its_job() {
    use gristmill::job::WorkerId;
    use gristmill::store::ClaimFrom;
    let runner = runner(On::Memory).await;
    let mut stream = Stream::open(&runner, "/v1/events?kind=job-taken-back,job-dead").await;
    let job = spec_with("sink", b"", JobOptions { max_attempts: Some(1), ..JobOptions::default() });
    let id = runner.push_job(job, Due::Now).await;
    let from = ClaimFrom::new("sink".parse().unwrap(), 1, std::time::Duration::from_millis(1));
    assert_eq!(runner.store.claim(&WorkerId::new("gone"), &[from]).await.unwrap().claims.len(), 1);
    let events = stream.take(2).await;
    assert_eq!(kind_and_job(&events), [("job-taken-back", id.as_str()), ("job-dead", id.as_str())]);
    assert_eq!(events[0].data["worker"], "gone");
    assert_eq!(events[0].data["reason"], events[1].data["reason"]);
}
