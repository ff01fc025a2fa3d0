//! Where tenants live, and moving them: for whoever keeps the server.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};

use super::caller::{Caller, Scope};
use super::extract::{Document, Head};
use super::problem::{Code, Problem};
use super::room::Room;
use super::wire;
use gristmill_core::job::Name;
use gristmill_store::StoreError;
use gristmill_store::sharded::TenantPlacements;

pub(super) fn routes() -> Router<Room> {
    Router::new()
        .route("/residences", get(residences))
        .route("/tenants/{tenant}/residence", get(residence))
        .route("/tenants/{tenant}/move", post(relocate))
}

async fn residences(caller: Caller, State(room): State<Room>) -> Result<Json<wire::Residences>, Problem> {
    caller.may_everywhere(Scope::Admin)?;
    let residences = stores(&room)?.residences().await?;
    Ok(Json(wire::Residences { residences: residences.into_iter().map(Into::into).collect() }))
}

async fn residence(
    caller: Caller,
    State(room): State<Room>,
    Head(Path(tenant)): Head<Path<Name>>,
) -> Result<Json<wire::Residence>, Problem> {
    caller.may_everywhere(Scope::Admin)?;
    Ok(Json(stores(&room)?.residence(&tenant).await?.into()))
}

async fn relocate(
    caller: Caller,
    State(room): State<Room>,
    Head(Path(tenant)): Head<Path<Name>>,
    Document(wire::Move { to }): Document<wire::Move>,
) -> Result<Json<wire::Nothing>, Problem> {
    caller.may_everywhere(Scope::Admin)?;
    match stores(&room)?.relocate(&tenant, &to).await {
        Ok(()) => Ok(Json(wire::Nothing {})),
        Err(StoreError::Refused { source, .. }) => Err(Problem::new(Code::MoveRefused, format!("{source:#}"))),
        Err(error) => Err(error.into()),
    }
}

fn stores(room: &Room) -> Result<Arc<dyn TenantPlacements>, Problem> {
    let alone = || Problem::new(Code::OneStore, "there is one store only: a section [stores.NAME] makes another");
    room.moves.get().cloned().ok_or_else(alone)
}
