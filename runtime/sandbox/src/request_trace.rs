//! The requests of one attempt, written down while it runs, for its trace.

use std::mem;
use std::sync::Arc;
use std::time::Instant;

use hyper::http::{Method, StatusCode};
use parking_lot::Mutex;
use url::Url;

use gristmill_core::trace::TraceContext;

/// Requests of an attempt that are written down, each with a URL of up to 8 KiB; further ones are counted.
const KEPT_MAX: usize = 32;

/// Where the requests of an attempt are written down. Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub struct RequestTrace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    attempt: TraceContext,
    sent: Mutex<SentRequests>,
}

/// The requests that an attempt sent, each redirect as one more.
#[derive(Debug, Default)]
pub struct SentRequests {
    /// The first ones, at most 32, in the order in which they began.
    pub kept: Vec<SentRequest>,
    /// How many more there were.
    pub further: u64,
}

/// One request, by this process's monotonic clock.
#[derive(Debug)]
pub struct SentRequest {
    /// What it carried as `traceparent`.
    pub context: TraceContext,
    /// Such as `GET`, as the handler wrote it.
    pub method: String,
    /// Path and query may hold secrets.
    pub url: Url,
    /// 0, or which redirect of the handler's request it followed, from 1.
    pub redirect: u32,
    /// When it began, before the connection was there.
    pub started: Instant,
    /// When its answer was read, or it failed. `None`: it was under way when this was taken.
    pub ended: Option<Instant>,
    /// Of its answer, if one came.
    pub status: Option<u16>,
    /// Why it failed: a word, such as `timeout`, and a message without the URL's path and query.
    pub error: Option<(&'static str, String)>,
}

impl RequestTrace {
    /// For the attempt whose span has this context.
    pub fn new(attempt: TraceContext) -> Self {
        Self(Arc::new(Inner { attempt, sent: Mutex::default() }))
    }

    /// What was sent until now. Leaves nothing.
    pub fn take(&self) -> SentRequests {
        mem::take(&mut self.0.sent.lock())
    }

    /// A request begins. Returns its context, and its place if it is written down; one that is not has the attempt's context.
    pub(super) fn begin(&self, method: &Method, url: &Url, redirect: u32) -> (TraceContext, Option<usize>) {
        let mut sent = self.0.sent.lock();
        let place = sent.kept.len();
        if place == KEPT_MAX {
            sent.further += 1;
            return (self.0.attempt, None);
        }
        let context = self.0.attempt.of_request(place as u64);
        let (method, url, started) = (method.as_str().to_owned(), url.clone(), Instant::now());
        sent.kept.push(SentRequest { context, method, url, redirect, started, ended: None, status: None, error: None });
        (context, Some(place))
    }

    pub(super) fn answered(&self, place: usize, status: StatusCode) {
        if let Some(request) = self.0.sent.lock().kept.get_mut(place) {
            request.status = Some(status.as_u16());
        }
    }

    pub(super) fn end(&self, place: usize, error: Option<(&'static str, String)>) {
        if let Some(request) = self.0.sent.lock().kept.get_mut(place) {
            (request.ended, request.error) = (Some(Instant::now()), error);
        }
    }
}
