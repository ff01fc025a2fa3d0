//! The body of an answer, read as it comes in: within the grant's limit, and in time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming};
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep_until};

use super::super::bindings::http::HttpError;
use super::super::idle::IdleItems;
use super::connect::{Connection, Origin, broken};

/// The body of an answer. Trailers are left out. Dropping it before its end closes the connection.
#[derive(Debug)]
pub(in super::super) struct AnswerBody {
    pub(super) incoming: Incoming,
    /// Bytes that may come in, and that still may.
    pub(super) limit: u64,
    pub(super) remaining: u64,
    pub(super) times: Times,
    /// Where the connection goes at the end of the body.
    pub(super) origin: Origin,
    pub(super) connection: Option<Connection>,
    /// Whether it takes another request then.
    pub(super) is_kept: bool,
    pub(super) idle: Arc<IdleItems<Origin, Connection>>,
    /// On which idle connections are watched.
    pub(super) runtime: Handle,
}

/// How long a reader waits.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// For the body's last byte.
    ends: Option<Instant>,
    /// For the next bytes. The time in which the reader does not ask for them does not count.
    between: Option<Duration>,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Times {
    pub(super) fn new(ends: Instant, between: Option<Duration>) -> Self {
        Self { ends: Some(ends), between, waiting: None }
    }

    /// Ready once the time is over.
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.waiting.is_none() {
            let next = self.between.map(|between| Instant::now() + between);
            self.waiting = self.ends.into_iter().chain(next).min().map(|end| Box::pin(sleep_until(end)));
        }
        self.waiting.as_mut().map_or(Poll::Pending, |waiting| waiting.as_mut().poll(context))
    }
}

impl AnswerBody {
    /// The next bytes; `None` at the end.
    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, HttpError>>> {
        loop {
            let Poll::Ready(next) = Pin::new(&mut self.incoming).poll_frame(context) else {
                ready!(self.times.poll_over(context));
                return Poll::Ready(Some(Err(HttpError::Timeout)));
            };
            self.times.waiting = None;
            let Some(frame) = next else { return Poll::Ready(None) };
            match frame.map(Frame::into_data) {
                Err(error) => return Poll::Ready(Some(Err(broken(&self.origin, &error)))),
                Ok(Err(_trailers)) => {}
                Ok(Ok(bytes)) => {
                    let remaining = self.remaining.checked_sub(bytes.len() as u64);
                    self.remaining = remaining.unwrap_or(0);
                    return Poll::Ready(Some(remaining.map(|_| bytes).ok_or(HttpError::TooLarge(self.limit))));
                }
            }
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = self.get_mut();
        let next = ready!(this.poll_bytes(context));
        match (&next, this.connection.take()) {
            (Some(Ok(_)), connection) => this.connection = connection,
            // Read to its end: the connection takes the next request.
            (None, Some(connection)) if this.is_kept => {
                let _runtime = this.runtime.enter();
                this.idle.put(this.origin.clone(), connection, 0);
            }
            // Closed.
            (None | Some(Err(_)), _) => {}
        }
        Poll::Ready(next.map(|bytes| bytes.map(Frame::data)))
    }
}
