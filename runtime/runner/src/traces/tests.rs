//! Which attempts are kept, in which trace, and what their spans say. Sending is tested end to end.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use opentelemetry::trace::{SpanId, SpanKind, Status};

use super::super::record::{AttemptRecord, Run};
use super::choice::{Choice, SpanIds};
use super::span;
use gristmill_config::{OtelSettings, Relation};
use gristmill_core::job::{Claim, Job, JobSpec, Lease, NewJob, Payload, TopicId, WorkerId};
use gristmill_core::outcome::{Failure, FailureDetail, OutcomeKind, Reason, Settled, Verdict};
use gristmill_core::time::Timestamp;
use gristmill_core::trace::{TRACEPARENT, TraceContext};

const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const NOT_SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
const HOUR_MS: u64 = 3_600_000;

fn context(text: &str) -> TraceContext {
    TraceContext::parse(text).unwrap()
}

/// Keeps nothing by chance.
fn choice(relation: Relation) -> Choice {
    Choice::of(&OtelSettings { relation, sample_per_million: 0, ..OtelSettings::default() })
}

fn job(traceparent: Option<&str>) -> JobSpec {
    let topic: TopicId = "acme/resize".parse().unwrap();
    let body = Payload { data: vec![0; 200], content_type: None };
    let metadata = traceparent.map(|context| (TRACEPARENT.to_owned(), context.to_owned()));
    JobSpec { id: "j".parse().unwrap(), metadata: metadata.into_iter().collect(), ..JobSpec::new(topic, body) }
}

fn follow_up() -> JobSpec {
    let mut follow_up = NewJob { spec: job(None), due: gristmill_core::job::Due::Now };
    context(NOT_SAMPLED).pass_on(&mut follow_up);
    follow_up.spec
}

fn claim(spec: JobSpec) -> Claim {
    let [enqueued_at, due_at, claimed_at] = [1_000, 2_000, 2_001].map(Timestamp::from_millis);
    let (topic, worker) = (spec.topic.clone(), WorkerId::new("mill-1"));
    Claim {
        lease: Lease { job: spec.id.clone(), topic, worker, delivery: 1, batch: None },
        job: Arc::new(Job { spec, enqueued_at, due_at }),
        attempt: 1,
        claimed_at,
        lease_until: claimed_at,
        previous: None,
        checkpoint: None,
    }
}

fn run() -> Run {
    Run {
        version: None,
        started: Instant::now(),
        ran: true,
        queued: Duration::from_micros(150),
        waited: Duration::ZERO,
        duration: Duration::from_micros(1_234),
        fuel: 12_345,
        memory_peak: 131_072,
        requests: 0,
        follow_ups: 2,
        follow_up_bytes: 30,
        trace: None,
    }
}

/// An attempt that was acked.
fn record(spec: JobSpec) -> AttemptRecord {
    let (outcome, verdict) = (OutcomeKind::Complete, Verdict::Ack(None));
    AttemptRecord { claim: Arc::new(claim(spec)), run: Some(run()), outcome, verdict, settled: Some(Settled::Done) }
}

fn trapped(spec: JobSpec) -> AttemptRecord {
    let detail = FailureDetail { message: "unreachable".into(), ..FailureDetail::default() };
    let failure = Failure { backtrace: Some("at resize".into()), ..Failure::new(Reason::Trap, detail) };
    AttemptRecord { outcome: OutcomeKind::Trapped, verdict: Verdict::Bury(failure), ..record(spec) }
}

#[test]
fn a_job_of_a_producer_begins_a_trace_with_a_link() {
    let SpanIds { context: own, parent, link } = choice(Relation::Link).span_ids(&claim(job(Some(NOT_SAMPLED))));
    assert_eq!((parent, link), (None, Some(context(NOT_SAMPLED))));
    assert_ne!(own.trace, context(NOT_SAMPLED).trace);
}

#[test]
fn a_follow_up_job_goes_on_in_the_trace_of_its_handler() {
    let SpanIds { context: own, parent, link } = choice(Relation::Link).span_ids(&claim(follow_up()));
    assert_eq!((parent, link), (Some(context(NOT_SAMPLED)), None));
    assert_eq!(own.trace, context(NOT_SAMPLED).trace);
}

#[test]
fn the_manifest_chooses_how_spans_stand_to_those_of_producers() {
    let claim = claim(job(Some(NOT_SAMPLED)));
    let child = choice(Relation::Child).span_ids(&claim);
    assert_eq!((child.parent, child.link), (Some(context(NOT_SAMPLED)), None));
    let none = choice(Relation::None).span_ids(&claim);
    assert_eq!((none.parent, none.link), (None, None));
}

#[test]
fn a_job_that_is_due_much_later_begins_a_trace() {
    let mut late = claim(follow_up());
    Arc::make_mut(&mut late.job).due_at = Timestamp::from_millis(1_000 + HOUR_MS + 1);
    for relation in [Relation::Link, Relation::Child] {
        let ids = choice(relation).span_ids(&late);
        assert_eq!((ids.parent, ids.link), (None, Some(context(NOT_SAMPLED))), "{relation:?}");
    }
}

#[test]
fn attempts_at_a_job_are_spans_of_one_trace() {
    let first = claim(job(None));
    let mut second = first.clone();
    second.lease.delivery = 2;
    let [first, second] = [&first, &second].map(|claim| choice(Relation::Link).span_ids(claim).context);
    assert_eq!(first.trace, second.trace);
    assert_ne!(first.span, second.span);
}

#[test]
fn what_people_look_for_is_kept() {
    let choice = choice(Relation::Link);
    let keeps =
        |record: &AttemptRecord, run: Run| choice.keeps(choice.span_ids(&record.claim).context.sampled, record, &run);
    let plain = record(job(Some(NOT_SAMPLED)));
    assert!(!keeps(&plain, run()));
    assert!(keeps(&record(job(Some(SAMPLED))), run()), "its producer keeps its span");
    assert!(keeps(&trapped(job(None)), run()), "it failed");
    assert!(keeps(&plain, Run { duration: Duration::from_millis(1001), ..run() }), "it was slow");
    assert!(keeps(&AttemptRecord { settled: Some(Settled::LeaseLost), ..plain.clone() }, run()));
    let mut again = plain;
    Arc::make_mut(&mut again.claim).attempt = 2;
    assert!(keeps(&again, run()), "the attempt before it failed");
}

#[test]
fn a_part_of_the_rest_is_kept() {
    let tenth = Choice::of(&OtelSettings { sample_per_million: 100_000, ..OtelSettings::default() });
    let kept = (0..10_000).filter(|number| {
        let spec = JobSpec { id: format!("job-{number}").parse().unwrap(), ..job(None) };
        tenth.span_ids(&claim(spec)).context.sampled
    });
    let kept = kept.count();
    assert!((800..1200).contains(&kept), "{kept} of 10,000");
}

#[test]
fn a_span_says_what_became_of_the_attempt() {
    let record = trapped(follow_up());
    let ids = choice(Relation::Link).span_ids(&record.claim);
    let span = span::of(&ids, &record, &run(), &WorkerId::new("mill-1"));
    assert_eq!((span.name.as_ref(), span.span_kind), ("process acme/resize", SpanKind::Consumer));
    assert_eq!(span.parent_span_id, SpanId::from_bytes(context(NOT_SAMPLED).span));
    let since_1970 = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let times = [span.start_time, span.end_time].map(since_1970);
    assert_eq!(times, [Duration::from_micros(2_001_150), Duration::from_micros(2_002_384)]);
    assert_eq!(span.status, Status::error("unreachable"));
    let said = |key: &str| {
        let attribute = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
        attribute.map(|attribute| attribute.value.to_string()).unwrap_or_default()
    };
    assert_eq!(said("error.type"), "trap");
    assert_eq!(said("messaging.message.id"), "j");
    assert_eq!(said("messaging.gristmill.fuel"), "12345");
    assert_eq!(said("messaging.gristmill.waited_ms"), "1");
    assert_eq!(span.events.len(), 1);
    assert_eq!(span.events[0].attributes.len(), 3);
}
