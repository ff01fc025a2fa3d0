//! The last changes and refusals.

use axum::Json;

use crate::auth::allowed::{AllTenants, Allowed, scope};
use crate::problem::Problem;
use crate::routes::Routes;
use crate::wire::Actions;
use gristmill_core::job::Name;

const ABOUT: &str = "The last 1000 changes that need the scope `admin`, and refusals, that this server has answered since its process began, \
    the latest first. The audit log has all of them.";

pub(crate) fn routes() -> Routes {
    Routes::of("tokens")
        .get("/audit", everywhere, "List the last changes and refusals")
        .description(ABOUT)
        .get("/tenants/{tenant}/audit", of_tenant, "List the last changes and refusals of a tenant")
        .description(ABOUT)
}

async fn everywhere(Allowed { state, .. }: Allowed<scope::Admin, AllTenants>) -> Result<Json<Actions>, Problem> {
    Ok(Json(Actions { actions: state.actions.of(None) }))
}

async fn of_tenant(Allowed { over: tenant, state, .. }: Allowed<scope::Admin, Name>) -> Result<Json<Actions>, Problem> {
    Ok(Json(Actions { actions: state.actions.of(Some(&tenant)) }))
}
