//! Tenants and their topics: how many jobs are where; pause and resume.

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};

use super::caller::{Caller, Scope};
use super::extract::{Document, Head};
use super::problem::Problem;
use super::server::Room;
use super::wire;
use crate::job::{Name, TopicId};

pub(super) fn routes() -> Router<Room> {
    Router::new()
        .route("/tenants", get(tenants))
        .route("/tenants/{tenant}/topics", get(topics))
        .route("/tenants/{tenant}/topics/{topic}/pause", post(pause))
        .route("/tenants/{tenant}/topics/{topic}/resume", post(resume))
}

async fn tenants(caller: Caller, State(room): State<Room>) -> Result<Json<wire::Tenants>, Problem> {
    caller.may_everywhere(Scope::Read)?;
    Ok(Json(wire::Tenants { tenants: room.store.tenants().await? }))
}

async fn topics(
    caller: Caller,
    State(room): State<Room>,
    Head(Path(tenant)): Head<Path<Name>>,
) -> Result<Json<wire::Topics>, Problem> {
    caller.may(Scope::Read, &tenant)?;
    let counts = room.store.counts(&tenant).await?;
    Ok(Json(wire::Topics { topics: counts.into_iter().map(Into::into).collect() }))
}

async fn pause(
    caller: Caller,
    State(room): State<Room>,
    Head(Path(topic)): Head<Path<TopicId>>,
    Document(wire::Nothing {}): Document<wire::Nothing>,
) -> Result<Json<wire::Changed>, Problem> {
    caller.may(Scope::Admin, &topic.tenant)?;
    Ok(Json(wire::Changed { changed: room.store.set_paused(&topic, true).await? }))
}

async fn resume(
    caller: Caller,
    State(room): State<Room>,
    Head(Path(topic)): Head<Path<TopicId>>,
    Document(wire::Nothing {}): Document<wire::Nothing>,
) -> Result<Json<wire::Changed>, Problem> {
    caller.may(Scope::Admin, &topic.tenant)?;
    Ok(Json(wire::Changed { changed: room.store.set_paused(&topic, false).await? }))
}
