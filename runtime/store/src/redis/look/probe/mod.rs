//! Whether the store takes jobs, by what a push uses; leaves nothing behind.

use anyhow::anyhow;
use async_trait::async_trait;
use redis::pipe;

use crate::redis::connection::wrong_type::problem;
use crate::redis::key_names;
use crate::redis::partitions::RedisStore;
use crate::redis::script::{Call, script};
use crate::{Probe, StoreError};
use gristmill_core::job::Name;

const DOING: &str = "push jobs";

/// How many tenants, and how many topics of each, are looked at in search of one that takes jobs.
const TENANTS: usize = 10;
const TOPICS: usize = 5;

#[async_trait]
impl Probe for RedisStore {
    /// Costs the server about fifty commands. It refuses them for whatever it refuses a push: without memory, with a disk that takes no
    /// snapshot, as a replica, without a command that scripts need, or because of keys that another program has written.
    async fn probe(&self) -> Result<(), StoreError> {
        let call = Call::new(script!("look/probe/probe.lua"), &[key_names::probe(&self.server.prefix)]);
        self.server.link.run(DOING, vec![call]).await?;
        self.check_type(key_names::of_all_tenants(&self.server.prefix)).await?;
        let mut ask = pipe();
        ask.cmd("SSCAN").arg(key_names::tenants_key(&self.server.prefix)).arg(0).arg("COUNT").arg(TENANTS);
        let ((_, tenants),): ((String, Vec<String>),) = self.server.link.query(DOING, &ask).await?;
        let tenants = tenants.iter().filter_map(|tenant| tenant.parse().ok()).take(TENANTS);
        let mut refused = Ok(());
        for tenant in tenants {
            match self.probe_tenant(&tenant).await {
                // What one tenant has is enough to be ready.
                Ok(()) => return Ok(()),
                Err(error) if error.is_unavailable() => return Err(error),
                error => refused = refused.and(error),
            }
        }
        refused
    }
}

impl RedisStore {
    /// # Errors
    /// The tenant takes no jobs, or none of its topics does.
    async fn probe_tenant(&self, tenant: &Name) -> Result<(), StoreError> {
        let keys = self.first().keys(tenant);
        self.check_type(keys.waiting()).await?;
        let mut ask = pipe();
        ask.cmd("ZRANGE").arg(keys.topics()).arg(0).arg(TOPICS - 1);
        let (topics,): (Vec<String>,) = self.server.link.query(DOING, &ask).await?;
        let mut refused = Ok(());
        for topic in topics.iter().filter_map(|topic| topic.parse().ok()) {
            match self.check_type(keys.row(&topic).into()).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_unavailable() => return Err(error),
                error => refused = refused.and(error),
            }
        }
        refused
    }

    /// # Errors
    /// One of the keys is there, and of another type than it must be.
    async fn check_type(&self, keys: Vec<String>) -> Result<(), StoreError> {
        let prefix = &*self.server.prefix;
        let mut ask = pipe();
        for key in &keys {
            ask.cmd("TYPE").arg(key);
        }
        let found: Vec<String> = self.server.link.query(DOING, &ask).await?;
        for (key, found) in keys.iter().zip(found) {
            if let Some(problem) = problem(prefix, key, &found) {
                return Err(self.server.refused(DOING, anyhow!(problem)));
            }
        }
        Ok(())
    }
}
