//! Push jobs, look at one, cancel some.

use axum::extract::{DefaultBodyLimit, Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};

use super::extract::{Document, Head};
use super::problem::{Code, Problem};
use super::server::Room;
use super::wire::{self, BATCH};
use crate::job::{JobId, Name, NewJob};

/// A job's body is at most 64 MiB, which is 86 in base64; what else belongs to the job fits into the rest.
const PUSH_BYTES: usize = 96 << 20;

pub(super) fn routes() -> Router<Room> {
    Router::new()
        .route("/jobs", post(push).layer(DefaultBodyLimit::max(PUSH_BYTES)))
        .route("/tenants/{tenant}/jobs/{id}", get(job))
        .route("/tenants/{tenant}/cancel", post(cancel))
}

async fn push(
    State(room): State<Room>,
    Document(push): Document<wire::Push>,
) -> Result<Json<wire::PushAnswer>, Problem> {
    within_batch(push.jobs.len())?;
    let jobs: Vec<NewJob> = push.jobs.into_iter().map(Into::into).collect();
    let pushed = room.store.push(&jobs).await?;
    Ok(Json(wire::PushAnswer { pushed: pushed.into_iter().map(Into::into).collect() }))
}

async fn job(
    State(room): State<Room>,
    Head(Path((tenant, id))): Head<Path<(Name, JobId)>>,
) -> Result<Json<wire::JobView>, Problem> {
    match room.store.job(&tenant, &id).await? {
        Some(view) => Ok(Json(view.into())),
        None => Err(Problem::new(Code::JobUnknown, format!("job {id} is not known to tenant `{tenant}`"))),
    }
}

async fn cancel(
    State(room): State<Room>,
    Head(Path(tenant)): Head<Path<Name>>,
    Document(wire::Ids { ids }): Document<wire::Ids>,
) -> Result<Json<wire::CancelAnswer>, Problem> {
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
