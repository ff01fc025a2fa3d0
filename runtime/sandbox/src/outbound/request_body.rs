//! The body of a request as it is sent.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, SizeHint};

use super::super::bindings::http::HttpError;

/// Bytes that come before the rest of a body, at least: a shorter one is whole when it is sent.
pub(in super::super) const BEGIN_BYTES: usize = 64 << 10;

/// What a guest writes while its request is sent already.
pub(in super::super) struct Rest {
    /// Ends with an error if it has too many bytes, or if the guest does not finish it. Trailers are left out.
    pub(in super::super) body: UnsyncBoxBody<Bytes, HttpError>,
    /// Bytes of the whole body, if the guest says so.
    pub(in super::super) whole: Option<u64>,
}

/// Bytes that are known when the request is sent, and what comes after them.
pub(super) struct RequestBody {
    begin: Bytes,
    rest: Option<Rest>,
}

impl RequestBody {
    pub(super) fn new(begin: Bytes, rest: Option<Rest>) -> Self {
        Self { begin, rest }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if !self.begin.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.begin)))));
        }
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        loop {
            let next = ready!(Pin::new(&mut rest.body).poll_frame(context));
            match next.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Err(_trailers))) => {}
                Some(Ok(Ok(bytes))) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.begin.is_empty() && self.rest.is_none()
    }

    /// Asked for before anything is sent.
    fn size_hint(&self) -> SizeHint {
        match &self.rest {
            None => SizeHint::with_exact(self.begin.len() as u64),
            Some(Rest { whole: Some(bytes), .. }) => SizeHint::with_exact(*bytes),
            Some(Rest { whole: None, .. }) => SizeHint::default(),
        }
    }
}

/// What kept the body of a request from its end, if that is why its connection broke off.
pub(super) fn cause(error: &hyper::Error) -> Option<HttpError> {
    error.source()?.downcast_ref::<HttpError>().cloned()
}
