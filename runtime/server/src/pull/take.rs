//! Claiming for a worker, in a task of its own: whoever asked may be gone before the store has answered.

use std::sync::Arc;
use std::time::Duration;

use super::claim_guard::{ClaimGuard, Taken, give_back_lost};
use super::lease::worker;
use crate::problem::{Code, Problem};
use crate::state::AppState;
use gristmill_core::job::{Name, TopicId, WorkerId};
use gristmill_core::outcome::Verdict;
use gristmill_core::topic::Topic;
use gristmill_store::{ClaimFrom, Settlement, Store, StoreError};

/// Bytes of bodies after which an answer is full. A first job that is larger is an answer by itself.
const ANSWER_BYTES: usize = 16 << 20;

/// Jobs in the first call of a claim; how many more fit is known when their size is.
const FIRST: usize = 32;

/// What a worker asks for.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    /// Of one tenant, the first ones first.
    pub(super) topics: Vec<TopicId>,
    pub(super) max: usize,
    pub(super) lease: Duration,
    pub(super) worker: Option<Name>,
}

/// Takes what is there now. Dropped half-way, what was taken goes back.
///
/// # Errors
/// [`Code::NotExternal`], and whatever the store says.
pub(super) async fn take(state: &AppState, wish: &Wish) -> Result<ClaimGuard, Problem> {
    let topics = external(state, &wish.topics)?;
    let (turn, store) = (state.pull.turn().await, state.store.clone());
    let Wish { max, lease, .. } = *wish;
    let worker = worker(wish.worker.as_ref());
    let taking = tokio::spawn(async move {
        let _turn = turn;
        let taking = Taking { held: ClaimGuard::new(store.clone()), bytes: 0, store, worker, lease };
        taking.run(&topics, max).await
    });
    let taken = taking.await.map_err(|fault| Problem::new(Code::Other, format!("the claim failed: {fault}")))?;
    Ok(taken?)
}

/// The topics with how long each keeps results, if pull workers do their jobs.
fn external(state: &AppState, topics: &[TopicId]) -> Result<Vec<(TopicId, Duration)>, Problem> {
    let registry = state.topics();
    let of = |id: &TopicId| {
        let entry = registry.get(id).filter(|entry| entry.topic.external);
        let Topic { result_retention, .. } = entry.map(|entry| &entry.topic).ok_or_else(|| {
            let problem = format!("topic `{id}` is not for pull workers: say `handler = \"external\"` in its section");
            Problem::new(Code::NotExternal, problem)
        })?;
        Ok((id.clone(), *result_retention))
    };
    topics.iter().map(of).collect()
}

/// A claim that is being carried out.
struct Taking {
    store: Arc<dyn Store>,
    worker: WorkerId,
    lease: Duration,
    held: ClaimGuard,
    /// Of the bodies of what is held.
    bytes: usize,
}

impl Taking {
    async fn run(mut self, topics: &[(TopicId, Duration)], max: usize) -> Result<ClaimGuard, StoreError> {
        for (topic, retention) in topics {
            while self.held.jobs().len() < max && self.bytes < ANSWER_BYTES {
                let some = self.next(max);
                match self.take_some(topic, *retention, some).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        tokio::spawn(give_back_lost(self.store.clone(), topic.tenant.clone(), self.worker.clone()));
                        // What an earlier call brought is in there, too.
                        self.held.hand_over();
                        return Err(error);
                    }
                }
            }
        }
        let mut bytes = 0;
        let fits = self.held.jobs().iter().position(|Taken { claim, .. }| {
            bytes += claim.job.spec.body.data.len();
            bytes > ANSWER_BYTES
        });
        if let Some(first_too_many) = fits {
            self.held.keep_first(first_too_many.max(1));
        }
        Ok(self.held)
    }

    /// How many jobs to take next: by the mean size of those so far, as many as will fit.
    fn next(&self, max: usize) -> usize {
        let (count, left) = (self.held.jobs().len(), ANSWER_BYTES.saturating_sub(self.bytes));
        let fit = self.bytes.checked_div(count).map_or(FIRST, |mean| left / mean.max(1));
        (max - count).min(fit.max(1))
    }

    /// Takes at most `max` jobs of a topic. False: the topic has no more.
    async fn take_some(&mut self, topic: &TopicId, retention: Duration, max: usize) -> Result<bool, StoreError> {
        let from = ClaimFrom { topic: topic.clone(), max, lease: self.lease };
        let claimed = self.store.claim(&self.worker, &[from]).await?;
        let (expired, good): (Vec<_>, Vec<_>) = claimed
            .claims
            .into_iter()
            .partition(|claim| claim.job.expires_at().is_some_and(|end| claim.claimed_at > end));
        self.bytes += good.iter().map(|claim| claim.job.spec.body.data.len()).sum::<usize>();
        self.held.add(good.into_iter().map(|claim| Taken { claim, retention }));
        if !expired.is_empty() {
            let expire = |claim| Settlement::of(claim, Verdict::Expire, retention);
            self.store.settle(&expired.iter().map(expire).collect::<Vec<_>>()).await?;
        }
        Ok(claimed.drained.is_empty())
    }
}
