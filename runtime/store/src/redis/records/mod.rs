//! Records of the installation, each written over the one of the generation before: where tenants live, where this store is home to
//! several, and which versions of handlers do topics' jobs.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use redis::pipe;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::key_names::{deployments, mover, placements, runners_channel};
use super::partitions::RedisStore;
use super::script::{Call, script};
use crate::clock::wait_ms;
use crate::{Deployments, Placement, PlacementRegistry, StoreError};
use gristmill_core::deployment::Deployment;
use gristmill_core::job::{Name, TopicId, WorkerId};

#[async_trait]
impl PlacementRegistry for RedisStore {
    async fn placements(&self) -> Result<BTreeMap<Name, Placement>, StoreError> {
        self.records("read where tenants live", placements(&self.server.prefix)).await
    }

    async fn write_placement(&self, tenant: &Name, placement: &Placement) -> Result<bool, StoreError> {
        let (key, of) = (placements(&self.server.prefix), tenant.as_str());
        self.write_record("write where a tenant lives", key, of, placement.generation, placement, "").await
    }

    async fn lock_move(&self, tenant: &Name, driver: &WorkerId, lease: Duration) -> Result<bool, StoreError> {
        let mut call = Call::new(script!("records/lock_move.lua"), &[mover(&self.server.prefix, tenant)]);
        call.arg(driver.as_str()).arg(wait_ms(lease));
        self.server.is_one("say who moves a tenant", call).await
    }
}

#[async_trait]
impl Deployments for RedisStore {
    async fn deployments(&self) -> Result<BTreeMap<TopicId, Deployment>, StoreError> {
        self.records("read which versions serve", deployments(&self.server.prefix)).await
    }

    async fn write_deployment(&self, topic: &TopicId, deployment: &Deployment) -> Result<bool, StoreError> {
        let (key, of) = (deployments(&self.server.prefix), topic.to_string());
        let news = format!("deployed {} {}", topic.tenant, topic.topic);
        self.write_record("write which versions serve", key, &of, deployment.generation, deployment, &news).await
    }
}

impl RedisStore {
    async fn records<K, R>(&self, doing: &'static str, key: String) -> Result<BTreeMap<K, R>, StoreError>
    where
        K: FromStr<Err: Error + Send + Sync + 'static> + Ord,
        R: DeserializeOwned,
    {
        let mut ask = pipe();
        ask.cmd("HGETALL").arg(key);
        let (found,): (HashMap<String, String>,) = self.server.link.query(doing, &ask).await?;
        let read = |(of, stored): (String, String)| {
            let record = stored.split_once(' ').map_or(&*stored, |(_, record)| record);
            let record = serde_json::from_str(record).map_err(|error| self.server.refused(doing, error))?;
            Ok((of.parse().map_err(|error| self.server.refused(doing, error))?, record))
        };
        found.into_iter().map(read).collect()
    }

    /// `news`: the message for all runners, '' for none.
    async fn write_record(
        &self,
        doing: &'static str,
        key: String,
        of: &str,
        generation: u64,
        record: &impl Serialize,
        news: &str,
    ) -> Result<bool, StoreError> {
        let record = serde_json::to_string(record).map_err(|error| self.server.refused(doing, error))?;
        let mut call = Call::new(script!("records/set_record.lua"), &[key]);
        call.arg(of).arg(generation).arg(record).arg(runners_channel(&self.server.prefix)).arg(news);
        self.server.is_one(doing, call).await
    }
}
