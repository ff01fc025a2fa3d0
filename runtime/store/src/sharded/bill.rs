//! Bills of tenants: written where the tenant is placed, and read wherever it has been.

use std::ops::RangeInclusive;
use std::slice;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::store::ShardedStore;
use crate::bill::joined;
use crate::{BillEntries, BillEntry, Bills, StoreError};
use gristmill_core::bill::{BillLine, Day};
use gristmill_core::job::Name;

#[async_trait]
impl Bills for ShardedStore {
    /// Unlike other questions, this one leaves out no shard that the tenant has left: a part of a bill is no bill.
    async fn bill(&self, tenant: &Name, days: &RangeInclusive<Day>) -> Result<Vec<BillLine>, StoreError> {
        let (map, mut lines) = (self.map(), Vec::new());
        for shard in map.placed(tenant)?.0.old_first() {
            lines.extend(shard.bill(tenant, days).await?);
        }
        Ok(joined(lines))
    }
}

#[async_trait]
impl BillEntries for ShardedStore {
    async fn add_to_bills(&self, entries: &[BillEntry]) -> Result<Vec<Result<Option<u64>, StoreError>>, StoreError> {
        let map = self.map();
        let adding = entries.iter().map(|entry| async {
            let added = map.placed(&entry.tenant)?.1.add_to_bills(slice::from_ref(entry)).await?;
            added.into_iter().next().unwrap_or(Ok(None))
        });
        Ok(join_all(adding).await)
    }
}
