//! Wake-ups as they come: one JSON document on each line, until the client or the server ends the stream.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use futures_util::stream;
use tokio::sync::mpsc::{self, Receiver};

use crate::api::jobs::within_batch;
use crate::auth::allowed::{AllowedQuery, scope};
use crate::openapi::{Described, JsonLines};
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

/// The answer begins once the store listens, so it has every signal after that.
async fn signals(
    AllowedQuery(wire::Listeners { tenants }, identity, _): AllowedQuery<scope::Read, wire::Listeners>,
    State(state): State<AppState>,
) -> Result<Described<JsonLines<Signal>>, Problem> {
    within_batch("tenants", tenants.len())?;
    let permit = state.request_limiter.wait(identity.tenant())?;
    let signals = match tenants.as_slice() {
        // All listeners of a tenant share one subscription of the store. Only the operator listens to several tenants.
        [tenant] => forward(state.signal_hub.listen(tenant).await?),
        _ => state.store.signals(&tenants).await?,
    };
    let lines = stream::unfold((signals, state.stop.clone(), permit), |(mut signals, stop, permit)| async move {
        let signal = tokio::select! {
            // What was received comes first: a client may wait for it.
            biased;
            signal = signals.recv() => signal?,
            () = stop.cancelled() => return None,
        };
        Some((Ok::<_, Infallible>(line(signal)), (signals, stop, permit)))
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response().into())
}

/// The signals that a listener receives. A client that reads too slowly gets [`Signal::Lost`] for those that it missed.
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

fn line(signal: Signal) -> Bytes {
    let lost = || br#"{"signal":"lost"}"#.to_vec();
    let mut line = serde_json::to_vec(&signal).unwrap_or_else(|_| lost());
    line.push(b'\n');
    line.into()
}
