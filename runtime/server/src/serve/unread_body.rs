//! Unread bodies. A connection with unread bytes is closed with a reset, which may overtake the answer: clients that read no
//! answer before they have sent everything see a broken connection, and send it all again.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::runtime::Handle;

/// How much is read of a body that no handler wants any more, and for how long.
const BYTES: usize = 16 << 20;
const TIME: Duration = Duration::from_secs(2);

/// A request's body. The rest of it is read even when it is dropped, within bounds.
#[derive(Debug)]
pub(super) struct UnreadBody {
    body: Option<Incoming>,
    /// The client sends the body once it is asked for, so one that is refused has not sent it.
    is_asked_for: bool,
}

impl UnreadBody {
    pub(super) fn of(request: Request<Incoming>) -> Request<Self> {
        let is_asked_for = request.headers().contains_key(header::EXPECT);
        request.map(|body| Self { body: Some(body), is_asked_for })
    }
}

impl Drop for UnreadBody {
    fn drop(&mut self) {
        let unread = self.body.take().filter(|body| !self.is_asked_for && !body.is_end_stream());
        if let (Some(body), Ok(runtime)) = (unread, Handle::try_current()) {
            runtime.spawn(tokio::time::timeout(TIME, read(body)));
        }
    }
}

async fn read(mut body: Incoming) {
    let mut bytes = 0;
    while let Some(Ok(frame)) = body.frame().await {
        bytes += frame.data_ref().map_or(0, Bytes::len);
        if bytes > BYTES {
            return;
        }
    }
}

impl Body for UnreadBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.body.as_mut().map_or(Poll::Ready(None), |body| Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Incoming::size_hint).unwrap_or_default()
    }
}
