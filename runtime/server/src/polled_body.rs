//! Bodies of answers that do something each time that they are polled.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

/// What a poll for the next frame returns.
pub(crate) type PolledFrame = Poll<Option<Result<Frame<Bytes>, axum::Error>>>;

/// A body that `poll` polls. `poll` may also hold what is needed until the body is sent or given up. The size of the body stays known: without it,
/// the answer would have no `Content-Length`.
pub(crate) struct PolledBody<F> {
    body: Body,
    poll: F,
}

/// Polls a body for the next frame.
pub(crate) fn next_frame(body: &mut Body, context: &mut Context<'_>) -> PolledFrame {
    Pin::new(body).poll_frame(context)
}

impl<F: FnMut(&mut Body, &mut Context<'_>) -> PolledFrame + Unpin> PolledBody<F> {
    pub(crate) fn new(body: Body, poll: F) -> Self {
        Self { body, poll }
    }
}

impl<F: FnMut(&mut Body, &mut Context<'_>) -> PolledFrame + Unpin> HttpBody for PolledBody<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> PolledFrame {
        let Self { body, poll } = self.get_mut();
        poll(body, context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
