//! `/healthz`: the process lives. `/readyz`: it can do its work.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;

use super::problem::{Code, Problem};
use super::room::{Phase, Room};

/// How long the store may take to answer; then it counts as away.
const STORE_TIME: Duration = Duration::from_secs(5);

pub(super) fn routes() -> Router<Room> {
    Router::new().route("/healthz", get(async || "ok\n")).route("/readyz", get(ready))
}

/// Ready while any part of the store answers; those that do not are named.
async fn ready(State(room): State<Room>) -> Result<String, Problem> {
    match room.phase() {
        Phase::Starting => return Err(Problem::new(Code::Starting, "the runner is starting")),
        Phase::Ending => return Err(Problem::new(Code::Ending, "the runner is ending")),
        Phase::Ready => {}
    }
    match tokio::time::timeout(STORE_TIME, room.store.unavailable()).await {
        Ok(away) => Ok(away?.into_iter().fold("ready\n".to_owned(), |said, away| said + &format!("{away}\n"))),
        Err(_) => Err(Problem::new(Code::StoreAway, format!("no answer within {} s", STORE_TIME.as_secs()))),
    }
}
