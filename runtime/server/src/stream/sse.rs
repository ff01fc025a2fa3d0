//! Answers that go on: events as they come (`text/event-stream`).

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use serde::Serialize;
use tokio::sync::mpsc;

/// Events that wait for a slow reader; then whoever tells them waits.
const WAITING: usize = 8;
/// What is between us and the client takes silence for death.
pub(crate) const SAY_SOMETHING_EVERY: Duration = Duration::from_secs(15);

/// Where events go. Dropped, it ends the answer.
#[derive(Debug, Clone)]
pub(crate) struct Events(mpsc::Sender<Bytes>);

/// An answer, and who tells what is in it.
pub(crate) fn stream() -> (Events, Response) {
    let (events, to_send) = mpsc::channel(WAITING);
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (Events(events), (headers, Body::new(Sent(to_send))).into_response())
}

impl Events {
    /// False: nobody listens any more.
    pub(crate) async fn tell<T: Serialize>(&self, event: &str, data: &T) -> bool {
        // JSON has no line ends of its own, and nothing of ours fails to be written.
        let data = serde_json::to_string(data).unwrap_or_default();
        self.0.send(format!("event: {event}\ndata: {data}\n\n").into()).await.is_ok()
    }

    /// Says that nothing has happened. False: nobody listens any more.
    pub(crate) async fn keep_alive(&self) -> bool {
        self.0.send(Bytes::from_static(b":\n\n")).await.is_ok()
    }

    /// Waits until nobody listens any more.
    pub(crate) async fn left(&self) {
        self.0.closed().await;
    }
}

struct Sent(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
