//! Traces, from a producer's request through handlers to a receiver and a collector.

use std::net::SocketAddr;
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
use parking_lot::Mutex;
use prost::Message;
use puppet::{End, Enqueue, Script, Step};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

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
        "#
    );
    TestRunner::start(&manifest, &[("puppet", guests::PUPPET), ("caller", guests::CALLER)]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_goes_from_a_producer_through_two_handlers_to_a_receiver() {
    let (collector, receiver) = (Collector::start().await, Server::start(|_| Answer::ok("")).await);
    let runner = runner(collector.address).await;
    let forged = PRODUCER.replace("4bf9", "6666");
    let call = Call { headers: vec![("traceparent".into(), forged)], ..Call::get(receiver.url("/in")) };
    let data = String::from_utf8(call.alone()).unwrap();
    let enqueue = Enqueue { topic: "caller".into(), data, ..Enqueue::default() };
    let script = Script::new([Step::Enqueue(enqueue)]).to_json();

    let push = Request::post("/v1/tenants/default/topics/puppet/jobs?id=first&wait_ms=60000");
    let push = push.header("content-type", "application/octet-stream").header("traceparent", PRODUCER);
    let answer = runner.client().send(push, script).await;
    assert_eq!(answer.status, 201, "{answer:?}");

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
    let sent: Vec<_> = seen.lines().filter_map(|line| line.strip_prefix("traceparent: ")).collect();
    let [sent] = sent.as_slice() else { panic!("one context: {seen}") };
    let sent = TraceContext::parse(sent).unwrap();
    assert_eq!((sent.trace.to_vec(), sent.span.to_vec()), (second.trace_id, second.span_id));
    assert!(collector.taken.lock().0.iter().all(|path| path == "/base/v1/traces"));
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
