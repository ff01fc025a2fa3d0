//! Wake-ups as they come: one JSON document a line, until either side has enough.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use hyper::body::Frame;
use tokio::sync::mpsc::{self, Receiver};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::api::jobs::within_batch;
use crate::auth::allowed::{AllowedQuery, scope};
use crate::limits::requests::Permit;
use crate::openapi::{Described, Lines};
use crate::problem::Problem;
use crate::routes::Routes;
use crate::state::AppState;
use crate::stream::signal_hub::Listener;
use crate::wire;
use gristmill_store::Signal;

/// Signals that wait for a slow reader.
const WAITING: usize = 64;

pub(crate) fn routes() -> Routes {
    Routes::of("commands").get("/signals", signals, "Listen to wake-ups")
}

/// The answer begins once the store listens: what happens after that is told.
async fn signals(
    AllowedQuery(wire::Listeners { tenants }, identity, _): AllowedQuery<scope::Read, wire::Listeners>,
    State(state): State<AppState>,
) -> Result<Described<Lines<Signal>>, Problem> {
    within_batch(tenants.len())?;
    let permit = state.request_limiter.wait(identity.tenant())?;
    let signals = match tenants.as_slice() {
        // All listeners of a tenant share one subscription of the store. Only the operator listens to several tenants.
        [tenant] => forward(state.signal_hub.listen(tenant).await?),
        _ => state.store.signals(&tenants).await?,
    };
    let stop = Box::pin(state.stop.clone().cancelled_owned());
    let lines = Body::new(Waking { signals, stop, _permit: permit });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], lines).into_response().into())
}

/// A body that goes on for as long as the server does.
struct Waking {
    signals: Receiver<Signal>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    _permit: Permit,
}

/// The signals that a listener hears. A client that reads too slowly gets [`Signal::Lost`] for those that it missed.
fn forward(mut listener: Listener) -> Receiver<Signal> {
    let (to, signals) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        loop {
            let signal = tokio::select! {
                signal = listener.next() => signal,
                () = to.closed() => return,
            };
            if to.send(signal).await.is_err() {
                return;
            }
        }
    });
    signals
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
