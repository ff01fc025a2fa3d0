//! The span of an attempt, by OpenTelemetry's conventions for messaging:
//! <https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/>.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{Event, Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::super::record::{AttemptRecord, Run};
use super::choice::SpanIds;
use gristmill_core::job::{Claim, WorkerId};
use gristmill_core::outcome::{Failure, Settled};
use gristmill_core::time::{Timestamp, millis};
use gristmill_core::trace::TraceContext;

/// Of a message or a backtrace.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// Times begin with the store's clock at the claim and go on with the monotonic one, as those of the journal.
pub(super) fn of(ids: &SpanIds, record: &AttemptRecord, run: &Run, worker: &WorkerId) -> SpanData {
    let start_time = system_time(record.claim.claimed_at) + run.queued;
    let end_time = start_time + run.duration;
    let mut span = of_operation("process", ids, &record.claim, start_time, worker);
    let failure = record.verdict.failure();
    span.end_time = end_time;
    span.attributes.extend(attributes(record, run));
    span.events.events.extend(failure.map(|failure| exception(failure, end_time)));
    span.status = failure.map_or(Status::Unset, |failure| Status::error(cut(&failure.detail.message)));
    span
}

/// That a pull worker gets a job: at one moment, because what follows is in the worker's own spans.
pub(super) fn of_claim(ids: &SpanIds, claim: &Claim) -> SpanData {
    let waited = claim.claimed_at.since(claim.job.due_at);
    let mut span = of_operation("receive", ids, claim, system_time(claim.claimed_at), &claim.lease.worker);
    span.span_kind = SpanKind::Client;
    span.attributes.push(number("messaging.gristmill.waited_ms", millis(waited)));
    span
}

/// The span of an operation, which ends as it begins, with what all of them say.
fn of_operation(
    operation: &'static str,
    ids: &SpanIds,
    claim: &Claim,
    start_time: SystemTime,
    worker: &WorkerId,
) -> SpanData {
    let topic = &claim.lease.topic;
    let mut links = SpanLinks::default();
    links.links.extend(ids.link.map(|link| Link::with_context(span_context(&link, true))));
    SpanData {
        span_context: span_context(&TraceContext { sampled: true, ..ids.context }, false),
        parent_span_id: ids.parent.map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.span)),
        parent_span_is_remote: ids.parent.is_some(),
        span_kind: SpanKind::Consumer,
        name: format!("{operation} {topic}").into(),
        start_time,
        end_time: start_time,
        attributes: vec![
            text("messaging.system", "gristmill"),
            text("messaging.operation.name", operation),
            text("messaging.operation.type", operation),
            text("messaging.destination.name", topic.to_string()),
            text("messaging.message.id", claim.lease.job.to_string()),
            text("messaging.client.id", worker.to_string()),
            number("messaging.message.body.size", claim.job.spec.body.data.len() as u64),
            text("messaging.gristmill.tenant", topic.tenant.to_string()),
            number("messaging.gristmill.attempt", claim.attempt.into()),
            number("messaging.gristmill.delivery", claim.lease.delivery),
        ],
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links,
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder("gristmill")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
}

/// What only an attempt that was made here says.
fn attributes(record: &AttemptRecord, run: &Run) -> Vec<KeyValue> {
    let AttemptRecord { claim, outcome, verdict, settled, .. } = record;
    let waited = claim.claimed_at.since(claim.job.due_at) + run.queued;
    let mut attributes = vec![
        text("messaging.gristmill.outcome", outcome.to_string()),
        text("messaging.gristmill.verdict", verdict.name()),
        number("messaging.gristmill.waited_ms", millis(waited)),
        number("messaging.gristmill.fuel", run.fuel),
        number("messaging.gristmill.memory_peak", run.memory_peak),
        number("messaging.gristmill.follow_ups", run.follow_ups as u64),
    ];
    attributes.extend(run.version.map(|version| text("messaging.gristmill.component", version.to_string())));
    attributes.extend(error_type(record).map(|error| text("error.type", error)));
    let settled = settled.filter(|settled| *settled != Settled::Done);
    attributes.extend(settled.map(|settled| text("messaging.gristmill.settled", format!("{settled:?}"))));
    attributes
}

/// Why the attempt came to nothing, in one of few words.
fn error_type(record: &AttemptRecord) -> Option<&'static str> {
    match (record.verdict.failure(), record.settled) {
        (Some(failure), _) => Some(failure.reason.as_str()),
        (None, Some(Settled::LeaseLost)) => Some("lease-lost"),
        (None, None) => Some("not-settled"),
        (None, Some(_)) => None,
    }
}

fn exception(Failure { reason, detail, backtrace, .. }: &Failure, at: SystemTime) -> Event {
    let mut attributes = vec![text("exception.type", reason.as_str()), text("exception.message", cut(&detail.message))];
    attributes.extend(backtrace.as_deref().map(|backtrace| text("exception.stacktrace", cut(backtrace))));
    Event::new("exception", at, attributes, 0)
}

pub(super) fn span_context(context: &TraceContext, remote: bool) -> SpanContext {
    let flags = if context.sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    let (trace, span) = (TraceId::from_bytes(context.trace), SpanId::from_bytes(context.span));
    SpanContext::new(trace, span, flags, remote, TraceState::NONE)
}

fn system_time(time: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(time.as_millis())
}

pub(super) fn text(key: &'static str, value: impl Into<Value>) -> KeyValue {
    KeyValue::new(key, value)
}

pub(super) fn number(key: &'static str, value: u64) -> KeyValue {
    KeyValue::new(key, i64::try_from(value).unwrap_or(i64::MAX))
}

pub(super) fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or(text).to_owned()
}
