//! Claims from every shard that has ready jobs of a topic.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;

use super::shard::Shard;
use super::store::ShardedStore;
use crate::composite::{StoreAnswer, ask_by_store};
use crate::{ClaimFrom, Claimed, Claims, StoreError};
use gristmill_core::job::{Claim, TopicId, WorkerId};

#[async_trait]
impl Claims for ShardedStore {
    /// Claims the backlog in the shards that tenants have left, then, with what is left of each `max`, from the current ones.
    /// From a shard that is unavailable or refuses nothing is claimed: its topics count as drained, until a poll or a signal
    /// names them again.
    async fn claim(&self, worker: &WorkerId, from: &[ClaimFrom]) -> Result<Claimed, StoreError> {
        let map = self.map();
        let mut wanted = from.to_vec();
        let mut claimed = Claimed::default();
        for round in (0..self.shards().len()).rev() {
            let choose = |_, line: &ClaimFrom| {
                let shard = map.of(&line.topic.tenant).nth(round).filter(|_| line.max > 0);
                shard.filter(|shard| round == 0 || shard.has_backlog(&line.topic)).cloned()
            };
            for part in
                ask_by_store(&wanted, choose, |shard, lines| async move { shard.claim(worker, &lines).await }).await
            {
                let asked = part.positions.clone();
                let (shard, answer) = claimed_part(part, &wanted);
                shard.lost_claims.fetch_max(answer.shard_returns, Ordering::Relaxed);
                if round > 0 {
                    let refused = answer.refused.iter().map(|(topic, _)| topic);
                    let done: HashSet<&TopicId> = answer.drained.iter().chain(refused).collect();
                    done.iter().for_each(|topic| shard.clear_backlog(topic));
                    subtract(&mut wanted, &answer.claims);
                    // Where jobs were left for their size, newer ones in the next shard wait behind them.
                    for position in asked {
                        if let Some(line) = wanted.get_mut(position).filter(|line| !done.contains(&line.topic)) {
                            line.max = 0;
                        }
                    }
                } else {
                    claimed.drained.extend(answer.drained);
                }
                claimed.claims.extend(answer.claims);
                claimed.strays += answer.strays;
                claimed.refused.extend(answer.refused);
            }
        }
        let unplaced = from.iter().map(|line| &line.topic).filter(|topic| map.of(&topic.tenant).current().is_none());
        claimed.drained.extend(unplaced.cloned());
        claimed.drained.retain(|topic| !map.of(&topic.tenant).departed().any(|shard| shard.has_backlog(topic)));
        let lost_within = self.shards().iter().map(|shard| shard.lost_claims.load(Ordering::Relaxed)).sum::<u64>();
        claimed.shard_returns = *self.0.returns.borrow() + lost_within;
        Ok(claimed)
    }
}

impl ShardedStore {
    /// Notes topics that have ready jobs in a shard, if it is not their tenant's current one: a claim also asks there.
    pub(super) fn note_ready<'a>(&self, shard: &Shard, topics: impl IntoIterator<Item = &'a TopicId>) {
        let map = self.map();
        let backlog = topics.into_iter().filter(|topic| !map.of(&topic.tenant).is_current(shard));
        backlog.for_each(|topic| shard.note_backlog(topic));
    }
}

/// What a shard answered to its lines of a claim; all of them count as drained if it did not.
fn claimed_part(part: StoreAnswer<Arc<Shard>, Claimed>, lines: &[ClaimFrom]) -> (Arc<Shard>, Claimed) {
    let StoreAnswer { store: shard, positions, answer } = part;
    let answer = answer.unwrap_or_else(|error| {
        if !error.is_unavailable() {
            tracing::error!(store = %shard.name, "failed to claim: {:#}", anyhow::Error::from(error));
        }
        let asked = positions.iter().filter_map(|position| lines.get(*position));
        Claimed { drained: asked.map(|line| line.topic.clone()).collect(), ..Claimed::default() }
    });
    (shard, answer)
}

/// Takes what was claimed off what is still wanted.
fn subtract(wanted: &mut [ClaimFrom], claims: &[Claim]) {
    for claim in claims {
        if let Some(line) = wanted.iter_mut().find(|line| line.max > 0 && line.topic == claim.lease.topic) {
            line.max -= 1;
        }
    }
}
