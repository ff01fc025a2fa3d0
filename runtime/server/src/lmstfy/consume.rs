//! Consume: claims for a client, at once or when there is something, and takes back what it does not get.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::api::Api;
use super::names::Queue;
use super::refusal::Refusal;
use super::request::QueuesContext;
use super::throttle::Action;
use super::told::ToldJob;
use crate::lmstfy::claim_guard::ClaimGuard;
use gristmill_core::job::{Claim, Name, WorkerId};
use gristmill_core::outcome::Verdict;
use gristmill_core::token::Scope;
use gristmill_store::{ClaimFrom, Settlement, StoreError};

/// lmstfy's defaults, and its most; seconds and jobs.
const TTR: u32 = 120;
const COUNT: u32 = 100;
/// Queues in one request.
const QUEUES: usize = 128;
/// Jobs in one claim, and bytes of bodies after which no more are claimed: an array may be short.
const AT_ONCE: usize = 20;
const BYTES: usize = 16 << 20;

/// What somebody wants.
#[derive(Debug)]
struct Order {
    worker: WorkerId,
    tenant: Name,
    /// The first ones come first, strictly.
    queues: Vec<Queue>,
    count: usize,
    lease: Duration,
}

/// What was claimed, and what undoes it.
struct Taken {
    claims: Vec<Claim>,
    handover: ClaimGuard,
}

pub(super) async fn consume(State(api): State<Api>, asked: QueuesContext) -> Result<Response, Refusal> {
    let QueuesContext { tenant, queues, query, client, namespace } = asked;
    client.may(Scope::Work)?;
    let counted = api.throttles().count(client.throttle(), Action::Consume, Instant::now())?;
    let ttr: u32 = query.number("ttr", TTR, "invalid ttr")?;
    let timeout: u32 = query.number("timeout", 0, "invalid timeout")?;
    let count: u32 = query.number("count", 1, "invalid count")?;
    if !(1..=COUNT).contains(&count) {
        return Err(Refusal::bad("invalid count"));
    }
    if queues.is_empty() {
        return Err(Refusal::bad("invalid queue name(s)"));
    }
    if queues.len() > QUEUES {
        return Err(Refusal::bad("too many queues, cannot exceed 128"));
    }
    let (worker, lease) = (client.worker().clone(), Duration::from_secs(ttr.into()));
    let order = Arc::new(Order { worker, tenant, queues, count: count as usize, lease });
    let Taken { claims, handover } = order.take(&api, Duration::from_secs(timeout.into())).await?;
    counted.succeed();
    let told = order.tell(&api, &namespace, &claims)?;
    let mut response = Response::new(handover.with(told, client.delivery_tracker));
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}

impl Order {
    /// Claims now, or within `timeout` as soon as there is something. Cancel-safe: what was claimed goes back.
    async fn take(self: &Arc<Self>, api: &Api, timeout: Duration) -> Result<Taken, Refusal> {
        api.state.tenants.note(&self.tenant);
        let deadline = Instant::now() + timeout;
        if let Some(taken) = self.look(api).await? {
            return Ok(taken);
        }
        if timeout.is_zero() {
            return Err(Refusal::NoJob);
        }
        let topics = self.queues.iter().map(|queue| queue.topic.clone()).collect();
        let mut place = api.lines().join(&self.tenant, topics).await?;
        loop {
            place.look();
            if let Some(taken) = self.look(api).await? {
                place.served = true;
                return Ok(taken);
            }
            tokio::select! {
                () = place.woken() => {}
                () = tokio::time::sleep_until(deadline) => return Err(Refusal::NoJob),
                () = api.state.stop.cancelled() => return Err(Refusal::NoJob),
            }
            api.state.tenants.note(&self.tenant);
        }
    }

    /// One look at every queue. The claim goes on when nobody waits for it any more, and is undone then.
    async fn look(self: &Arc<Self>, api: &Api) -> Result<Option<Taken>, Refusal> {
        let (tell, told) = oneshot::channel();
        let (order, api) = (Arc::clone(self), api.clone());
        tokio::spawn(async move { drop(tell.send(order.claim(&api).await)) });
        told.await.map_err(|_| Refusal::Internal)?
    }

    async fn claim(&self, api: &Api) -> Result<Option<Taken>, Refusal> {
        // Nobody closes it.
        let _turn = api.claims().acquire().await;
        let (mut claims, mut bytes) = (Vec::new(), 0);
        for queue in &self.queues {
            loop {
                let state = (self.count - claims.len()).min(AT_ONCE);
                if state == 0 || bytes >= BYTES {
                    return Ok(self.taken(api, claims));
                }
                let (live, drained) = match self.claim_from(api, queue, state).await {
                    Ok(claimed) => claimed,
                    // What there is already is not lost for it.
                    Err(error) if !claims.is_empty() => {
                        tracing::error!("failed to claim more: {:#}", anyhow::Error::from(error));
                        return Ok(self.taken(api, claims));
                    }
                    Err(error) => return Err(error.into()),
                };
                bytes += live.iter().map(|claim| claim.job.spec.body.data.len()).sum::<usize>();
                claims.extend(live);
                if drained {
                    break;
                }
            }
        }
        Ok(self.taken(api, claims))
    }

    /// Jobs whose time to live is not over, and whether the queue is empty now. The others are expired, and counted.
    async fn claim_from(&self, api: &Api, queue: &Queue, max: usize) -> Result<(Vec<Claim>, bool), StoreError> {
        let from = ClaimFrom { topic: queue.topic.clone(), max, lease: self.lease };
        let claimed = api.state.store.claim(&self.worker, &[from]).await?;
        let is_over = |claim: &Claim| claim.job.expires_at().is_some_and(|end| claim.claimed_at > end);
        let (over, live): (Vec<_>, Vec<_>) = claimed.claims.into_iter().partition(is_over);
        if !over.is_empty() {
            let retention = api.retention(&queue.topic);
            let expired: Vec<_> = over.iter().map(|claim| Settlement::of(claim, Verdict::Expire, retention)).collect();
            if let Err(error) = api.state.store.settle(&expired).await {
                tracing::error!("failed to expire jobs, they come back: {:#}", anyhow::Error::from(error));
            }
        }
        Ok((live, !claimed.drained.is_empty()))
    }

    fn taken(&self, api: &Api, claims: Vec<Claim>) -> Option<Taken> {
        if claims.is_empty() {
            return None;
        }
        for Claim { lease, .. } in &claims {
            api.holders().note(&self.tenant, &lease.job, lease.delivery, &self.worker);
        }
        api.state.tenants.note_lease(&self.tenant, self.lease);
        let release = |claim: &Claim| {
            let Claim { lease, .. } = claim;
            Settlement::of(claim, Verdict::Release(Duration::ZERO), api.retention(&lease.topic))
        };
        let handover = ClaimGuard::new(Arc::clone(&api.state.store), claims.iter().map(release).collect());
        Some(Taken { claims, handover })
    }

    /// One job as it is, several as an array.
    fn tell(&self, api: &Api, namespace: &str, claims: &[Claim]) -> Result<Vec<u8>, Refusal> {
        let told = match claims {
            [only] if self.count == 1 => serde_json::to_vec(&self.tell_one(api, namespace, only)),
            all => {
                let all: Vec<_> = all.iter().map(|claim| self.tell_one(api, namespace, claim)).collect();
                serde_json::to_vec(&all)
            }
        };
        told.map_err(|error| {
            tracing::error!(%error, "failed to write jobs as JSON");
            Refusal::Internal
        })
    }
    fn tell_one<'a>(&'a self, api: &Api, namespace: &'a str, claim: &'a Claim) -> ToldJob<'a> {
        let Claim { job, attempt, claimed_at, .. } = claim;
        let topic = &job.spec.topic;
        let queue = self.queues.iter().find(|queue| queue.topic == *topic);
        let queue = queue.map_or(topic.topic.as_str(), |queue| &queue.name);
        let tries = job.spec.max_attempts.unwrap_or_else(|| api.attempts(topic));
        ToldJob::new(namespace, queue, job, tries.saturating_sub(*attempt), *claimed_at).consumed()
    }
}
