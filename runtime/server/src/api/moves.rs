//! The stores of the tenants, and moving them: for the operator of the server.

use std::sync::Arc;

use axum::Json;

use crate::auth::allowed::{AllTenants, Allowed, scope};
use crate::extract::Document;
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use crate::wire;
use gristmill_core::job::Name;
use gristmill_store::StoreError;
use gristmill_store::{TenantPlacement, TenantPlacements};

pub(crate) fn routes() -> Routes {
    Routes::of("tenants")
        .get("/placements", placements, "List the store of each tenant")
        .problems(&[Code::OneStore])
        .get("/tenants/{tenant}/placement", placement, "Get the store of a tenant")
        .problems(&[Code::OneStore])
        .post("/tenants/{tenant}/move", relocate, "Move a tenant to another store")
        .description(
            "From now on pushes go to the new store, and the tenant's jobs follow. Does nothing if the tenant is there.",
        )
        .problems(&[Code::OneStore, Code::MoveRefused])
}

async fn placements(
    Allowed { state, .. }: Allowed<scope::Admin, AllTenants>,
) -> Result<Json<wire::Placements>, Problem> {
    Ok(Json(wire::Placements { placements: stores(&state)?.placements().await? }))
}

async fn placement(
    Allowed { over: AllTenants(tenant), state, .. }: Allowed<scope::Admin, AllTenants<Name>>,
) -> Result<Json<TenantPlacement>, Problem> {
    Ok(Json(stores(&state)?.placement(&tenant).await?))
}

async fn relocate(
    Allowed { over: AllTenants(tenant), state, .. }: Allowed<scope::Admin, AllTenants<Name>>,
    Document(wire::Move { to }): Document<wire::Move>,
) -> Result<Json<wire::Nothing>, Problem> {
    match stores(&state)?.move_tenant(&tenant, &to).await {
        Ok(()) => Ok(Json(wire::Nothing {})),
        Err(StoreError::Refused { source, .. }) => Err(Problem::new(Code::MoveRefused, format!("{source:#}"))),
        Err(error) => Err(error.into()),
    }
}

fn stores(state: &AppState) -> Result<Arc<dyn TenantPlacements>, Problem> {
    let alone = || Problem::new(Code::OneStore, "there is one store only: a section [stores.NAME] makes another");
    state.moves.clone().ok_or_else(alone)
}
