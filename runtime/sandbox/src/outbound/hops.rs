//! The requests that one of a guest becomes: itself, and one for each redirect.

use hyper::header::HeaderValue;
use hyper::http::StatusCode;

use super::super::bindings::http::HttpError;
use super::super::request_trace::RequestTrace;
use super::outgoing::Outgoing;
use gristmill_core::trace::TRACEPARENT;

/// Counts them, and writes them down if the attempt is traced. Dropped on the way, the last one was given up.
#[derive(Debug)]
pub(super) struct Hops {
    pub(super) count: u32,
    trace: Option<RequestTrace>,
    /// The request on its way, as the trace knows it.
    open: Option<usize>,
}

impl Hops {
    pub(super) fn new(trace: Option<RequestTrace>) -> Self {
        Self { count: 0, trace, open: None }
    }

    /// The next one begins. Where attempts are traced, its context replaces one of the guest's own, which could be that of another
    /// tenant's trace.
    pub(super) fn begin(&mut self, outgoing: &mut Outgoing) {
        self.end(None);
        let redirect = self.count;
        self.count += 1;
        let Some(trace) = &self.trace else { return };
        let (context, place) = trace.begin(&outgoing.method, &outgoing.url, redirect);
        self.open = place;
        outgoing.headers.remove("tracestate");
        outgoing.headers.remove(TRACEPARENT);
        if let Ok(context) = HeaderValue::try_from(context.to_string()) {
            outgoing.headers.insert(TRACEPARENT, context);
        }
    }

    /// The head of its answer is here.
    pub(super) fn answered(&self, status: StatusCode) {
        if let Some((trace, place)) = self.trace.as_ref().zip(self.open) {
            trace.answered(place, status);
        }
    }

    /// The last one has ended, if one is on its way.
    pub(super) fn end(&mut self, error: Option<&HttpError>) {
        self.close(error.map(said));
    }

    fn close(&mut self, error: Option<(&'static str, String)>) {
        if let Some((trace, place)) = self.trace.as_ref().zip(self.open.take()) {
            trace.end(place, error);
        }
    }
}

impl Drop for Hops {
    fn drop(&mut self) {
        self.close(Some(("cancelled", "given up before its end".to_owned())));
    }
}

/// A word, and what a person would like to know.
fn said(error: &HttpError) -> (&'static str, String) {
    match error {
        HttpError::Denied(why) => ("denied", why.clone()),
        HttpError::Invalid(why) => ("invalid", why.clone()),
        HttpError::Unreachable(why) => ("unreachable", why.clone()),
        HttpError::Timeout => ("timeout", "it took longer than its timeout".to_owned()),
        HttpError::TooLarge(most) => ("too-large", format!("the answer is larger than {most} bytes")),
        HttpError::TooMany(most) => ("too-many", format!("an attempt may send {most} requests")),
    }
}
