//! Which server answers, and what the token of a request allows.

use axum::Json;
use axum::extract::State;

use crate::auth::allowed::AnyToken;
use crate::auth::identity::Scope;
use crate::routes::Routes;
use crate::state::AppState;
use crate::wire::{About, Me};
use gristmill_store::ServerName;

pub(crate) fn routes() -> Routes {
    Routes::of("health").get("/", about, "Which server answers").get("/me", me, "What the token of this request allows")
}

/// Says which server answers, so that a command knows which one it has reached. Only the operator sees where the store is.
async fn about(AnyToken(identity): AnyToken, State(state): State<AppState>) -> Json<About> {
    let (pid, store) = identity.is_operator().then(|| (std::process::id(), state.store_name.clone())).unzip();
    let ServerName { store: store_id, instance } = &state.server;
    let (store_id, instance) = (Some(store_id.to_string()), Some(instance.clone()));
    let (name, colour) = (state.page.name.clone(), state.page.colour.clone());
    Json(About { version: env!("CARGO_PKG_VERSION").into(), store_id, instance, pid, store, name, colour })
}

async fn me(AnyToken(identity): AnyToken) -> Json<Me> {
    let scopes = Scope::ALL.into_iter().filter(|scope| identity.has(*scope)).collect();
    Json(Me { token: identity.token().cloned(), tenant: identity.tenant().cloned(), scopes })
}
