//! Push jobs and cancel some, as the commands do.

use axum::Json;
use axum::extract::State;

use crate::admission::{self, Admitted};
use crate::auth::allowed::{Allowed, AllowedDocument, scope};
use crate::extract::Document;
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use crate::wire::{self, BATCH};
use gristmill_core::job::Name;

/// A job's body is at most 64 MiB, which is 86 in base64; what else belongs to the job fits into the rest.
pub(crate) const PUSH_BYTES: usize = 96 << 20;

pub(crate) fn routes() -> Routes {
    Routes::of("commands")
        .post("/jobs", push, "Push jobs as the commands do")
        .problems(&[Code::TopicUnknown, Code::TooManyJobs, Code::TooManyBytes, Code::TooManyTopics, Code::Unconfirmed])
        .body_bytes(PUSH_BYTES)
        .merge(Routes::of("jobs").post("/tenants/{tenant}/cancel", cancel, "Cancel many jobs"))
}

async fn push(
    AllowedDocument { document: push, state, .. }: AllowedDocument<scope::Push, wire::Push>,
) -> Result<Json<wire::PushAnswer>, Problem> {
    within_batch(push.jobs.len())?;
    let Admitted { jobs, warnings } = state.admit(push.jobs, admission::listed).await?;
    Ok(Json(wire::PushAnswer { pushed: state.store.push(&jobs).await?, warnings }))
}

async fn cancel(
    Allowed { over: tenant, .. }: Allowed<scope::Admin, Name>,
    State(state): State<AppState>,
    Document(wire::Ids { ids }): Document<wire::Ids>,
) -> Result<Json<wire::CancelAnswer>, Problem> {
    within_batch(ids.len())?;
    Ok(Json(wire::CancelAnswer { cancelled: state.store.cancel(&tenant, &ids).await? }))
}

pub(crate) fn within_batch(count: usize) -> Result<(), Problem> {
    if count <= BATCH {
        return Ok(());
    }
    Err(Problem::new(Code::TooLarge, format!("{count} in one request; at most {BATCH} are allowed")))
}
