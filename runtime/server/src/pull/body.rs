//! The answer that hands claimed jobs over. Until its last byte has gone to the connection the jobs are not the worker's: a
//! document without its end is none, so whoever got all but that cannot have begun to work.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};

use super::claim_guard::ClaimGuard;

/// The jobs, told by `document`, as an answer that takes them along.
pub(super) fn answer(document: Vec<u8>, held: ClaimGuard) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], Body::new(HandingOver::new(document.into(), held))).into_response()
}

/// A body in two parts: the last byte by itself, once the connection has been given what came before.
pub(super) struct HandingOver {
    rest: Bytes,
    last: Bytes,
    /// The connection was asked to come again.
    paused: bool,
    held: Option<ClaimGuard>,
}

impl HandingOver {
    pub(super) fn new(mut document: Bytes, held: ClaimGuard) -> Self {
        let last = document.split_off(document.len().saturating_sub(1));
        Self { rest: document, last, paused: false, held: Some(held) }
    }
}

impl hyper::body::Body for HandingOver {
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
            // Time for the connection to write what it has, and to see that nobody is there: then nobody asks for more.
            self.paused = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(held) = self.held.take() {
            held.hand_over();
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
