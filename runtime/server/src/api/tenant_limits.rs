//! How much a tenant may ask for, and what it has.

use axum::Json;

use crate::auth::allowed::{Allowed, scope};
use crate::problem::Problem;
use crate::routes::Routes;
use crate::wire::limits::{TenantLimits, Used};
use gristmill_core::bill::{Cost, Day};
use gristmill_core::job::Name;
use gristmill_core::time::Timestamp;

pub(crate) fn routes() -> Routes {
    Routes::of("bill").get("/tenants/{tenant}/limits", limits, "How much a tenant may ask for, and what it has")
}

async fn limits(
    Allowed { over: tenant, state, .. }: Allowed<scope::Read, Name>,
) -> Result<Json<TenantLimits>, Problem> {
    let today = Day::of(Timestamp::now());
    let (counts, lines) = (state.store.counts(&tenant).await?, state.store.bill(&tenant, &(today..=today)).await?);
    let mut cost = Cost::default();
    lines.iter().for_each(|line| cost += line.cost);
    let used = Used::new(&counts, state.store.stored_bytes(&tenant).await?, cost);
    Ok(Json(TenantLimits::new(&state.topics().limits(&tenant), used)))
}
