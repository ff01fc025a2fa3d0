//! The answer that delivers claimed jobs.
//!
//! A client that is gone must take no job along. The jobs go back if the answer is dropped before its last byte was asked
//! for: a document without its end is none, so a client that got all but that cannot have begun to work. From then on the
//! connection's [`DeliveryTracker`] holds them until it is clear whether the client took the bytes.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};

use super::guard::{ClaimGuard, Claimed};
use crate::serve::DeliveryTracker;

impl Claimed {
    /// The answer that delivers the jobs. `document`: what describes them.
    pub(crate) fn answer(self, document: Vec<u8>, media_type: &'static str, tracker: DeliveryTracker) -> Response {
        let body = Body::new(DeliveringBody::new(document.into(), self.guard, tracker));
        ([(header::CONTENT_TYPE, media_type)], body).into_response()
    }
}

/// A body in two parts: the last byte alone, once the connection has been given what came before.
pub(super) struct DeliveringBody {
    rest: Bytes,
    last: Bytes,
    /// The connection was asked to come again.
    paused: bool,
    guard: Option<ClaimGuard>,
    tracker: DeliveryTracker,
}

impl DeliveringBody {
    pub(super) fn new(mut document: Bytes, guard: ClaimGuard, tracker: DeliveryTracker) -> Self {
        let last = document.split_off(document.len().saturating_sub(1));
        Self { rest: document, last, paused: false, guard: Some(guard), tracker }
    }
}

impl hyper::body::Body for DeliveringBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            return Poll::Ready(Some(Ok(Frame::data(rest))));
        }
        if self.last.is_empty() {
            return Poll::Ready(None);
        }
        if !self.paused {
            // Time for the connection to write what it has, and to see that the client is gone: then it asks for no more.
            self.paused = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(guard) = self.guard.take() {
            self.tracker.track(guard);
        }
        let last = std::mem::take(&mut self.last);
        Poll::Ready(Some(Ok(Frame::data(last))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.last.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact((self.rest.len() + self.last.len()) as u64)
    }
}
