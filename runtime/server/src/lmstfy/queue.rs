//! Peek at a queue or a job, count jobs, destroy a queue.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::api::Api;
use super::description::JobDescription;
use super::refusal::Refusal;
use super::request::RequestContext;
use crate::claims;
use gristmill_core::job::{Job, JobId, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_core::token::Scope;
use gristmill_store::{JobState, JobView, StateFilter, Store, StoreError};

/// Jobs in one page, and pages of jobs whose time is over that a peek skips.
const PAGE: usize = 20;
const PAGES: usize = 50;
/// Jobs that are destroyed in one call.
const AT_ONCE: usize = 500;

/// How many jobs of a queue are ready, and how many dead.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sizes {
    pub(super) ready: u64,
    pub(super) dead: u64,
}

pub(super) async fn sizes(store: &Arc<dyn Store>, topic: &TopicId) -> Result<Sizes, StoreError> {
    let counts = store.counts(&topic.tenant).await?;
    let counts = counts.into_iter().find(|counts| counts.topic == *topic);
    Ok(counts.map_or_else(Sizes::default, |counts| Sizes { ready: counts.ready, dead: counts.dead }))
}

pub(super) async fn size(State(api): State<Api>, context: RequestContext) -> Result<Json<Value>, Refusal> {
    context.client.may(Scope::Read)?;
    let Sizes { ready, .. } = sizes(&api.state.store, &context.queue.topic).await?;
    Ok(Json(json!({ "namespace": context.namespace, "queue": context.queue.name, "size": ready })))
}

/// The next job to be consumed.
pub(super) async fn peek(State(api): State<Api>, context: RequestContext) -> Result<Json<Value>, Refusal> {
    context.client.may(Scope::Read)?;
    let (mut cursor, now) = (None, Timestamp::now());
    for _ in 0..PAGES {
        let page = api.state.store.jobs(&context.queue.topic, StateFilter::Ready, cursor.as_ref(), PAGE).await?;
        for view in page.jobs {
            if let JobView { job: Some(job), attempts, .. } = view
                && !is_over(&job, now)
            {
                return describe(&api, &context, &job, attempts, now);
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Err(Refusal::not_found("the queue is empty"))
}

/// A job of the queue, wherever it is.
pub(super) async fn peek_job(State(api): State<Api>, context: RequestContext) -> Result<Json<Value>, Refusal> {
    const UNKNOWN: Refusal = Refusal::not_found("job not found");
    context.client.may(Scope::Read)?;
    let Ok(id) = context.job.parse::<JobId>() else { return Err(UNKNOWN) };
    let now = Timestamp::now();
    match api.state.store.job(&context.queue.topic.tenant, &id).await? {
        Some(JobView { job: Some(job), attempts, state, .. })
            // The time to live of a dead job does not count.
            if job.spec.topic == context.queue.topic && (matches!(state, JobState::Dead { .. }) || !is_over(&job, now)) =>
        {
            describe(&api, &context, &job, attempts, now)
        }
        _ => Err(UNKNOWN),
    }
}

/// Deletes the ready jobs. Delayed and running jobs stay and come back, as in lmstfy.
pub(super) async fn destroy(State(api): State<Api>, context: RequestContext) -> Result<StatusCode, Refusal> {
    context.client.may(Scope::Admin)?;
    let (store, topic) = (&api.state.store, &context.queue.topic);
    // No more than there were at the beginning: producers may go on meanwhile.
    let mut left = sizes(store, topic).await?.ready;
    while left > 0 {
        let page = store.jobs(topic, StateFilter::Ready, None, AT_ONCE).await?;
        let ids: Vec<JobId> = page.jobs.into_iter().map(|view| view.id).collect();
        if ids.is_empty() {
            break;
        }
        store.cancel(&topic.tenant, &ids).await?;
        left = left.saturating_sub(ids.len() as u64);
    }
    Ok(StatusCode::NO_CONTENT)
}

fn is_over(job: &Job, now: Timestamp) -> bool {
    job.expires_at().is_some_and(|end| now > end)
}

fn describe(
    api: &Api,
    context: &RequestContext,
    job: &Job,
    attempts: u32,
    now: Timestamp,
) -> Result<Json<Value>, Refusal> {
    let left = claims::attempts_max(job, &api.state.topics()).saturating_sub(attempts);
    let description = JobDescription::new(&context.namespace, &context.queue.name, job, left, now);
    serde_json::to_value(description).map(Json).map_err(Refusal::internal)
}
