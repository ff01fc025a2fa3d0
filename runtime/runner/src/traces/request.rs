//! The spans of the requests that a handler sent, by OpenTelemetry's conventions for HTTP clients:
//! <https://opentelemetry.io/docs/specs/semconv/http/http-spans/>.

use std::time::Instant;

use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanKind, Status};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use url::{Host, Position, Url};

use super::super::record::Run;
use super::span::{cut, number, span_context, text};
use gristmill_core::trace::TraceContext;
use gristmill_sandbox::{SentRequest, SentRequests};

/// The methods that the conventions know; all others have one name, so that spans can be grouped.
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "QUERY"];
/// A part of a path that is as long may be a token, as in the addresses of webhooks.
const SECRET_BYTES: usize = 20;
const URL_BYTES_MAX: usize = 1 << 10;

/// The requests as children of the attempt's span, which says how many there were.
pub(super) fn spans(attempt: &mut SpanData, run: &Run, requests: SentRequests) -> Vec<SpanData> {
    let SentRequests { kept, further } = requests;
    if !kept.is_empty() {
        attempt.attributes.push(number("messaging.gristmill.requests", kept.len() as u64 + further));
    }
    kept.iter().map(|request| of(attempt, run, request)).collect()
}

/// Its times go on from those of the attempt, which it never outlasts.
fn of(attempt: &SpanData, run: &Run, request: &SentRequest) -> SpanData {
    // One that was cut off with its attempt is closed a little later.
    let time = |at: Instant| attempt.end_time.min(attempt.start_time + at.saturating_duration_since(run.started));
    let error = error(request);
    SpanData {
        span_context: span_context(&TraceContext { sampled: true, ..request.context }, false),
        parent_span_id: attempt.span_context.span_id(),
        parent_span_is_remote: false,
        span_kind: SpanKind::Client,
        name: known(&request.method).unwrap_or("HTTP").into(),
        start_time: time(request.started),
        end_time: request.ended.map_or(attempt.end_time, time),
        attributes: attributes(request, error.as_ref().map(|(kind, _)| kind.clone())),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: error.map_or(Status::Unset, |(_, message)| Status::error(message)),
        instrumentation_scope: attempt.instrumentation_scope.clone(),
    }
}

fn attributes(request: &SentRequest, error: Option<String>) -> Vec<KeyValue> {
    let SentRequest { method, url, redirect, status, .. } = request;
    let mut attributes = vec![
        text("http.request.method", known(method).unwrap_or("_OTHER")),
        text("server.address", address(url)),
        number("server.port", url.port_or_known_default().unwrap_or_default().into()),
        text("url.full", shown(url)),
    ];
    if known(method).is_none() {
        attributes.push(text("http.request.method_original", method.clone()));
    }
    if *redirect > 0 {
        attributes.push(number("http.request.resend_count", (*redirect).into()));
    }
    attributes.extend(status.map(|status| number("http.response.status_code", status.into())));
    attributes.extend(error.map(|error| text("error.type", error)));
    attributes
}

/// `error.type`, and what a person would like to know; nothing if the status says it.
fn error(request: &SentRequest) -> Option<(String, String)> {
    let failed = request.status.filter(|status| *status >= 400);
    match (&request.error, failed) {
        (Some((kind, message)), _) => Some(((*kind).to_owned(), cut(message))),
        (None, _) if request.ended.is_none() => {
            Some(("cancelled".to_owned(), "the attempt ended before its answer was read".to_owned()))
        }
        (None, Some(status)) => Some((status.to_string(), String::new())),
        (None, None) => None,
    }
}

fn known(method: &str) -> Option<&'static str> {
    METHODS.into_iter().find(|known| *known == method)
}

fn address(url: &Url) -> String {
    match url.host() {
        Some(Host::Ipv6(address)) => address.to_string(),
        Some(host) => host.to_string(),
        None => String::new(),
    }
}

/// Without the query, and without those parts of the path that may be secret.
fn shown(url: &Url) -> String {
    let hide = |part| if str::len(part) < SECRET_BYTES { part } else { "REDACTED" };
    let path: Vec<_> = url.path().split('/').map(hide).collect();
    let mut shown = format!("{}{}", &url[..Position::BeforePath], path.join("/"));
    shown.truncate(shown.floor_char_boundary(URL_BYTES_MAX));
    shown
}
