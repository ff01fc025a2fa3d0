//! Push jobs, and cancel or change some, as the commands do.

use std::ops::RangeInclusive;

use axum::Json;

use crate::api::push::{context, keep_context};
use crate::auth::allowed::{Allowed, AllowedDocument, scope};
use crate::extract::Document;
use crate::new_jobs::{Admitted, JobLabel};
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::wire::{self, BATCH};
use gristmill_core::admission::check_due;
use gristmill_core::job::{JobChange, Name};

/// A job's body is at most 64 MiB, which is 86 in base64; what else belongs to the job fits into the rest.
pub(crate) const PUSH_BYTES: usize = 96 << 20;

pub(crate) fn routes() -> Routes {
    Routes::of("commands")
        .post("/jobs", push, "Push jobs as the commands do")
        .problems(&[Code::TopicUnknown, Code::TooManyJobs, Code::TooManyBytes, Code::TooManyTopics, Code::Unconfirmed])
        .body_bytes(PUSH_BYTES)
        .merge(Routes::of("jobs").post("/tenants/{tenant}/cancel", cancel, "Cancel many jobs").post(
            "/tenants/{tenant}/change",
            change,
            "Change when many jobs are due, or their priority",
        ))
}

async fn push(
    AllowedDocument { document: push, state, traceparent, .. }: AllowedDocument<scope::Push, wire::Push>,
) -> Result<Json<wire::PushAnswer>, Problem> {
    let wire::Push { mut jobs } = push;
    keep_context(&mut jobs, context(&state, traceparent.as_ref()).as_ref());
    // A command names a job that it pushes alone.
    let label = if jobs.len() == 1 { JobLabel::Alone } else { JobLabel::Listed };
    let Admitted { jobs, warnings } = state.admit(jobs, &label).await?;
    Ok(Json(wire::PushAnswer { pushed: state.store.push(&jobs).await?, warnings }))
}

async fn cancel(
    Allowed { over: tenant, state, .. }: Allowed<scope::Admin, Name>,
    Document(wire::Cancel { ids, kill }): Document<wire::Cancel>,
) -> Result<Json<wire::CancelAnswer>, Problem> {
    let store = &state.store;
    let cancelled = if kill { store.kill(&tenant, &ids).await? } else { store.cancel(&tenant, &ids).await? };
    Ok(Json(wire::CancelAnswer { cancelled }))
}

async fn change(
    Allowed { over: tenant, state, .. }: Allowed<scope::Admin, Name>,
    Document(wire::ChangeJobs { ids, due, priority }): Document<wire::ChangeJobs>,
) -> Result<Json<wire::ChangeAnswer>, Problem> {
    let change = checked(JobChange { due, priority })?;
    Ok(Json(wire::ChangeAnswer { changed: state.store.change(&tenant, &ids, &change).await? }))
}

/// A change that changes something, to a time that a job may have.
pub(crate) fn checked(change: JobChange) -> Result<JobChange, Problem> {
    if change == JobChange::default() {
        return Err(Problem::new(Code::BadRequest, "nothing is to change: name `due`, `priority` or both"));
    }
    change.due.map_or(Ok(()), check_due)?;
    Ok(change)
}

/// `limit`: how many entries a page may have.
pub(crate) fn within_page(limit: usize) -> Result<(), Problem> {
    if limit == 0 {
        return Err(Problem::new(Code::BadRequest, format!("`limit`: a page has 1 to {BATCH} entries, not 0")));
    }
    within_batch("limit", limit)
}

/// `what`: the name of a number in the request.
pub(crate) fn in_range(what: &str, number: usize, range: RangeInclusive<usize>) -> Result<(), Problem> {
    if range.contains(&number) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    let code = if number > most { Code::TooLarge } else { Code::BadRequest };
    Err(Problem::new(code, format!("`{what}` is {number}: it may be {least} to {most}")))
}

/// `what`: the name of what the request asks so many of by.
pub(crate) fn within_batch(what: &str, count: usize) -> Result<(), Problem> {
    if count <= BATCH {
        return Ok(());
    }
    Err(Problem::new(Code::TooLarge, format!("`{what}`: {count} in one request; at most {BATCH} are allowed")))
}
