//! The HTTP server from outside: by its client, and by requests that a client would not make.

mod refusals;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use gristmill_store::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

use super::problem::Problem;
use super::{HttpServer, HttpServerSettings, Phase, RemoteStore, RunnerStatus, listen};
use gristmill_config::{Listen, Manifest};
use gristmill_core::job::{
    Due, JobChange, JobId, JobOptions, JobSpec, Name, NewJob, Payload, Priority, TopicId, Unique, WorkerId,
};
use gristmill_core::outcome::{Failure, FailureDetail, Reason, Verdict};
use gristmill_core::time::Timestamp;
use gristmill_runner::handlers::HandlerRegistry;
use gristmill_store::embedded::EmbeddedStore;
use gristmill_store::{
    Cancelled, ClaimFrom, Clock, JobChanged, JobState, JobView, ManualClock, Pushed, ResultView, Settlement, Signal,
    StateFilter, StoreError,
};

/// A store, its HTTP server, and a client.
pub(super) struct TestServer {
    pub(super) store: EmbeddedStore,
    pub(super) server: HttpServer,
    pub(super) runner: watch::Sender<RunnerStatus>,
    pub(super) remote: RemoteStore,
}

impl TestServer {
    pub(super) async fn start() -> Self {
        Self::start_with("").await
    }

    /// Starts with the topics of this manifest; they have no handlers.
    async fn start_with(manifest: &str) -> Self {
        Self::start_on(EmbeddedStore::in_memory().await.unwrap(), manifest).await
    }

    async fn start_on(store: EmbeddedStore, manifest: &str) -> Self {
        let manifest = Manifest::parse(manifest, Path::new("gristmill.toml")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let runner = watch::Sender::default();
        let plan = Arc::new(HandlerRegistry::planned(&manifest));
        let settings = HttpServerSettings { plan, runner: runner.subscribe(), ..HttpServerSettings::default() };
        let server = HttpServer::start(listener, Arc::new(store.clone()), "sqlite::memory:", &settings).await.unwrap();
        let remote = RemoteStore::connect(server.address()).await.unwrap();
        Self { store, server, runner, remote }
    }

    async fn claim_and(&self, verdict: Verdict) {
        let from = ClaimFrom::new(topic(), 1, Duration::from_secs(60));
        let claimed = self.store.claim(&WorkerId::new("w"), &[from]).await.unwrap();
        let settlement = Settlement::of(&claimed.claims[0], verdict, Duration::ZERO);
        self.store.settle(&[settlement]).await.unwrap();
    }

    /// Sends these bytes and reads the answer: status, head and body.
    pub(super) async fn raw(&self, request: &str) -> (u16, String, String) {
        raw(self.server.address(), request).await
    }

    /// A request as it should be, but for what is asked.
    async fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
        let (status, _, body) = self.raw(&format!("{head}Content-Length: {length}\r\n\r\n{body}")).await;
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }
}

async fn raw(address: SocketAddr, request: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A client that is refused early may have the rest of its request unread.
    drop(stream.write_all(request.replacen("\r\n", "\r\nConnection: close\r\n", 1).as_bytes()).await);
    let mut answer = Vec::new();
    let reading = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer));
    drop(reading.await.expect("an answer"));
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    (status, head.to_lowercase(), body.to_owned())
}

fn topic() -> TopicId {
    "acme/a".parse().unwrap()
}

fn tenant() -> Name {
    topic().tenant
}

fn id(text: &str) -> JobId {
    text.parse().unwrap()
}

/// A job that says everything that a job can say.
fn full(name: &str) -> NewJob {
    let body = Payload { data: vec![0, 0xff, b'\n'], content_type: Some("application/x".into()) };
    let options = JobOptions {
        key: Some("k".into()),
        priority: Priority::High,
        unique: Some(Unique { value: format!("u-{name}"), window: Some(Duration::from_millis(3_600_001)) }),
        max_attempts: Some(7),
        ttl: Some(Duration::from_secs(60)),
        keep_result: Some(Duration::from_secs(3600)),
        ..JobOptions::default()
    };
    let metadata = vec![("a".into(), "1".into()), ("a".into(), "ü".into())];
    let spec = JobSpec { id: id(name), topic: topic(), body, metadata, options };
    NewJob { spec, due: Due::Now }
}

fn plain(name: &str, due: Due) -> NewJob {
    NewJob { spec: JobSpec { id: id(name), ..JobSpec::new(topic(), Payload::default()) }, due }
}

fn failure() -> Failure {
    let context = Some(Payload { data: vec![1, 2], content_type: None });
    let detail = FailureDetail { code: "c".into(), message: "m\nn".into(), context };
    Failure { backtrace: Some("0: handle".into()), ..Failure::new(Reason::Trap, detail) }
}

#[tokio::test]
async fn a_job_comes_through_the_door_as_it_is() {
    let tested = TestServer::start().await;
    let job = full("j");
    assert_eq!(tested.remote.push(std::slice::from_ref(&job)).await.unwrap(), [Pushed::Stored]);
    assert_eq!(tested.remote.push(std::slice::from_ref(&job)).await.unwrap(), [Pushed::Exists]);
    let again = NewJob { spec: JobSpec { id: id("k"), ..job.spec.clone() }, due: Due::Now };
    assert_eq!(tested.remote.push(&[again]).await.unwrap(), [Pushed::Duplicate(id("j"))]);

    let (near, far) =
        (tested.store.job(&tenant(), &id("j")).await.unwrap(), tested.remote.job(&tenant(), &id("j")).await);
    assert_eq!(near.as_ref().unwrap().job.as_ref().unwrap().spec, job.spec);
    assert_eq!(far.unwrap(), near);
    assert_eq!(tested.remote.job(&tenant(), &id("missing")).await.unwrap(), None);
}

#[tokio::test]
async fn every_state_of_a_job_looks_the_same_from_outside() {
    let tested = TestServer::start().await;
    let at = Timestamp::now().plus(Duration::from_secs(7200));
    let jobs = [
        plain("later", Due::After(Duration::from_secs(3600))),
        plain("then", Due::At(at)),
        full("dead"),
        full("done"),
        full("runs"),
        full("waits"),
    ];
    tested.remote.push(&jobs).await.unwrap();
    tested.claim_and(Verdict::Bury(failure())).await;
    tested.claim_and(Verdict::Ack(Some(Payload { data: b"out".to_vec(), content_type: None }))).await;
    let from = ClaimFrom::new(topic(), 1, Duration::from_secs(60));
    tested.store.claim(&WorkerId::new("w"), &[from]).await.unwrap();

    for name in ["later", "then", "dead", "done", "runs", "waits"] {
        let near = tested.store.job(&tenant(), &id(name)).await.unwrap();
        assert!(near.is_some(), "{name}");
        // Which topic left the result is for runners, which have the store itself.
        let near = near.map(|view| JobView { result_topic: None, ..view });
        assert_eq!(tested.remote.job(&tenant(), &id(name)).await.unwrap(), near, "{name}");
    }
    let done = tested.remote.job(&tenant(), &id("done")).await.unwrap().unwrap();
    assert!(matches!(done.result, Some(ResultView::Complete(Some(_)))), "{done:?}");
    let counts = tested.remote.counts(&tenant()).await.unwrap();
    assert_eq!(counts, tested.store.counts(&tenant()).await.unwrap());
    assert_eq!((counts[0].delayed, counts[0].dead, counts[0].running), (2, 1, 1));
    assert_eq!(tested.remote.tenants().await.unwrap(), [tenant()]);
    // Only the store's own clock says these: no other one is passed off as it.
    let (clock, beats) = (tested.remote.clock_time(&tenant()).await, tested.remote.heartbeats().await);
    for refused in [clock.unwrap_err(), beats.unwrap_err()] {
        assert!(matches!(refused, StoreError::Refused { .. }) && !refused.is_unavailable(), "{refused:?}");
    }
}

#[tokio::test]
async fn the_dead_are_listed_respawned_and_deleted() {
    let tested = TestServer::start().await;
    for name in ["a", "b", "c"] {
        tested.remote.push(&[plain(name, Due::Now)]).await.unwrap();
        tested.claim_and(Verdict::Bury(failure())).await;
    }
    let near = tested.store.jobs(&topic(), StateFilter::Dead, None, 10).await.unwrap();
    assert_eq!(near.jobs.len(), 3);
    assert_eq!(tested.remote.jobs(&topic(), StateFilter::Dead, None, 10).await.unwrap(), near);
    assert_eq!(tested.remote.respawn(&topic(), &[id("a"), id("x")]).await.unwrap(), [true, false]);
    assert_eq!(tested.remote.delete_dead(&topic(), &[id("a"), id("b")]).await.unwrap(), [false, true]);
    assert_eq!(tested.store.oldest_dead(&topic(), 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn jobs_are_cancelled_and_topics_paused() {
    let tested = TestServer::start().await;
    tested.remote.push(&[plain("runs", Due::Now), plain("waits", Due::Now)]).await.unwrap();
    let from = ClaimFrom::new(topic(), 1, Duration::from_secs(60));
    tested.store.claim(&WorkerId::new("w"), std::slice::from_ref(&from)).await.unwrap();
    let ids = [id("runs"), id("waits"), id("missing")];
    let expected = [Cancelled::Stopping, Cancelled::Gone, Cancelled::TooLate];
    assert_eq!(tested.remote.cancel(&tenant(), &ids).await.unwrap(), expected);
    let view = tested.remote.job(&tenant(), &id("runs")).await.unwrap().unwrap();
    assert!(matches!(view.state, JobState::Running { cancelled: true, .. }), "{view:?}");

    assert!(tested.remote.set_paused(&topic(), true).await.unwrap());
    assert!(!tested.remote.set_paused(&topic(), true).await.unwrap());
    assert!(tested.store.counts(&tenant()).await.unwrap()[0].paused);
    assert!(tested.remote.set_paused(&topic(), false).await.unwrap());
}

#[tokio::test]
async fn jobs_are_changed() {
    let tested = TestServer::start().await;
    tested.remote.push(&[plain("waits", Due::After(Duration::from_secs(60)))]).await.unwrap();
    let ids = [id("waits"), id("missing"), id("waits")];
    let change = JobChange { due: Some(Due::Now), priority: Some(Priority::High) };
    let expected = [JobChanged::Changed, JobChanged::TooLate, JobChanged::Unchanged];
    assert_eq!(tested.remote.change(&tenant(), &ids, &change).await.unwrap(), expected);
    let view = tested.remote.job(&tenant(), &id("waits")).await.unwrap().unwrap();
    assert_eq!((view.state, view.job.unwrap().spec.options.priority), (JobState::Ready, Priority::High));
}

#[tokio::test]
async fn batches_of_any_size_go_in_chunks() {
    let tested = TestServer::start_with("[tenants.acme.topics.a]\npayload-limit = \"64MiB\"\n").await;
    let jobs: Vec<_> = (0..2001).map(|n| plain(&format!("j{n}"), Due::Now)).collect();
    let pushed = tested.remote.push(&jobs).await.unwrap();
    assert!(pushed.len() == 2001 && pushed.iter().all(|pushed| *pushed == Pushed::Stored));
    assert_eq!(tested.remote.push(&[]).await.unwrap(), []);
    let ids: Vec<_> = jobs.iter().map(|job| job.spec.id.clone()).collect();
    assert_eq!(tested.remote.cancel(&tenant(), &ids).await.unwrap(), vec![Cancelled::Gone; 2001]);

    // The largest body that a topic can take, and two that do not fit into one request together.
    for size in [64 << 20, 3 << 20, 3 << 20] {
        let body = Payload { data: vec![7; size], content_type: None };
        let job = NewJob { spec: JobSpec::new(topic(), body), due: Due::Now };
        assert_eq!(tested.remote.push(&[job]).await.unwrap(), [Pushed::Stored], "{size}");
    }
}

#[tokio::test]
async fn signals_are_received_until_the_server_ends() {
    let tested = TestServer::start().await;
    let mut signals = tested.remote.signals(&[tenant(), "other".parse().unwrap()]).await.unwrap();
    tested.remote.push(&[full("j")]).await.unwrap();
    tested.claim_and(Verdict::Ack(None)).await;
    let receive = async {
        while let Some(signal) = signals.recv().await {
            if signal == (Signal::Finished { tenant: tenant(), id: id("j") }) {
                return;
            }
        }
        panic!("the end was not sent");
    };
    tokio::time::timeout(Duration::from_secs(30), receive).await.unwrap();

    tested.server.shutdown().await;
    let end = async { while signals.recv().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(30), end).await.expect("the stream ends with the server");
}

#[tokio::test]
async fn a_server_that_is_gone_is_away_and_named() {
    let tested = TestServer::start().await;
    let address = tested.server.address();
    tested.server.shutdown().await;
    // Deaf, and in the way of any other test's server that would be given the same port.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    drop(socket.bind(address));
    let error = tested.remote.job(&tenant(), &id("j")).await.unwrap_err();
    let StoreError::Unavailable { store, .. } = &error else { panic!("{error:?}") };
    let pid = format!("process {}", std::process::id());
    assert!(store.contains(&address.to_string()) && store.contains(&pid), "{store}");
    assert!(RemoteStore::connect(address).await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn a_server_of_another_kind_is_not_taken_for_a_store() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>").await.unwrap();
    });
    let error = RemoteStore::connect(address).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
}

#[tokio::test]
async fn another_sites_page_does_not_get_in() {
    let tested = TestServer::start().await;
    let hosts: BTreeMap<&str, u16> = [
        ("Host: localhost", 200),
        ("Host: 127.0.0.1:7331", 200),
        ("Host: [::1]", 200),
        ("Host: evil.example", 421),
        ("Host: localhost\r\nHost: evil.example", 400),
        ("X: y", 421),
    ]
    .into();
    for (host, expected) in hosts {
        let (status, head, _) = tested.raw(&format!("GET /v1 HTTP/1.1\r\n{host}\r\n\r\n")).await;
        // Two hosts may already be refused by the HTTP library.
        assert!(status == expected || (expected == 400 && status == 421), "{host}: {head}");
    }
    let absolute = "GET http://evil.example/v1 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(tested.raw(absolute).await.0, 421);

    // What a browser sends without asking first.
    for media in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx"] {
        let path = "/v1/tenants/acme/topics/a/pause";
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media}\r\nContent-Length: 2");
        let (status, head, body) = tested.raw(&format!("{head}\r\n\r\n{{}}")).await;
        let problem: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &problem["code"]), (415, &json!("media-type")), "{media}");
        assert!(head.contains("application/problem+json"), "{head}");
    }
    let bare = "POST /v1/tenants/acme/topics/a/pause HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(tested.raw(bare).await.0, 415);
    // For this one a browser would ask first.
    assert_eq!(tested.raw("DELETE /v1 HTTP/1.1\r\nHost: localhost\r\n\r\n").await.0, 405);
    let preflight = "OPTIONS /v1/jobs HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n";
    let (status, head, _) = tested.raw(preflight).await;
    assert!(status == 405 && !head.contains("access-control"), "{head}");
    assert!(tested.store.counts(&tenant()).await.unwrap().is_empty(), "nothing was paused");
}

#[tokio::test]
async fn a_request_that_makes_no_sense_is_answered_with_a_problem() {
    let tested = TestServer::start().await;
    let push = |job: Value| json!({ "jobs": [job] }).to_string();
    let too_many = json!({ "ids": vec!["j"; 1001] }).to_string();
    let too_long = format!("{{\"ids\": [\"{}\"]}}", "x".repeat(1 << 20));
    let cases = [
        ("GET", "/v2", "", 404, "not-found", "docs/reference/http-api.md"),
        ("GET", "/v1/jobs", "", 405, "method-not-allowed", ""),
        ("GET", "/v1/tenants/acme/jobs/missing", "", 404, "job-unknown", "missing"),
        ("GET", "/v1/tenants/-/topics", "", 400, "bad-request", "no name"),
        ("GET", "/v1/tenants/acme/topics/a/jobs?limit=1&state=dead&x=1", "", 400, "bad-request", "x"),
        ("GET", "/v1/signals?tenants=a,,b", "", 400, "bad-request", "no name"),
        ("POST", "/v1/jobs", "{", 400, "bad-request", "no JSON"),
        ("POST", "/v1/tenants/a/topics/t/jobs", r#"{"bdy": 1}"#, 400, "bad-request", "there is no field `bdy`"),
        (
            "POST",
            "/v1/tenants/a/topics/t/jobs",
            r#"[{}, {"delay_ms": "5s"}]"#,
            400,
            "bad-request",
            "jobs[1].delay_ms: expected a whole number",
        ),
        ("POST", "/v1/tenants/a/topics/t/jobs", r#"{"topic": "u"}"#, 400, "bad-request", "said already"),
        ("POST", "/v1/jobs", &push(json!({ "id": "j", "tenant": "a" })), 400, "bad-request", "topic"),
        (
            "POST",
            "/v1/jobs",
            &push(json!({ "id": "j", "tenant": "a", "topic": "t", "prio": 1 })),
            400,
            "bad-request",
            "prio",
        ),
        (
            "POST",
            "/v1/jobs",
            &push(json!({ "id": "j", "tenant": "a", "topic": "t", "body_base64": "?" })),
            400,
            "bad-request",
            "base64",
        ),
        (
            "POST",
            "/v1/jobs",
            &push(json!({ "id": "j", "tenant": "a", "topic": "t", "attempts_max": 0 })),
            400,
            "bad-request",
            "1 to 1000",
        ),
        ("POST", "/v1/tenants/acme/cancel", &too_many, 413, "too-large", "1000"),
        ("POST", "/v1/tenants/acme/cancel", &too_long, 413, "too-large", "bytes, but this path takes 1048576"),
    ];
    for (method, path, body, status, code, detail) in cases {
        let (answered, problem) = tested.ask(method, path, body).await;
        assert_eq!((answered, &problem["code"]), (status, &json!(code)), "{method} {path}: {problem}");
        assert_eq!(problem["status"], status);
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{problem}");
    }
}

#[tokio::test]
async fn jobs_are_taken_in_while_the_handlers_are_still_being_read() {
    let tested = TestServer::start().await;
    assert_eq!(tested.ask("GET", "/readyz", "").await.1["code"], "starting");
    assert_eq!(tested.ask("POST", "/v1/tenants/acme/topics/a/jobs", "{}").await.0, 201);
    let (status, problem) = tested.ask("POST", "/v1/tenants/acme/topics/a/claim", r#"{ "worker": "w" }"#).await;
    assert_eq!((status, &problem["code"]), (409, &json!("not-external")), "{problem}");
}

#[tokio::test]
async fn readiness_follows_the_runner_and_the_store() {
    let tested = TestServer::start().await;
    let ready = async || tested.ask("GET", "/readyz", "").await;
    assert_eq!(ready().await.1["code"], "starting");
    tested.runner.send_modify(|status| status.phase = Phase::Ready);
    assert_eq!(ready().await.0, 200);
    tested.runner.send_modify(|status| status.phase = Phase::Ending);
    let (status, problem) = ready().await;
    assert_eq!((status, &problem["code"]), (503, &json!("ending")));
    assert_eq!(tested.ask("GET", "/healthz", "").await.0, 200, "the process lives");
}

#[tokio::test]
async fn a_stores_clock_that_is_off_is_said_and_jobs_run_all_the_same() {
    let an_hour_ago = Timestamp::now().as_millis() - 3_600_000;
    let clock = Clock::Manual(Arc::new(ManualClock::new(an_hour_ago)));
    let tested = TestServer::start_on(EmbeddedStore::in_memory().await.unwrap().with_clock(clock), "").await;
    tested.runner.send_modify(|status| status.phase = Phase::Ready);
    let (status, _, said) = tested.raw("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let line = said.lines().nth(1).unwrap_or_default();
    assert!(
        status == 200 && line.starts_with("the store's clock is 1h") && line.contains(" behind this host's"),
        "{said}"
    );

    let push = r#"{ "id": "later", "delay_ms": 60000 }"#;
    assert_eq!(tested.ask("POST", "/v1/tenants/acme/topics/mail/jobs", push).await.0, 201);
    let (_, why) = tested.ask("GET", "/v1/tenants/acme/jobs/later/why", "").await;
    let detail = why["detail"].as_str().unwrap();
    assert!(
        detail.contains(", in 1m, by the store's clock, which is 1h") && detail.contains(" behind this host's"),
        "{why}"
    );
    assert_eq!((&why["until_ms"], &why["clock"]["store_ms"]), (&json!(an_hour_ago + 60_000), &json!(an_hour_ago)));
}

#[test]
fn a_full_store_is_to_be_asked_again() {
    let source = anyhow::anyhow!("no memory");
    let full = StoreError::Full { store: "here".into(), doing: "push jobs", source };
    let answer = Problem::from(full).into_response();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers()["retry-after"], "1");
}

#[tokio::test]
async fn a_taken_port_is_an_error_only_if_it_was_asked_for() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let error = listen(Listen::At(address)).await.unwrap_err().to_string();
    assert!(error.contains(&address.to_string()) && error.contains("`listen` in [http]"), "{error}");
    assert!(listen(Listen::Off).await.unwrap().is_none());
    // Whether another process has the usual port or none: both times there is a listener.
    let (first, second) =
        (listen(Listen::Usual).await.unwrap().unwrap(), listen(Listen::Usual).await.unwrap().unwrap());
    assert_ne!(first.local_addr().unwrap(), second.local_addr().unwrap());
}

/// Of every route there can be. Written anew by `UPDATE_OPENAPI=1 cargo test -p gristmill-server openapi`.
#[test]
fn the_openapi_document_is_what_the_routes_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");
    let made = serde_json::to_string_pretty(&crate::openapi::document(&crate::routes()).unwrap()).unwrap() + "\n";
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    let differs = "docs/reference/openapi.json differs from the routes: run `UPDATE_OPENAPI=1 cargo test -p gristmill-server openapi`";
    assert!(std::fs::read_to_string(path).unwrap() == made, "{differs}");
}
