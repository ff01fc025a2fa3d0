//! Looking for damage: in one shard after the other.

use async_trait::async_trait;

use super::store::ShardedStore;
use crate::{Fsck, FsckReport, StoreError};

#[async_trait]
impl Fsck for ShardedStore {
    async fn fsck(&self) -> Result<FsckReport, StoreError> {
        let mut report = FsckReport::default();
        for shard in self.shards() {
            report.add(shard.fsck().await?);
        }
        Ok(report)
    }
}
