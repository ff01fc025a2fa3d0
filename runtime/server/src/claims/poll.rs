//! One poll of the topics of a claim, in a task of its own: the client may be gone before the store has answered.

use std::sync::Arc;
use std::time::Duration;

use super::ClaimRequest;
use super::guard::{Claimed, give_back_lost};
use super::worker::worker;
use crate::problem::{Code, Problem};
use crate::state::AppState;
use gristmill_core::admission::before_attempt;
use gristmill_core::job::{Claim, Name, TopicId, WorkerId};
use gristmill_core::topic::{FleetLimits, Topic};
use gristmill_runner::decide;
use gristmill_runner::handlers::{HandlerRegistry, TopicHandler};
use gristmill_store::{ClaimFrom, Settlement, Store, StoreError, Weigh, before_start};

/// Bytes of bodies after which an answer is full. A first job that is larger is the only one of its answer.
const ANSWER_BYTES: usize = 16 << 20;
/// Jobs in the first call of a poll; how many more fit is known when their size is.
const FIRST: usize = 32;

/// Claims what is there now. Dropped, it gives back what was claimed.
///
/// # Errors
/// [`Code::NotExternal`], and what the store answers if there is no job yet.
pub(super) async fn poll(state: &AppState, request: &Arc<ClaimRequest>) -> Result<Claimed, Problem> {
    let topics = asked_topics(state, request)?;
    state.tenants.note(&request.tenant);
    let permit = state.claims.permit_to_ask(request.share_of.as_ref()).await;
    let store = state.store.clone();
    let number = fastrand::u64(..);
    let claimed = Claimed::new(store.clone());
    let limits = FleetLimits { tenant: state.topics().limits(&request.tenant).fleet, ..FleetLimits::NONE };
    let registry = state.topics();
    let poll =
        ClaimPoll { claimed, bytes: 0, store, registry, request: Arc::clone(request), limits, number, refused: None };
    let polling = tokio::spawn(async move {
        let _permit = permit;
        poll.run(&topics).await
    });
    let claimed = polling.await.map_err(|fault| Problem::new(Code::Other, format!("the claim failed: {fault}")))?;
    Ok(claimed?)
}

/// A topic that a claim names, and what is known of it here.
type AskedTopic = (TopicId, Option<Arc<TopicHandler>>);

fn asked_topics(state: &AppState, request: &ClaimRequest) -> Result<Vec<AskedTopic>, Problem> {
    let known = state.topics();
    let of = |id: &TopicId| {
        let entry = known.get(id);
        if !entry.map_or(request.unknown_topics, |entry| entry.topic.external) {
            let problem = format!("topic `{id}` is not for pull workers: say `handler = \"external\"` in its section");
            return Err(Problem::new(Code::NotExternal, problem));
        }
        Ok((id.clone(), entry.cloned()))
    };
    request.topics.iter().map(of).collect()
}

/// A poll that is being carried out.
struct ClaimPoll {
    store: Arc<dyn Store>,
    registry: Arc<HandlerRegistry>,
    request: Arc<ClaimRequest>,
    /// Of topics that nothing makes.
    limits: FleetLimits,
    /// Distinguishes the workers of this poll from all others.
    number: u64,
    claimed: Claimed,
    /// Of the bodies of what was claimed.
    bytes: usize,
    /// Why one of the topics was refused.
    refused: Option<StoreError>,
}

impl ClaimPoll {
    async fn run(mut self, topics: &[AskedTopic]) -> Result<Claimed, StoreError> {
        let failed = self.claim_all(topics).await.err();
        if let Some(error) = failed.or(self.refused.take()) {
            if self.claimed.is_empty() {
                return Err(error);
            }
            tracing::error!("failed to claim more jobs: {:#}", anyhow::Error::from(error));
        }
        self.claimed.keep_first(self.fitting());
        Ok(self.claimed)
    }

    async fn claim_all(&mut self, topics: &[AskedTopic]) -> Result<(), StoreError> {
        for (topic, entry) in topics {
            while self.claimed.claims.len() < self.request.max && self.bytes < ANSWER_BYTES {
                match self.claim_some(topic, entry.as_ref().map(|entry| &entry.topic)).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        self.give_back_lost(&topic.topic);
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Claims some jobs of a topic and settles those that [may not be attempted](before_attempt). Returns whether the topic
    /// may have more.
    async fn claim_some(&mut self, id: &TopicId, topic: Option<&Topic>) -> Result<bool, StoreError> {
        let from = ClaimFrom::new(id.clone(), self.next_count(), self.request.lease);
        let from = match topic {
            Some(topic) => from.by_manifest(topic),
            None => from.within(self.limits),
        };
        let claimed = self.store.claim(&self.worker(&id.topic), &[from]).await?;
        let (mut admitted, mut refused) = (Vec::new(), Vec::new());
        let may_learn = |of: &Name| self.registry.may_learn(id, of);
        for mut claim in claimed.claims {
            let start = match before_attempt(&claim, topic) {
                None => before_start(&*self.store, &claim, &may_learn).await,
                Some(outcome) => Err(outcome),
            };
            match start {
                Ok(job) => {
                    claim.job = job.unwrap_or(claim.job);
                    admitted.push(claim);
                }
                Err(outcome) => refused.push(decide(&claim, topic, outcome, Vec::new())),
            }
        }
        self.bytes += admitted.iter().map(Weigh::weight).sum::<usize>();
        self.claimed.add(admitted, topic.map_or(Duration::ZERO, |topic| topic.result_retention));
        self.settle_refused(&refused).await;
        let may_be_more = claimed.drained.is_empty() && claimed.refused.is_empty();
        // A damaged topic stops no other.
        self.refused = self.refused.take().or(claimed.refused.into_iter().next().map(|(_, error)| error));
        Ok(may_be_more)
    }

    async fn settle_refused(&self, refused: &[Settlement]) {
        if refused.is_empty() {
            return;
        }
        if let Err(error) = self.store.settle(refused).await {
            let error = anyhow::Error::from(error);
            tracing::error!("failed to settle jobs that no worker may have, their leases bring them back: {error:#}");
        }
    }

    /// How many jobs to claim next: by the mean size of those so far, as many as will fit.
    fn next_count(&self) -> usize {
        let (count, remaining) = (self.claimed.claims.len(), ANSWER_BYTES.saturating_sub(self.bytes));
        let fit = self.bytes.checked_div(count).map_or(FIRST, |mean| remaining / mean.max(1));
        (self.request.max - count).min(fit.max(1))
    }

    /// How many of the claimed jobs fit into an answer.
    fn fitting(&self) -> usize {
        let mut bytes = 0;
        let is_too_much = |claim: &Claim| {
            bytes += claim.weight();
            bytes > ANSWER_BYTES
        };
        let fitting = self.claimed.claims.iter().position(is_too_much).unwrap_or(self.claimed.claims.len());
        fitting.max(1)
    }

    fn worker(&self, topic: &Name) -> WorkerId {
        worker(&self.request.client, self.number, topic)
    }

    /// The claim of the topic that failed may have had its effect.
    fn give_back_lost(&self, topic: &Name) {
        let known = self.claimed.claims.iter().map(|claim| claim.lease.job.clone()).collect();
        let (tenant, worker) = (self.request.tenant.clone(), self.worker(topic));
        tokio::spawn(give_back_lost(self.store.clone(), tenant, worker, known));
    }
}
