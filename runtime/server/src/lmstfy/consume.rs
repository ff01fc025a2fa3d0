//! Consume: claims of lmstfy's clients.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use tokio::time::Instant;

use super::api::Api;
use super::description::JobDescription;
use super::refusal::Refusal;
use super::request::QueuesContext;
use super::throttle::Action;
use crate::claims::{self, ClaimRequest, LONGEST_LEASE};
use gristmill_core::job::Claim;
use gristmill_core::token::Scope;

/// lmstfy's default lease, in seconds.
const TTR: u32 = 120;
/// The most jobs in one request.
const COUNT: u32 = 100;
/// The longest that a consume waits for a job. A client that wants to wait for longer asks again.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// The most queues in one request.
const QUEUES: usize = 128;

pub(super) async fn consume(State(api): State<Api>, context: QueuesContext) -> Result<Response, Refusal> {
    context.client.may(Scope::Work)?;
    let counted = api.throttles.count(context.client.throttles(), Action::Consume, Instant::now())?;
    let (request, count) = request(&context)?;
    let (tenant, lease) = (&context.tenant, request.lease);
    let claimed = context.client.while_valid(&api, claims::claim(&api.state, request)).await??;
    if claimed.is_empty() {
        return Err(Refusal::NoJob);
    }
    for Claim { lease, .. } in &claimed.claims {
        api.holders.note(tenant, &lease.job, lease.delivery, context.client.name());
    }
    api.state.tenants.note_lease(tenant, lease);
    counted.succeed();
    let jobs: Vec<_> = claimed.claims.iter().map(|claim| describe(&api, &context, claim)).collect();
    let document = match jobs.as_slice() {
        [only] if count == 1 => serde_json::to_vec(only),
        all => serde_json::to_vec(all),
    };
    let document = document.map_err(Refusal::internal)?;
    Ok(claimed.answer(document, "application/json; charset=utf-8", context.client.delivery_tracker))
}

/// What to claim, and how many jobs the client asked for.
fn request(context: &QueuesContext) -> Result<(ClaimRequest, u32), Refusal> {
    let ttr: u32 = context.query.number("ttr", TTR, "invalid ttr")?;
    let timeout: u32 = context.query.number("timeout", 0, "invalid timeout")?;
    let count: u32 = context.query.number("count", 1, "invalid count")?;
    if !(1..=COUNT).contains(&count) {
        return Err(Refusal::bad("invalid count"));
    }
    if context.queues.is_empty() {
        return Err(Refusal::bad("invalid queue name(s)"));
    }
    if context.queues.len() > QUEUES {
        return Err(Refusal::bad("too many queues, cannot exceed 128"));
    }
    let request = ClaimRequest {
        tenant: context.tenant.clone(),
        topics: context.queues.iter().map(|queue| queue.topic.clone()).collect(),
        max: count as usize,
        lease: Duration::from_secs(ttr.into()).min(LONGEST_LEASE),
        wait: Duration::from_secs(timeout.into()).min(LONGEST_WAIT),
        client: context.client.name().to_owned(),
        share_of: context.client.tenant().cloned(),
        unknown_topics: true,
    };
    Ok((request, count))
}

fn describe<'a>(api: &Api, context: &'a QueuesContext, claim: &'a Claim) -> JobDescription<'a> {
    let topic = &claim.job.spec.topic;
    let queue = context.queues.iter().find(|queue| queue.topic == *topic);
    let queue = queue.map_or(topic.topic.as_str(), |queue| &queue.name);
    let remaining = claims::attempts_max(&claim.job, &api.state.topics()).saturating_sub(claim.attempt);
    JobDescription::new(&context.namespace, queue, &claim.job, remaining, claim.claimed_at).consumed()
}
