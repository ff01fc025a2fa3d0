//! Where tenants live, where this store is home to several.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use redis::pipe;

use super::keys::{mover, placements};
use super::partitions::RedisStore;
use super::script::{Call, script};
use crate::clock::wait_ms;
use crate::{Placement, PlacementRegistry, StoreError};
use gristmill_core::job::{Name, WorkerId};

const READ: &str = "read where tenants live";

#[async_trait]
impl PlacementRegistry for RedisStore {
    async fn placements(&self) -> Result<BTreeMap<Name, Placement>, StoreError> {
        let mut ask = pipe();
        ask.cmd("HGETALL").arg(placements(&self.server.prefix));
        let (found,): (HashMap<String, String>,) = self.server.link.query(READ, &ask).await?;
        let read = |(tenant, stored): (String, String)| {
            let record = stored.split_once(' ').map_or(&*stored, |(_, record)| record);
            let record = serde_json::from_str(record).map_err(|error| self.server.refused(READ, error))?;
            Ok((
                tenant.parse().map_err(|error: gristmill_core::job::BadName| self.server.refused(READ, error))?,
                record,
            ))
        };
        found.into_iter().map(read).collect()
    }

    async fn write_placement(&self, tenant: &Name, placement: &Placement) -> Result<bool, StoreError> {
        const DOING: &str = "write where a tenant lives";
        let record = serde_json::to_string(placement).map_err(|error| self.server.refused(DOING, error))?;
        let mut call = Call::new(script!("set_placement.lua"), &[placements(&self.server.prefix)]);
        call.arg(tenant.as_str()).arg(placement.generation).arg(record);
        self.server.is_one(DOING, call).await
    }

    async fn lock_move(&self, tenant: &Name, driver: &WorkerId, lease: Duration) -> Result<bool, StoreError> {
        let mut call = Call::new(script!("lock_move.lua"), &[mover(&self.server.prefix, tenant)]);
        call.arg(driver.as_str()).arg(wait_ms(lease));
        self.server.is_one("say who moves a tenant", call).await
    }
}
