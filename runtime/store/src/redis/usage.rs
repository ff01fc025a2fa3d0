//! About how many bytes a tenant has in Redis.

use std::collections::BTreeSet;

use async_trait::async_trait;
use redis::pipe;

use super::store::RedisStore;
use crate::{StoreError, Usage};
use gristmill_core::job::Name;

const DOING: &str = "count bytes";

/// How many entries of a key Redis looks at, to estimate the size of the others.
const SAMPLES: usize = 1000;

#[async_trait]
impl Usage for RedisStore {
    async fn stored_bytes(&self, tenant: &Name) -> Result<u64, StoreError> {
        let keys = self.keys(tenant);
        let mut ask = pipe();
        ask.cmd("ZRANGE").arg(keys.topics()).arg(0).arg(-1).cmd("SMEMBERS").arg(keys.perishable());
        // A topic that was forgotten may have unique values that are held for a time.
        let (used, perishable): (Vec<String>, Vec<String>) = self.link.query(DOING, &ask).await?;
        let topics: BTreeSet<Name> = used.iter().chain(&perishable).filter_map(|name| name.parse().ok()).collect();
        let sized = [keys.jobs(), keys.failures(), keys.checkpoints()];
        let mut ask = pipe();
        for key in sized.into_iter().chain(topics.iter().map(|topic| keys.unique(topic))) {
            ask.cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(SAMPLES);
        }
        let sizes: Vec<Option<u64>> = self.link.query(DOING, &ask).await?;
        Ok(sizes.into_iter().flatten().sum())
    }
}
