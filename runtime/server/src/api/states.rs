//! What the jobs of a key leave for each other: look at it, delete it.

use axum::Json;
use axum::extract::State;

use crate::auth::allowed::{Allowed, scope};
use crate::problem::Problem;
use crate::routes::Routes;
use crate::state::AppState;
use crate::wire;
use gristmill_core::job::{Name, TopicId};

const KEY: &str = "Write the bytes of the key that are no letters, digits, `-`, `_` or `.` as `%2F`.";
const DELETE: &str = "A job of the key that is running may set the state again. Write the bytes of the key that are no letters, digits, \
    `-`, `_` or `.` as `%2F`.";

/// What the path names: a tenant, a topic, and a key.
type InPath = (Name, Name, String);

pub(crate) fn routes() -> Routes {
    let path = "/tenants/{tenant}/topics/{topic}/state/{key}";
    Routes::of("topics")
        .get(path, show, "Look at the state of a key")
        .description(KEY)
        .delete(path, delete, "Delete the state of a key")
        .description(DELETE)
}

async fn show(
    Allowed { over: (tenant, topic, key), identity, .. }: Allowed<scope::Read, InPath>,
    State(state): State<AppState>,
) -> Result<Json<wire::KeyState>, Problem> {
    state.may_see_payloads(&identity, &tenant)?;
    let found = state.store.state(&TopicId { tenant, topic }, &key).await?;
    Ok(Json(wire::KeyState { state: found.map(wire::Base64) }))
}

async fn delete(
    Allowed { over: (tenant, topic, key), .. }: Allowed<scope::Admin, InPath>,
    State(state): State<AppState>,
) -> Result<Json<wire::Changed>, Problem> {
    Ok(Json(wire::Changed { changed: state.store.delete_state(&TopicId { tenant, topic }, &key).await? }))
}
