//! Dead letters: their number and the oldest one; respawn and delete, the oldest first.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::api::Api;
use super::queue::counts;
use super::refusal::Refusal;
use super::request::RequestContext;
use gristmill_core::job::{JobId, TopicId};
use gristmill_core::token::Scope;
use gristmill_store::{JobAction, StoreError};

/// Jobs that one call of the store changes.
const AT_ONCE: usize = 20;
/// After this long the server changes no more jobs. The answer has the number of those that it changed.
const PATIENCE: Duration = Duration::from_secs(15);
/// lmstfy's default, seconds.
const TTL: i64 = 86_400;

pub(super) async fn size(State(api): State<Api>, context: RequestContext) -> Result<Json<Value>, Refusal> {
    context.client.may(Scope::Read)?;
    let size = dead(&api, &context.queue.topic).await?;
    Ok(Json(json!({ "namespace": context.namespace, "queue": context.queue.name, "size": size })))
}

pub(super) async fn peek(State(api): State<Api>, context: RequestContext) -> Result<Json<Value>, Refusal> {
    context.client.may(Scope::Read)?;
    let topic = &context.queue.topic;
    let (dead, oldest) = (dead(&api, topic).await?, api.state.store.oldest_dead(topic, 1).await?);
    let head = oldest.first().map_or("", |(_, id)| id.as_str());
    let (namespace, queue) = (&context.namespace, &context.queue.name);
    Ok(Json(json!({ "namespace": namespace, "queue": queue, "deadletter_size": dead, "deadletter_head": head })))
}

pub(super) async fn respawn(State(api): State<Api>, context: RequestContext) -> Result<Json<Value>, Refusal> {
    context.client.may_all_of_lmstfy()?;
    let limit = limit(&context)?;
    let ttl: i64 = context.query.number("ttl", TTL, "invalid ttl")?;
    if ttl < 0 {
        return Err(Refusal::bad("invalid ttl"));
    }
    let count = change(&api, &context.queue.topic, JobAction::Respawn, limit).await?;
    Ok(Json(json!({ "msg": "respawned", "count": count })))
}

pub(super) async fn delete(State(api): State<Api>, context: RequestContext) -> Result<StatusCode, Refusal> {
    context.client.may_all_of_lmstfy()?;
    change(&api, &context.queue.topic, JobAction::Delete, limit(&context)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn limit(context: &RequestContext) -> Result<u64, Refusal> {
    let limit: i64 = context.query.number("limit", 1, "invalid limit")?;
    u64::try_from(limit).ok().filter(|limit| *limit > 0).ok_or(Refusal::bad("invalid limit"))
}

/// How many jobs of a topic are dead.
async fn dead(api: &Api, topic: &TopicId) -> Result<u64, StoreError> {
    Ok(counts(api, topic).await?.map_or(0, |counts| counts.dead))
}

/// Changes at most `limit` jobs. Returns how many.
async fn change(api: &Api, topic: &TopicId, action: JobAction, limit: u64) -> Result<u64, Refusal> {
    let (begun, mut changed) = (Instant::now(), 0);
    while changed < limit && begun.elapsed() < PATIENCE {
        let some = usize::try_from(limit - changed).unwrap_or(usize::MAX).min(AT_ONCE);
        let oldest = api.state.store.oldest_dead(topic, some).await?;
        let ids: Vec<JobId> = oldest.into_iter().map(|(_, id)| id).collect();
        let refusals = action.act(&*api.state.store, topic, &ids).await?;
        let moved = refusals.iter().filter(|refusal| refusal.is_none()).count() as u64;
        // No dead job remains, or none can be respawned because other jobs hold their unique values.
        if moved == 0 {
            break;
        }
        changed += moved;
    }
    Ok(changed)
}
