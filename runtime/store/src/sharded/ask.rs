//! Asking several shards: those of one tenant, or each for its part of a batch.

use std::borrow::Cow;
use std::sync::Arc;

use super::shard::Shard;
use super::store::ShardedStore;
use crate::StoreError;
use crate::composite::{Asking, CompositeStore, Scope, StoreAnswer, add, ask_by_store};
use gristmill_core::job::Name;

impl CompositeStore for ShardedStore {
    type Store = Arc<Shard>;

    /// One after the other, in the order in which jobs move: none is missed on its way, and one may be seen twice, or changed in both
    /// shards.
    async fn ask<A, F: Future<Output = Result<A, StoreError>>>(
        &self,
        how: Asking,
        scope: &impl Scope,
        ask: impl Fn(Arc<Shard>) -> F,
    ) -> Result<Vec<A>, StoreError> {
        let tenant = scope.tenant();
        let lock = (how == Asking::Change).then(|| self.change_lock(tenant));
        let _shared = match &lock {
            Some(lock) => Some(lock.read().await),
            None => None,
        };
        let map = self.map();
        let shards = if how == Asking::News { map.of(tenant) } else { map.placed(tenant)?.0 };
        let mut answers = Vec::new();
        for shard in shards.old_first() {
            let is_required = match how {
                Asking::Answer | Asking::Change => shards.requires(shard),
                Asking::All => true,
                Asking::News => false,
            };
            match ask(Arc::clone(shard)).await {
                Err(error) if error.is_unavailable() && !is_required => {}
                answer => answers.push(answer?),
            }
        }
        Ok(answers)
    }

    async fn current(&self, scope: &impl Scope) -> Result<Arc<Shard>, StoreError> {
        Ok(Arc::clone(self.map().placed(scope.tenant())?.1))
    }
}

impl ShardedStore {
    /// Asks each shard for its part of what a runner repeats, those that tenants have left first.
    pub(super) async fn ask_shards<'a, T: Clone, A, F: Future<Output = Result<A, StoreError>>>(
        &self,
        items: &'a [T],
        tenant_of: impl Fn(&T) -> &Name,
        ask: impl Fn(Arc<Shard>, Cow<'a, [T]>) -> F,
    ) -> Vec<StoreAnswer<Arc<Shard>, A>> {
        let (map, mut parts) = (self.map(), Vec::new());
        for round in (0..self.shards().len()).rev() {
            let choose = |_, item: &T| map.of(tenant_of(item)).nth(round).cloned();
            parts.extend(ask_by_store(items, choose, &ask).await);
        }
        parts
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
            let parts = ask_by_store(items, choose, &ask).await;
            if parts.is_empty() {
                break;
            }
            for part in parts {
                let mut asked = part.positions.iter().filter_map(|position| items.get(*position));
                let is_required = asked.any(|item| map.of(tenant_of(item)).requires(&part.store));
                match part.answer {
                    Err(error) if error.is_unavailable() && !is_required => {}
                    answer => add(&mut answers, part.positions, answer?, |slot, answer| *slot = answer),
                }
            }
        }
        Ok(answers)
    }
}
