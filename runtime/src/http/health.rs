//! `/healthz`: the process lives. `/readyz`: it can do its work.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;

use super::problem::{Code, Problem};
use super::server::{Phase, Room};
use crate::job::{DEFAULT_TENANT, JobId, Name};

/// How long the store may take to answer; then it counts as away.
const STORE_TIME: Duration = Duration::from_secs(5);

pub(super) fn routes() -> Router<Room> {
    Router::new().route("/healthz", get(async || "ok\n")).route("/readyz", get(ready))
}

async fn ready(State(room): State<Room>) -> Result<&'static str, Problem> {
    match room.phase() {
        Phase::Starting => return Err(Problem::new(Code::Starting, "the runner is starting")),
        Phase::Ending => return Err(Problem::new(Code::Ending, "the runner is ending")),
        Phase::Ready => {}
    }
    match tokio::time::timeout(STORE_TIME, probe(&room)).await {
        Ok(answer) => answer.map(|()| "ready\n"),
        Err(_) => Err(Problem::new(Code::StoreAway, format!("no answer within {} s", STORE_TIME.as_secs()))),
    }
}

/// The cheapest question that a store can answer: a job that is hardly ever there.
async fn probe(room: &Room) -> Result<(), Problem> {
    let (Ok(tenant), Ok(id)) = (DEFAULT_TENANT.parse::<Name>(), "readyz".parse::<JobId>()) else { return Ok(()) };
    room.store.job(&tenant, &id).await?;
    Ok(())
}
