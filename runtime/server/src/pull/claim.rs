//! Claims of pull workers.

use std::time::Duration;

use axum::{Extension, Json};

use super::{LONGEST_WAIT, lease, lease_length};
use crate::auth::allowed::{Allowed, scope};
use crate::auth::identity::Identity;
use crate::claims::{self, ClaimRequest};
use crate::extract::Document;
use crate::limits::requests::NoPermit;
use crate::openapi::Described;
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::serve::DeliveryTracker;
use crate::state::AppState;
use crate::wire::{self, BATCH, TOPICS};
use gristmill_core::job::{Claim, Name, TopicId};
use gristmill_core::trace::TraceContext;
use gristmill_runner::Traces;
use gristmill_runner::handlers::HandlerRegistry;

type Claimed = Described<Json<wire::Claims<'static>>>;

/// Routes that wait for jobs, and hold nothing meanwhile: the time of other requests is not for them.
pub(crate) fn waiting_routes() -> Routes {
    Routes::of("workers")
        .post("/tenants/{tenant}/topics/{topic}/claim", claim_topic, "Claim a topic's jobs")
        .description("Only of a topic with `handler = \"external\"`.")
        .problems(&[Code::NotExternal, Code::Busy])
        .post("/tenants/{tenant}/claim", claim_topics, "Claim jobs of several topics")
        .description(
            "All of them are topics with `handler = \"external\"`. Jobs of those that are named first come first.",
        )
        .problems(&[Code::NotExternal, Code::Busy])
}

async fn claim_topic(
    Allowed { over: TopicId { tenant, topic }, identity, state, .. }: Allowed<scope::Work, TopicId>,
    Extension(tracker): Extension<DeliveryTracker>,
    _: NoPermit,
    Document(asked): Document<wire::Claim>,
) -> Result<Claimed, Problem> {
    if asked.topics.is_some() {
        return Err(Problem::new(Code::BadRequest, "`topics`: the path names the topic already"));
    }
    claim(&state, request(&identity, tenant, vec![topic], &asked)?, tracker).await
}

async fn claim_topics(
    Allowed { over: tenant, identity, state, .. }: Allowed<scope::Work, Name>,
    Extension(tracker): Extension<DeliveryTracker>,
    _: NoPermit,
    Document(mut asked): Document<wire::Claim>,
) -> Result<Claimed, Problem> {
    let topics = asked.topics.take().unwrap_or_default();
    claim(&state, request(&identity, tenant, topics, &asked)?, tracker).await
}

fn request(identity: &Identity, tenant: Name, topics: Vec<Name>, asked: &wire::Claim) -> Result<ClaimRequest, Problem> {
    let wrong = |problem: String| Err(Problem::new(Code::BadRequest, problem));
    let &wire::Claim { max, lease_ms, wait_ms, ref worker, .. } = asked;
    let wait = Duration::from_millis(wait_ms);
    if !(1..=BATCH).contains(&max) {
        return wrong(format!("`max` is {max}: it may be 1 to {BATCH}"));
    }
    if wait > LONGEST_WAIT {
        return wrong(format!("`wait_ms` is {wait_ms}: it may be 0 to {}", LONGEST_WAIT.as_millis()));
    }
    if !(1..=TOPICS).contains(&topics.len()) {
        return wrong(format!("{} topics: a claim names 1 to {TOPICS}", topics.len()));
    }
    let client = worker.as_ref().map_or("worker", Name::as_str).to_owned();
    let topics = topics.into_iter().map(|topic| TopicId { tenant: tenant.clone(), topic }).collect();
    let (lease, share_of) = (lease_length(lease_ms)?, identity.tenant().cloned());
    Ok(ClaimRequest { tenant, topics, max, lease, wait, client, share_of, unknown_topics: false })
}

async fn claim(state: &AppState, request: ClaimRequest, tracker: DeliveryTracker) -> Result<Claimed, Problem> {
    let claimed = claims::claim(state, request).await?;
    let topics = state.topics();
    let claims = claimed.claims.iter().map(|claim| describe(claim, &topics, state.traces.as_ref())).collect();
    let unwritable = |error| Problem::new(Code::Other, format!("failed to write the claims: {error}"));
    let document = serde_json::to_vec(&wire::Claims { claims }).map_err(unwritable)?;
    Ok(claimed.answer(document, "application/json", tracker).into())
}

fn describe<'a>(claim: &'a Claim, topics: &HandlerRegistry, traces: Option<&Traces>) -> wire::Claimed<'a> {
    let context = match traces {
        Some(traces) => Some(traces.receive(claim)),
        None => TraceContext::of_creation(&claim.job.spec),
    };
    wire::Claimed {
        lease: lease::write(claim),
        lease_until_ms: claim.lease_until,
        claimed_at_ms: claim.claimed_at,
        attempt: claim.attempt,
        attempts_max: claims::attempts_max(&claim.job, topics),
        previous: claim.previous,
        checkpoint: claim.checkpoint.clone().map(wire::Base64),
        traceparent: context.map(|context| context.to_string()),
        job: &claim.job,
    }
}
