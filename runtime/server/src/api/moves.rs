//! Where tenants live, and moving them: for whoever keeps the server.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};

use crate::auth::identity::{Identity, Scope};
use crate::extract::{Document, Head};
use crate::problem::{Code, Problem};
use crate::state::AppState;
use crate::wire;
use gristmill_core::job::Name;
use gristmill_store::StoreError;
use gristmill_store::sharded::TenantPlacements;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/residences", get(residences))
        .route("/tenants/{tenant}/residence", get(residence))
        .route("/tenants/{tenant}/move", post(relocate))
}

async fn residences(identity: Identity, State(state): State<AppState>) -> Result<Json<wire::Residences>, Problem> {
    identity.may_everywhere(Scope::Admin)?;
    let residences = stores(&state)?.residences().await?;
    Ok(Json(wire::Residences { residences: residences.into_iter().map(Into::into).collect() }))
}

async fn residence(
    identity: Identity,
    State(state): State<AppState>,
    Head(Path(tenant)): Head<Path<Name>>,
) -> Result<Json<wire::Residence>, Problem> {
    identity.may_everywhere(Scope::Admin)?;
    Ok(Json(stores(&state)?.residence(&tenant).await?.into()))
}

async fn relocate(
    identity: Identity,
    State(state): State<AppState>,
    Head(Path(tenant)): Head<Path<Name>>,
    Document(wire::Move { to }): Document<wire::Move>,
) -> Result<Json<wire::Nothing>, Problem> {
    identity.may_everywhere(Scope::Admin)?;
    match stores(&state)?.relocate(&tenant, &to).await {
        Ok(()) => Ok(Json(wire::Nothing {})),
        Err(StoreError::Refused { source, .. }) => Err(Problem::new(Code::MoveRefused, format!("{source:#}"))),
        Err(error) => Err(error.into()),
    }
}

fn stores(state: &AppState) -> Result<Arc<dyn TenantPlacements>, Problem> {
    let alone = || Problem::new(Code::OneStore, "there is one store only: a section [stores.NAME] makes another");
    state.moves.get().cloned().ok_or_else(alone)
}
