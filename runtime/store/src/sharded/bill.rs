//! Bills are written where the tenant is placed, and read wherever it has been.

use std::slice;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::store::ShardedStore;
use crate::{BillEntries, BillEntry, StoreError};

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
