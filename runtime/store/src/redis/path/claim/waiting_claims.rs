//! Claims that wait for what this process makes ready: single jobs that it pushes, and what it moves.

use std::sync::Arc;

use super::behind::{Behind, Go};
use crate::batch::CLAIM_BYTES;
use crate::redis::partitions::RedisStore;
use crate::redis::store::Partition;
use crate::{ClaimFrom, Claimed, StoreError, WaitToClaim, WaitingClaim};
use gristmill_core::job::{TopicId, WorkerId};

impl WaitToClaim for RedisStore {
    fn wait_to_claim(&self, worker: &WorkerId, from: &[ClaimFrom]) -> Option<WaitingClaim> {
        let (go, behind) = tokio::sync::oneshot::channel();
        let partition = self.first();
        let claims = Arc::clone(&partition.waiting_claims);
        let number = claims.add(from, go);
        let (worker, from) = (worker.clone(), from.to_vec());
        let answer = async move {
            // The sender is gone: nothing is ready.
            let Ok(behind) = behind.await else { return Ok(Claimed::default()) };
            partition.claim_behind(&worker, from, behind).await
        };
        Some(WaitingClaim::new(answer, move || claims.take_back(number)))
    }
}

impl Partition {
    /// The claim that waits for one of these topics, and those of them that it is for.
    pub(in crate::redis) fn waiting_claim(&self, topics: &[TopicId]) -> Option<(Vec<TopicId>, Go)> {
        let (waits_for, go) = topics.iter().find_map(|topic| self.waiting_claims.take(topic))?;
        Some((topics.iter().filter(|topic| waits_for.contains(topic)).cloned().collect(), go))
    }

    /// Claims what a script makes ready; that script wakes no runner for it. Where the claim got nothing of a topic, it was perhaps carried out first, because
    /// the connection was new or the server did not know the script yet: then once more.
    async fn claim_behind(
        &self,
        worker: &WorkerId,
        mut from: Vec<ClaimFrom>,
        Behind { topics, answered }: Behind,
    ) -> Result<Claimed, StoreError> {
        from.retain(|line| topics.contains(&line.topic));
        let mut claimed = self.claim(worker, &from, CLAIM_BYTES).await?;
        from.retain(|line| claimed.claims.iter().all(|claim| claim.lease.topic != line.topic));
        if from.is_empty() {
            return Ok(claimed);
        }
        answered.await.ok();
        let again = match self.claim(worker, &from, CLAIM_BYTES).await {
            Err(_) if !claimed.claims.is_empty() => return Ok(claimed),
            again => again?,
        };
        claimed.drained.retain(|topic| again.drained.contains(topic) || from.iter().all(|line| line.topic != *topic));
        claimed.claims.extend(again.claims);
        claimed.refused = again.refused;
        Ok(claimed)
    }
}
