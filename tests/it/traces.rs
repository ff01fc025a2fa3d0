//! Traces, from a producer's request through handlers to a receiver and a collector.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use caller::Call;
use gristmill::job::JobId;
use gristmill::store::JobState;
use gristmill::trace::TraceContext;
use gristmill_test_servers::wait::{SOON, until};
use gristmill_tests::guests;
use gristmill_tests::server::{Answer, Server};
use gristmill_tests::test_runner::TestRunner;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use parking_lot::Mutex;
use prost::Message;
use puppet::{End, Enqueue, Script, Step};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_util::task::AbortOnDropHandle;

use crate::languages::require;

const PRODUCER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Takes spans, as an OpenTelemetry collector does.
struct Collector {
    address: SocketAddr,
    /// The paths that spans came to, and the spans.
    taken: Arc<Mutex<(Vec<String>, Vec<Span>)>>,
    _task: AbortOnDropHandle<()>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let taken = Arc::<Mutex<(Vec<String>, Vec<Span>)>>::default();
        let all = Arc::clone(&taken);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let taken = Arc::clone(&all);
                let answer = service_fn(move |request| take(request, Arc::clone(&taken)));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        Self { address, taken, _task: AbortOnDropHandle::new(task) }
    }

    /// Waits for the span of a job.
    async fn span_of(&self, job: &str) -> Span {
        until(format!("the span of {job}"), SOON, async || {
            let taken = self.taken.lock();
            taken.1.iter().find(|span| said(span, "messaging.message.id") == Some(job.into())).cloned()
        })
        .await
    }

    /// Waits for the spans of the requests of an attempt, in the order in which they were sent.
    async fn requests_of(&self, attempt: &Span, count: usize) -> Vec<Span> {
        until(format!("{count} requests"), SOON, async || {
            let taken = self.taken.lock();
            let below = |span: &&Span| span.parent_span_id == attempt.span_id && span.kind == SpanKind::Client as i32;
            let found: Vec<_> = taken.1.iter().filter(below).cloned().collect();
            (found.len() >= count).then_some(found)
        })
        .await
    }
}

async fn take(
    request: Request<Incoming>,
    taken: Arc<Mutex<(Vec<String>, Vec<Span>)>>,
) -> Result<Response<Empty<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let spans = ExportTraceServiceRequest::decode(body).unwrap().resource_spans.into_iter();
    let spans = spans.flat_map(|spans| spans.scope_spans).flat_map(|spans| spans.spans);
    let mut taken = taken.lock();
    taken.0.push(head.uri.path().to_owned());
    taken.1.extend(spans);
    Ok(Response::new(Empty::new()))
}

fn said(span: &Span, key: &str) -> Option<String> {
    let attribute = span.attributes.iter().find(|attribute| attribute.key == key)?;
    match attribute.value.clone()?.value? {
        Value::StringValue(text) => Some(text),
        Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

async fn runner(collector: SocketAddr) -> TestRunner {
    let manifest = format!(
        r#"
        [otel]
        endpoint = "http://{collector}/base/"
        sample = 0

        [defaults]
        attempts = 2
        backoff = "1ms"

        [topics.caller.http]
        allow = ["http://*:*"]
        networks = ["127.0.0.1"]

        [topics.hasty]
        handler = "caller"
        attempts = 1
        timeout = "1s"

        [topics.hasty.http]
        allow = ["http://*:*"]
        networks = ["127.0.0.1"]
        timeout = "5m"

        [topics.print]
        handler = "external"

        [topics.standard]
        handler = "http-component"
        adapter = "proxy"

        [topics.standard.http]
        allow = ["http://*:*"]
        networks = ["127.0.0.1"]
        "#
    );
    let handlers = [("puppet", guests::PUPPET), ("caller", guests::CALLER), ("http-component", guests::HTTP_COMPONENT)];
    TestRunner::start(&manifest, &handlers).await
}

/// Pushes a job within a trace that is kept, and waits for its end.
async fn push(runner: &TestRunner, topic: &str, id: &str, body: impl Into<Vec<u8>>) {
    let push = Request::post(format!("/v1/tenants/default/topics/{topic}/jobs?id={id}&wait_ms=60000"));
    let push = push.header("content-type", "application/octet-stream").header("traceparent", PRODUCER);
    let answer = runner.client().send(push, body.into()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

/// Pushes the same by the example for producers in Python, in whose environment the context is.
async fn push_by_python(runner: &TestRunner, topic: &str, id: &str, body: &[u8]) {
    require(&["python3"]);
    let push =
        format!("import json, sys, push; print(push.push([push.job('{topic}', json.load(sys.stdin), id='{id}')]))");
    let mut python = Command::new("python3");
    python.args(["-B", "-c", &push]).env("TRACEPARENT", PRODUCER);
    python.env("GRISTMILL_SERVER", format!("http://{}", runner.client().address));
    python.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/producers"));
    let mut python = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = python.stdin.take().unwrap();
    stdin.write_all(body).await.unwrap();
    drop(stdin);
    let said = python.wait_with_output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "['stored']");
}

/// The context that a request carried.
fn sent_context(request: &str) -> TraceContext {
    let sent: Vec<_> = request.lines().filter_map(|line| line.strip_prefix("traceparent: ")).collect();
    let [sent] = sent.as_slice() else { panic!("one context: {request}") };
    TraceContext::parse(sent).unwrap()
}

fn carried_by(request: &str, span: &Span) -> bool {
    let sent = sent_context(request);
    (&sent.trace[..], &sent.span[..], sent.sampled) == (&span.trace_id[..], &span.span_id[..], true)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_goes_from_a_producer_in_python_through_two_handlers_to_a_receiver() {
    let (collector, receiver) = (Collector::start().await, Server::start(|_| Answer::ok("")).await);
    let runner = runner(collector.address).await;
    let forged = PRODUCER.replace("4bf9", "6666");
    let secret = "abcdefghijklmnopqrstuvwx";
    let call = Call {
        headers: vec![("traceparent".into(), forged), ("TraceState".into(), "theirs=1".into())],
        ..Call::get(receiver.url(&format!("/in/{secret}?token={secret}")))
    };
    let data = String::from_utf8(call.alone()).unwrap();
    let enqueue = Enqueue { topic: "caller".into(), data, ..Enqueue::default() };
    let script = Script::new([Step::Enqueue(enqueue)]).to_json();

    push_by_python(&runner, "puppet", "first", &script).await;

    let first = collector.span_of("first").await;
    let producer = TraceContext::parse(PRODUCER).unwrap();
    let [link] = first.links.as_slice() else { panic!("{first:?}") };
    assert_eq!((link.trace_id.as_slice(), link.span_id.as_slice()), (&producer.trace[..], &producer.span[..]));
    assert_eq!((first.name.as_str(), first.parent_span_id.len()), ("process puppet", 0));

    let calls = until("the caller's attempt", SOON, async || {
        runner.records().into_iter().find(|record| record.claim.lease.topic.topic.as_str() == "caller")
    });
    let second = collector.span_of(calls.await.claim.lease.job.as_str()).await;
    assert_eq!(second.trace_id, first.trace_id, "a follow-up job goes on in the trace of its handler");
    assert_eq!(second.parent_span_id, first.span_id);

    let [seen]: [String; 1] = receiver.requests().try_into().unwrap();
    let [request]: [Span; 1] = collector.requests_of(&second, 1).await.try_into().unwrap();
    assert_eq!(request.trace_id, second.trace_id);
    assert!(carried_by(&seen, &request) && !seen.contains("theirs"), "{seen} {request:?}");
    assert!(second.start_time_unix_nano <= request.start_time_unix_nano);
    assert!(request.start_time_unix_nano <= request.end_time_unix_nano);
    assert!(request.end_time_unix_nano <= second.end_time_unix_nano);
    assert_eq!((request.name.as_str(), said(&request, "http.request.method").as_deref()), ("GET", Some("GET")));
    assert_eq!(said(&request, "server.address").as_deref(), Some("127.0.0.1"));
    assert_eq!(said(&request, "server.port"), Some(receiver.port().to_string()));
    assert_eq!(said(&request, "url.full"), Some(receiver.url("/in/REDACTED")));
    assert_eq!(said(&request, "http.response.status_code").as_deref(), Some("200"));
    assert_eq!((said(&request, "error.type"), said(&second, "messaging.gristmill.requests")), (None, Some("1".into())));
    assert!(collector.taken.lock().0.iter().all(|path| path == "/base/v1/traces"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_is_a_span_until_there_are_too_many() {
    let collector = Collector::start().await;
    let server = Server::start(|request| match request.split(' ').nth(1) {
        Some("/moved") => Answer::Now("302 Found", "location: /here\r\n", String::new()),
        Some("/gone") => Answer::Now("410 Gone", "", String::new()),
        Some("/slow") => Answer::Held,
        _ => Answer::ok(""),
    })
    .await;
    let runner = runner(collector.address).await;
    let nowhere = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let calls = [
        Call { redirects: 1, ..Call::get(server.url("/moved")) },
        Call { method: "BREW".into(), ..Call::get(server.url("/gone")) },
        Call { timeout_ms: Some(20), ..Call::get(server.url("/slow")) },
        Call::get(format!("http://{nowhere}/")),
        Call { times: 40, ..Call::get(server.url("/many")) },
    ];
    push(&runner, "caller", "many", caller::payload(&calls)).await;
    let attempt = collector.span_of("many").await;
    assert_eq!(said(&attempt, "messaging.gristmill.requests").as_deref(), Some("45"));
    let spans = collector.requests_of(&attempt, 32).await;
    assert_eq!(spans.len(), 32);
    let about = |span: &Span| {
        let keys = ["url.full", "http.response.status_code", "http.request.resend_count", "error.type"];
        let [url, status, resend, error] = keys.map(|key| said(span, key).unwrap_or_default());
        let path = url.rsplit('/').next().unwrap().to_owned();
        format!("{} {path} {status} {resend} {error}", span.name)
    };
    let first: Vec<_> = spans.iter().take(6).map(about).collect();
    let expected = [
        "GET moved 302  ",
        "GET here 200 1 ",
        "HTTP gone 410  410",
        "GET slow   timeout",
        "GET    unreachable",
        "GET many 200  ",
    ];
    assert_eq!(first, expected);
    assert_eq!(said(&spans[2], "http.request.method_original").as_deref(), Some("BREW"));

    let seen = server.requests();
    let of = |path: &'static str| seen.iter().filter(move |request| request.split(' ').nth(1) == Some(path));
    assert!(of("/moved").all(|request| carried_by(request, &spans[0])));
    assert!(of("/here").all(|request| carried_by(request, &spans[1])));
    assert!(of("/many").take(27).zip(&spans[5..]).all(|(request, span)| carried_by(request, span)));
    assert!(of("/many").skip(27).all(|request| carried_by(request, &attempt)), "they have no span of their own");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_the_standard_and_those_that_were_cut_off_are_spans_too() {
    let (collector, server) = (Collector::start().await, Server::start(|_| Answer::ok("")).await);
    let runner = runner(collector.address).await;
    push(&runner, "standard", "standard", format!("get {}", server.url("/standard"))).await;
    let attempt = collector.span_of("standard").await;
    let [request]: [Span; 1] = collector.requests_of(&attempt, 1).await.try_into().unwrap();
    assert_eq!(said(&request, "http.response.status_code").as_deref(), Some("200"));
    assert!(carried_by(&server.requests()[0], &request));

    let server = Server::start(|_| Answer::Held).await;
    // One that was not sent in its attempt's time is no span.
    until("a request that was cut off", SOON, async || {
        runner.work("hasty", &Call::get(server.url("/hasty")).alone()).await;
        let taken = collector.taken.lock();
        let cut_off = |span: &&Span| said(span, "url.full") == Some(server.url("/hasty"));
        taken.1.iter().find(cut_off).map(|span| assert_eq!(said(span, "error.type").as_deref(), Some("cancelled")))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_worker_gets_the_context_that_its_spans_belong_below() {
    let collector = Collector::start().await;
    let runner = runner(collector.address).await;
    let claim = async || {
        let claim = serde_json::json!({ "wait_ms": 30_000 });
        let answer = runner.client().post("/v1/tenants/default/topics/print/claim", &claim).await.json();
        TraceContext::parse(answer["claims"][0]["traceparent"].as_str().unwrap()).unwrap()
    };
    let jobs = "/v1/tenants/default/topics/print/jobs";
    let push = Request::post(format!("{jobs}?id=page")).header("content-type", "application/octet-stream");
    let answer = runner.client().send(push.header("traceparent", PRODUCER), b"hello".to_vec()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let context = claim().await;

    let received = collector.span_of("page").await;
    assert_eq!((received.name.as_str(), received.kind), ("receive print", SpanKind::Client as i32));
    assert_eq!((&received.trace_id[..], &received.span_id[..]), (&context.trace[..], &context.span[..]));
    assert!(context.sampled, "as that of its producer");
    let producer = TraceContext::parse(PRODUCER).unwrap();
    let [link] = received.links.as_slice() else { panic!("{received:?}") };
    assert_eq!((link.trace_id.as_slice(), link.span_id.as_slice()), (&producer.trace[..], &producer.span[..]));
    assert!(said(&received, "messaging.client.id").unwrap().starts_with("pull:"), "{received:?}");

    // What is not sampled has a context all the same, and no span.
    let plain = runner.push("print", b"hello").await;
    assert!(!claim().await.sampled);
    let mut runner = runner;
    runner.shutdown().await;
    let taken = collector.taken.lock();
    assert!(taken.1.iter().all(|span| said(span, "messaging.message.id") != Some(plain.to_string())));
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_attempts_and_the_next_are_kept_and_the_rest_is_not() {
    let collector = Collector::start().await;
    let mut runner = runner(collector.address).await;
    let plain = runner.work("puppet", &Script::new([]).to_json()).await;
    let twice = Script::new([Step::RetryUntilAttempt { attempt: 2, after_ms: Some(1) }]).to_json();
    let failed = runner.work("puppet", &twice).await;
    assert_eq!((failed.state, failed.attempts), (JobState::Finished, 2));
    runner.shutdown().await;

    let spans = collector.taken.lock().1.clone();
    let of = |job: &JobId| -> Vec<_> {
        let of = spans.iter().filter(|span| said(span, "messaging.message.id") == Some(job.to_string()));
        of.map(|span| said(span, "error.type")).collect()
    };
    assert_eq!(of(&plain.id), []);
    assert_eq!(of(&failed.id), [Some("failed".to_owned()), None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_not_there_costs_jobs_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = listener.local_addr().unwrap();
    drop(listener);
    let runner = runner(nowhere).await;
    let dead = runner.work("puppet", &Script::new([Step::End(End::Unreachable)]).to_json()).await;
    assert!(matches!(dead.state, JobState::Dead { .. }), "{dead:?}");
    let client = runner.client();
    until("a lost span", SOON, async || {
        let metrics = String::from_utf8(client.get("/metrics").await.body).unwrap();
        let lost = metrics.lines().find_map(|line| line.strip_prefix("gristmill_node_spans_lost_total "))?;
        (lost.parse::<u64>().unwrap() >= 1).then_some(())
    })
    .await;
}
