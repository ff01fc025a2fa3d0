//! Push jobs and cancel some, as the commands do.

use std::collections::BTreeSet;

use axum::extract::{DefaultBodyLimit, Path, State};
use axum::routing::post;
use axum::{Json, Router};

use crate::auth::identity::{Identity, Scope};
use crate::extract::{Document, Head};
use crate::problem::{Code, Problem};
use crate::state::AppState;
use crate::wire::{self, BATCH};
use gristmill_core::job::{Name, NewJob};

/// A job's body is at most 64 MiB, which is 86 in base64; what else belongs to the job fits into the rest.
pub(crate) const PUSH_BYTES: usize = 96 << 20;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/jobs", post(push).layer(DefaultBodyLimit::max(PUSH_BYTES)))
        .route("/tenants/{tenant}/cancel", post(cancel))
}

async fn push(
    identity: Identity,
    State(state): State<AppState>,
    Document(push): Document<wire::Push>,
) -> Result<Json<wire::PushAnswer>, Problem> {
    within_batch(push.jobs.len())?;
    let jobs: Vec<NewJob> = push.jobs.into_iter().map(Into::into).collect();
    let tenants: BTreeSet<&Name> = jobs.iter().map(|job| &job.spec.topic.tenant).collect();
    tenants.into_iter().try_for_each(|tenant| identity.may(Scope::Push, tenant))?;
    state.admit(&jobs).await?;
    let pushed = state.store.push(&jobs).await?;
    Ok(Json(wire::PushAnswer { pushed: pushed.into_iter().map(Into::into).collect() }))
}

async fn cancel(
    identity: Identity,
    State(state): State<AppState>,
    Head(Path(tenant)): Head<Path<Name>>,
    Document(wire::Ids { ids }): Document<wire::Ids>,
) -> Result<Json<wire::CancelAnswer>, Problem> {
    identity.may(Scope::Admin, &tenant)?;
    within_batch(ids.len())?;
    let cancelled = state.store.cancel(&tenant, &ids).await?;
    Ok(Json(wire::CancelAnswer { cancelled: cancelled.into_iter().map(Into::into).collect() }))
}

pub(crate) fn within_batch(count: usize) -> Result<(), Problem> {
    if count <= BATCH {
        return Ok(());
    }
    Err(Problem::new(Code::TooLarge, format!("{count} in one request; at most {BATCH} are allowed")))
}
