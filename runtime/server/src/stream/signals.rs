//! Wake-ups as they come: one JSON document a line, until either side has enough.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use hyper::body::Frame;
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::api::jobs::within_batch;
use crate::auth::allowed::{AllowedQuery, scope};
use crate::openapi::{Described, Lines};
use crate::problem::Problem;
use crate::routes::Routes;
use crate::state::AppState;
use crate::wire;
use gristmill_store::Signal;

pub(crate) fn routes() -> Routes {
    Routes::of("commands").get("/signals", signals, "Listen to wake-ups")
}

/// The answer begins once the store listens: what happens after that is told.
async fn signals(
    AllowedQuery(wire::Listeners { tenants }, _): AllowedQuery<scope::Read, wire::Listeners>,
    State(state): State<AppState>,
) -> Result<Described<Lines<Signal>>, Problem> {
    within_batch(tenants.len())?;
    let signals = state.store.signals(&tenants).await?;
    let lines = Body::new(Waking { signals, stop: Box::pin(state.stop.clone().cancelled_owned()) });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], lines).into_response().into())
}

/// A body that goes on for as long as the server does.
struct Waking {
    signals: Receiver<Signal>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl hyper::body::Body for Waking {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // What has been told comes first: it may be what somebody waits for.
        match self.signals.poll_recv(context) {
            Poll::Ready(signal) => Poll::Ready(signal.map(|signal| Ok(Frame::data(line(signal))))),
            Poll::Pending => self.stop.as_mut().poll(context).map(|()| None),
        }
    }
}

fn line(signal: Signal) -> Bytes {
    let lost = || br#"{"signal":"lost"}"#.to_vec();
    let mut line = serde_json::to_vec(&signal).unwrap_or_else(|_| lost());
    line.push(b'\n');
    line.into()
}
