//! A topic's dead jobs: list, respawn, delete.

use axum::extract::{Path, Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};

use super::caller::{Caller, Scope};
use super::extract::{Document, Head};
use super::jobs::within_batch;
use super::problem::Problem;
use super::server::Room;
use super::wire;
use crate::job::TopicId;
use crate::store::DeadJob;

/// Bytes of bodies after which a page is full. A first job that is larger is a page by itself.
const PAGE_BYTES: usize = 16 << 20;

pub(super) fn routes() -> Router<Room> {
    Router::new()
        .route("/tenants/{tenant}/topics/{topic}/dead", get(list))
        .route("/tenants/{tenant}/topics/{topic}/dead/respawn", post(respawn))
        .route("/tenants/{tenant}/topics/{topic}/dead/delete", post(delete))
}

async fn list(
    caller: Caller,
    State(room): State<Room>,
    Head(Path(topic)): Head<Path<TopicId>>,
    Head(Query(page)): Head<Query<wire::Page>>,
) -> Result<Json<wire::Dead>, Problem> {
    caller.may(Scope::Read, &topic.tenant)?;
    within_batch(page.limit)?;
    let dead = room.store.dead(&topic, page.skip, page.limit).await?;
    Ok(Json(wire::Dead { dead: first_of(dead).map(Into::into).collect() }))
}

fn first_of(dead: Vec<DeadJob>) -> impl Iterator<Item = DeadJob> {
    let mut bytes = 0;
    dead.into_iter().enumerate().map_while(move |(place, dead)| {
        bytes += dead.job.spec.body.data.len();
        (place == 0 || bytes <= PAGE_BYTES).then_some(dead)
    })
}

async fn respawn(
    caller: Caller,
    State(room): State<Room>,
    Head(Path(topic)): Head<Path<TopicId>>,
    Document(wire::Ids { ids }): Document<wire::Ids>,
) -> Result<Json<wire::WereDead>, Problem> {
    caller.may(Scope::Admin, &topic.tenant)?;
    within_batch(ids.len())?;
    Ok(Json(wire::WereDead { were_dead: room.store.respawn(&topic, &ids).await? }))
}

async fn delete(
    caller: Caller,
    State(room): State<Room>,
    Head(Path(topic)): Head<Path<TopicId>>,
    Document(wire::Ids { ids }): Document<wire::Ids>,
) -> Result<Json<wire::WereDead>, Problem> {
    caller.may(Scope::Admin, &topic.tenant)?;
    within_batch(ids.len())?;
    Ok(Json(wire::WereDead { were_dead: room.store.delete_dead(&topic, &ids).await? }))
}
