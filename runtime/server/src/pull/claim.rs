//! Claims, which may wait for jobs: listen, look, wait.

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use super::claim_guard::{ClaimGuard, Taken};
use super::take::{Wish, take};
use super::{LONGEST_WAIT, body, lease};
use crate::auth::allowed::{Allowed, scope};
use crate::extract::Document;
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use crate::stream::signal_hub::Listener;
use crate::wire::{self, BATCH};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::topic::RetryPolicy;
use gristmill_store::Signal;

/// The most topics in one claim.
const TOPICS: usize = 64;

/// How often whoever is in front looks without having been called, in case a signal was lost.
const TICK: Duration = Duration::from_secs(10);

/// Routes that wait: the turns and the time of other requests are not for them.
pub(crate) fn waiting_routes() -> Routes {
    Routes::new().post("/tenants/{tenant}/topics/{topic}/claim", claim).post("/tenants/{tenant}/claim", claim_of)
}

async fn claim(
    Allowed { over: topic, .. }: Allowed<scope::Work, TopicId>,
    State(state): State<AppState>,
    Document(asked): Document<wire::Claim>,
) -> Result<Response, Problem> {
    let wire::Claim { max, lease_ms, wait_ms, worker } = asked;
    let (tenant, topics) = (topic.tenant, vec![topic.topic]);
    serve(state, tenant, wire::ClaimOf { topics, max, lease_ms, wait_ms, worker }).await
}

async fn claim_of(
    Allowed { over: tenant, .. }: Allowed<scope::Work, Name>,
    State(state): State<AppState>,
    Document(asked): Document<wire::ClaimOf>,
) -> Result<Response, Problem> {
    serve(state, tenant, asked).await
}

async fn serve(state: AppState, tenant: Name, asked: wire::ClaimOf) -> Result<Response, Problem> {
    let wait = Duration::from_millis(asked.wait_ms);
    let wish = check(&tenant, asked)?;
    let mut held = take(&state, &wish).await?;
    if held.is_empty() && !wait.is_zero() {
        held = wait_for(&state, &tenant, &wish, Instant::now() + wait).await?.unwrap_or(held);
    }
    tell(&state, held)
}

fn check(tenant: &Name, asked: wire::ClaimOf) -> Result<Wish, Problem> {
    let wrong = |problem: String| Err(Problem::new(Code::BadRequest, problem));
    let wire::ClaimOf { topics, max, lease_ms, wait_ms, worker } = asked;
    if !(1..=BATCH).contains(&max) {
        return wrong(format!("`max` is {max}: it may be 1 to {BATCH}"));
    }
    if wait_ms > LONGEST_WAIT.as_millis() as u64 {
        return wrong(format!("`wait_ms` is {wait_ms}: it may be 0 to {}", LONGEST_WAIT.as_millis()));
    }
    if !(1..=TOPICS).contains(&topics.len()) {
        return wrong(format!("{} topics: a claim names 1 to {TOPICS}", topics.len()));
    }
    let topics = topics.into_iter().map(|topic| TopicId { tenant: tenant.clone(), topic }).collect();
    Ok(Wish { topics, max, lease: lease(lease_ms)?, worker })
}

/// Waits for jobs until `deadline`, or until the server ends: then none. Dropped, it has taken nothing.
async fn wait_for(
    state: &AppState,
    tenant: &Name,
    wish: &Wish,
    deadline: Instant,
) -> Result<Option<ClaimGuard>, Problem> {
    let _admitted = state.pull.admit()?;
    // So that the subscription lasts while one after the other comes to the front.
    let _ear = state.signal_hub.listen(tenant).await?;
    let line = state.pull.line(&wish.topics);
    let waiting = async {
        let _front = line.lock().await;
        let mut ear = state.signal_hub.listen(tenant).await?;
        loop {
            let held = take(state, wish).await?;
            if !held.is_empty() {
                return Ok(Some(held));
            }
            tokio::select! {
                () = hear(&mut ear, &wish.topics) => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
    };
    tokio::select! {
        held = waiting => held,
        () = tokio::time::sleep_until(deadline) => Ok(None),
        () = state.stop.cancelled() => Ok(None),
    }
}

/// Until one of the topics may have jobs.
async fn hear(ear: &mut Listener, topics: &[TopicId]) {
    loop {
        match ear.next().await {
            Signal::Lost => return,
            Signal::Ready(topic) if topics.contains(&topic) => return,
            _ => {}
        }
    }
}

fn tell(state: &AppState, held: ClaimGuard) -> Result<Response, Problem> {
    let registry = state.topics();
    let default_policy = RetryPolicy::default();
    let claims = held.jobs().iter().map(|Taken { claim, .. }| {
        let policy = registry.get(&claim.lease.topic).map_or(&default_policy, |entry| &entry.topic.retry);
        wire::Claimed {
            lease: super::lease::write(claim),
            lease_until_ms: claim.lease_until,
            claimed_at_ms: claim.claimed_at,
            attempt: claim.attempt,
            attempts_max: claim.job.spec.max_attempts.unwrap_or(policy.attempts),
            previous: claim.previous,
            checkpoint: claim.checkpoint.clone().map(wire::Base64),
            job: wire::Job::from(&*claim.job),
        }
    });
    let claims = wire::Claims { claims: claims.collect() };
    if held.is_empty() {
        return Ok(axum::Json(claims).into_response());
    }
    let unwritable = |error| Problem::new(Code::Other, format!("the claims cannot be written: {error}"));
    Ok(body::answer(serde_json::to_vec(&claims).map_err(unwritable)?, held))
}
