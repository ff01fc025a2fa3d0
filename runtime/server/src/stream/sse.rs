//! Answers that are server-sent events (`text/event-stream`; the HTML standard, §9.2).

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use serde::Serialize;
use tokio::sync::mpsc;

/// Events that wait for a slow reader. When there are this many, [`Events::emit`] waits.
const WAITING: usize = 8;
/// How often something is sent although nothing happens: a proxy takes a silent connection for a dead one.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// What is sent then: a comment.
pub(crate) const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// The sending half of an answer. Dropped, it ends the answer.
#[derive(Debug, Clone)]
pub(crate) struct Events(mpsc::Sender<Bytes>);

/// An answer, and where its events are emitted.
pub(crate) fn channel() -> (Events, Response) {
    let (events, mut to_send) = mpsc::channel(WAITING);
    (Events(events), answer(stream::poll_fn(move |context| to_send.poll_recv(context))))
}

/// An answer of these events.
pub(crate) fn answer(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(events.map(Ok::<_, Infallible>))).into_response()
}

/// An event as it is sent. `id` numbers the events of a stream.
pub(crate) fn event<T: Serialize>(name: &str, id: Option<u64>, data: &T) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    // JSON has no line ends of its own, and every type that is sent can be written as JSON.
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("event: {name}\n{id}data: {data}\n\n").into()
}

impl Events {
    /// Emits an event. Does nothing if the client is gone.
    pub(crate) async fn emit<T: Serialize>(&self, name: &str, data: &T) {
        self.0.send(event(name, None, data)).await.ok();
    }

    /// Emits a comment. Does nothing if the client is gone.
    pub(crate) async fn keep_alive(&self) {
        self.0.send(COMMENT).await.ok();
    }

    /// Waits until the client is gone.
    pub(crate) async fn closed(&self) {
        self.0.closed().await;
    }
}
