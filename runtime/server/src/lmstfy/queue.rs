//! Peek at a queue or a job, count jobs, destroy a queue.

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
use gristmill_store::{JobState, JobView, StateFilter, StoreError, TopicCounts};

/// Jobs in one page, and the most pages of expired jobs that a peek skips.
const PAGE: usize = 20;
const PAGES: usize = 50;
/// Jobs that one call of the store deletes.
const AT_ONCE: usize = 500;

/// How many jobs of a topic are where; `None` if the store knows no such topic.
pub(super) async fn counts(api: &Api, topic: &TopicId) -> Result<Option<TopicCounts>, StoreError> {
    let counts = api.state.store.counts(&topic.tenant).await?;
    Ok(counts.into_iter().find(|counts| counts.topic == *topic))
}

/// How many jobs of a topic are ready.
async fn ready(api: &Api, topic: &TopicId) -> Result<u64, StoreError> {
    Ok(counts(api, topic).await?.map_or(0, |counts| counts.ready))
}

pub(super) async fn size(State(api): State<Api>, context: RequestContext) -> Result<Json<Value>, Refusal> {
    context.client.may(Scope::Read)?;
    let size = ready(&api, &context.queue.topic).await?;
    Ok(Json(json!({ "namespace": context.namespace, "queue": context.queue.name, "size": size })))
}

/// The next job to be consumed.
pub(super) async fn peek(State(api): State<Api>, context: RequestContext) -> Result<Json<Value>, Refusal> {
    context.client.may(Scope::Read)?;
    context.client.may_see_payloads(&api, &context.queue.topic.tenant)?;
    let (mut cursor, now) = (None, Timestamp::now());
    for _ in 0..PAGES {
        let page = api.state.store.jobs(&context.queue.topic, StateFilter::Ready, cursor.as_ref(), PAGE).await?;
        for view in page.jobs {
            if let JobView { job: Some(job), attempts, .. } = view
                && !has_expired(&job, now)
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
    context.client.may_see_payloads(&api, &context.queue.topic.tenant)?;
    let Ok(id) = context.job.parse::<JobId>() else { return Err(UNKNOWN) };
    let now = Timestamp::now();
    match api.state.store.job(&context.queue.topic.tenant, &id).await? {
        Some(JobView { job: Some(job), attempts, state, .. })
            // A dead job does not expire.
            if job.spec.topic == context.queue.topic && (matches!(state, JobState::Dead { .. }) || !has_expired(&job, now)) =>
        {
            describe(&api, &context, &job, attempts, now)
        }
        _ => Err(UNKNOWN),
    }
}

/// Deletes the ready jobs. Delayed and running jobs stay and come back, as in lmstfy.
pub(super) async fn destroy(State(api): State<Api>, context: RequestContext) -> Result<StatusCode, Refusal> {
    context.client.may_all_of_lmstfy()?;
    let (store, topic) = (&api.state.store, &context.queue.topic);
    // At most as many as there were at the beginning, because producers may go on.
    let mut remaining = ready(&api, topic).await?;
    while remaining > 0 {
        let page = store.jobs(topic, StateFilter::Ready, None, AT_ONCE).await?;
        let ids: Vec<JobId> = page.jobs.into_iter().map(|view| view.id).collect();
        if ids.is_empty() {
            break;
        }
        store.cancel(&topic.tenant, &ids).await?;
        remaining = remaining.saturating_sub(ids.len() as u64);
    }
    Ok(StatusCode::NO_CONTENT)
}

fn has_expired(job: &Job, now: Timestamp) -> bool {
    job.expires_at().is_some_and(|end| now > end)
}

fn describe(
    api: &Api,
    context: &RequestContext,
    job: &Job,
    attempts: u32,
    now: Timestamp,
) -> Result<Json<Value>, Refusal> {
    let remaining = claims::attempts_max(job, &api.state.topics()).saturating_sub(attempts);
    let description = JobDescription::new(&context.namespace, &context.queue.name, job, remaining, now);
    serde_json::to_value(description).map(Json).map_err(Refusal::internal)
}
