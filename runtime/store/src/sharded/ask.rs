//! Asking several shards: those of one tenant, or each for its part of a batch.

use std::borrow::Cow;
use std::sync::Arc;

use super::shard::Shard;
use super::store::ShardedStore;
use crate::StoreError;
use crate::parts::{ask_by_store, if_available};
use gristmill_core::job::Name;

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
            let parts = ask_by_store(items, choose, &ask).await;
            if parts.is_empty() {
                break;
            }
            for part in parts {
                let mut asked = part.positions.iter().filter_map(|position| items.get(*position));
                let is_required = asked.any(|item| map.of(tenant_of(item)).requires(&part.store));
                match part.put_into(&mut answers) {
                    Err(error) if error.is_unavailable() && !is_required => {}
                    put => put?,
                }
            }
        }
        Ok(answers)
    }
}
