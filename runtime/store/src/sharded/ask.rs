//! Asking several shards: those of one tenant, or each for its part of a batch.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::join_all;

use super::shard::Shard;
use super::store::ShardedStore;
use crate::StoreError;
use gristmill_core::job::Name;

/// What a shard answered to its part of a batch.
pub(super) struct Part<A> {
    pub(super) shard: Arc<Shard>,
    /// The positions in the batch of what the shard was asked.
    pub(super) positions: Vec<usize>,
    pub(super) answer: Result<A, StoreError>,
}

/// Sends each item to the shard that `choose` names for it and its position, all shards at once. Items for which it names
/// none are left out.
pub(super) async fn ask_by_shard<'a, T: Clone, A, F: Future<Output = Result<A, StoreError>>>(
    items: &'a [T],
    choose: impl Fn(usize, &T) -> Option<Arc<Shard>>,
    ask: impl Fn(Arc<Shard>, Cow<'a, [T]>) -> F,
) -> Vec<Part<A>> {
    let mut groups: Vec<(Arc<Shard>, Vec<usize>)> = Vec::new();
    for (position, item) in items.iter().enumerate() {
        let Some(shard) = choose(position, item) else { continue };
        match groups.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &shard)) {
            Some((_, positions)) => positions.push(position),
            None => groups.push((shard, vec![position])),
        }
    }
    let ask = &ask;
    join_all(groups.into_iter().map(|(shard, positions)| async move {
        let part = if positions.len() == items.len() {
            Cow::Borrowed(items)
        } else {
            positions.iter().filter_map(|position| items.get(*position)).cloned().collect()
        };
        let answer = ask(Arc::clone(&shard), part).await;
        Part { shard, positions, answer }
    }))
    .await
}

impl<A> Part<Vec<A>> {
    /// Puts one answer for each position into `answers`.
    pub(super) fn put_into(self, answers: &mut [A]) -> Result<(), StoreError> {
        for (position, answer) in self.positions.into_iter().zip(self.answer?) {
            if let Some(slot) = answers.get_mut(position) {
                *slot = answer;
            }
        }
        Ok(())
    }
}

impl ShardedStore {
    /// Asks the tenant's shards one after the other, in the order in which jobs move: none is missed on its way, and one may
    /// be seen twice. A shard that the tenant left earlier is left out while it is unavailable.
    pub(super) async fn ask_each<A, F: Future<Output = Result<A, StoreError>>>(
        &self,
        tenant: &Name,
        ask: impl Fn(Arc<Shard>) -> F,
    ) -> Result<Vec<(Arc<Shard>, A)>, StoreError> {
        let map = self.map();
        let (shards, _) = map.placed(tenant)?;
        let mut answers = Vec::new();
        for shard in shards.old_first() {
            match ask(Arc::clone(shard)).await {
                Err(error) if error.is_unavailable() && !shards.requires(shard) => {}
                answer => answers.push((Arc::clone(shard), answer?)),
            }
        }
        Ok(answers)
    }

    /// The same for what a runner repeats: every shard is left out while it is unavailable.
    pub(super) async fn ask_available<A, F: Future<Output = Result<A, StoreError>>>(
        &self,
        tenant: &Name,
        ask: impl Fn(Arc<Shard>) -> F,
    ) -> Result<Vec<(Arc<Shard>, A)>, StoreError> {
        let mut answers = Vec::new();
        for shard in self.map().of(tenant).old_first() {
            answers.extend(if_available(ask(Arc::clone(shard)).await)?.map(|answer| (Arc::clone(shard), answer)));
        }
        Ok(answers)
    }

    /// Asks about each item in its tenant's current shard, then in those that the tenant left, until one answers otherwise
    /// than `unknown`.
    pub(super) async fn ask_until_known<'a, T: Clone, A: Clone + PartialEq, F>(
        &self,
        items: &'a [T],
        tenant_of: impl Fn(&T) -> &Name,
        unknown: A,
        ask: impl Fn(Arc<Shard>, Cow<'a, [T]>) -> F,
    ) -> Result<Vec<A>, StoreError>
    where
        F: Future<Output = Result<Vec<A>, StoreError>>,
    {
        let map = self.map();
        let mut answers = vec![unknown.clone(); items.len()];
        for round in 0..self.shards().len() {
            let choose = |position: usize, item: &T| {
                let is_open = answers.get(position) == Some(&unknown);
                map.of(tenant_of(item)).nth(round).filter(|_| is_open).cloned()
            };
            let parts = ask_by_shard(items, choose, &ask).await;
            if parts.is_empty() {
                break;
            }
            for part in parts {
                let mut asked = part.positions.iter().filter_map(|position| items.get(*position));
                let is_required = asked.any(|item| map.of(tenant_of(item)).requires(&part.shard));
                match part.put_into(&mut answers) {
                    Err(error) if error.is_unavailable() && !is_required => {}
                    put => put?,
                }
            }
        }
        Ok(answers)
    }
}

/// Returns `None` if the store is unavailable.
pub(super) fn if_available<A>(answer: Result<A, StoreError>) -> Result<Option<A>, StoreError> {
    match answer {
        Err(error) if error.is_unavailable() => Ok(None),
        answer => answer.map(Some),
    }
}
