//! Push jobs and cancel some, as the commands do.

use std::collections::BTreeSet;

use axum::extract::{DefaultBodyLimit, Path, State};
use axum::routing::post;
use axum::{Json, Router};

use super::caller::{Caller, Scope};
use super::extract::{Document, Head};
use super::problem::{Code, Problem};
use super::room::Room;
use super::wire::{self, BATCH};
use gristmill_core::job::{Name, NewJob};

/// A job's body is at most 64 MiB, which is 86 in base64; what else belongs to the job fits into the rest.
pub(super) const PUSH_BYTES: usize = 96 << 20;

pub(super) fn routes() -> Router<Room> {
    Router::new()
        .route("/jobs", post(push).layer(DefaultBodyLimit::max(PUSH_BYTES)))
        .route("/tenants/{tenant}/cancel", post(cancel))
}

async fn push(
    caller: Caller,
    State(room): State<Room>,
    Document(push): Document<wire::Push>,
) -> Result<Json<wire::PushAnswer>, Problem> {
    within_batch(push.jobs.len())?;
    let jobs: Vec<NewJob> = push.jobs.into_iter().map(Into::into).collect();
    let tenants: BTreeSet<&Name> = jobs.iter().map(|job| &job.spec.topic.tenant).collect();
    tenants.into_iter().try_for_each(|tenant| caller.may(Scope::Push, tenant))?;
    room.admit(&jobs).await?;
    let pushed = room.store.push(&jobs).await?;
    Ok(Json(wire::PushAnswer { pushed: pushed.into_iter().map(Into::into).collect() }))
}

async fn cancel(
    caller: Caller,
    State(room): State<Room>,
    Head(Path(tenant)): Head<Path<Name>>,
    Document(wire::Ids { ids }): Document<wire::Ids>,
) -> Result<Json<wire::CancelAnswer>, Problem> {
    caller.may(Scope::Admin, &tenant)?;
    within_batch(ids.len())?;
    let cancelled = room.store.cancel(&tenant, &ids).await?;
    Ok(Json(wire::CancelAnswer { cancelled: cancelled.into_iter().map(Into::into).collect() }))
}

pub(super) fn within_batch(count: usize) -> Result<(), Problem> {
    if count <= BATCH {
        return Ok(());
    }
    Err(Problem::new(Code::TooLarge, format!("{count} in one request; at most {BATCH} are allowed")))
}
