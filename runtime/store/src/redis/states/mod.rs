//! What the jobs of a key leave for each other.
//!
//! A state is in the partition of its key's jobs, as `settle.lua` writes it and [`read_state`](super::record::read_state) reads it. After its topic has been spread further, a state that was set
//! before is still where it was, and is found there until the next one is set; so a state that is deleted then leaves a mark.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::pipe;

use super::key_names::read_key;
use super::partitions::RedisStore;
use super::partitions::scan::escaped;
use super::record::{read_state, stored_state};
use super::script::{Call, script};
use super::store::Partition;
use crate::{StateDeleted, StoreError, StoredState, VersionedState};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::time::millis;

impl RedisStore {
    pub(crate) async fn state(&self, topic: &TopicId, key: &str) -> Result<Option<VersionedState>, StoreError> {
        for number in self.map().await?.of_key(topic, key) {
            if let Some(stored) = self.partition(number).stored_state(topic, key).await? {
                return Ok(read_state(stored));
            }
        }
        Ok(None)
    }

    /// Earlier states go first: one that is left must not come back. What a job sets meanwhile stays.
    pub(crate) async fn delete_state(
        &self,
        topic: &TopicId,
        key: &str,
        version: Option<u64>,
    ) -> Result<StateDeleted, StoreError> {
        let mut numbers = self.map().await?.of_key(topic, key).into_iter();
        while let Some(number) = numbers.next() {
            let partition = self.partition(number);
            let Some(stored) = partition.stored_state(topic, key).await? else { continue };
            let Some(present) = read_state(stored) else { break };
            // Without earlier ones the script alone says it.
            if numbers.len() > 0 && version.is_some_and(|version| version != present.version) {
                return Ok(StateDeleted::OtherVersion);
            }
            for earlier in numbers.rev() {
                self.partition(earlier).delete_state(topic, key, None).await?;
            }
            return partition.delete_state(topic, key, version).await;
        }
        Ok(StateDeleted::Missing)
    }

    pub(crate) async fn keys_with_state(&self, tenant: &Name) -> Result<Vec<(TopicId, String)>, StoreError> {
        const DOING: &str = "look for states of keys";
        let prefix = &self.server.prefix;
        // No character of a tenant's name means anything in a pattern, but for its `-`.
        let pattern = format!("{}:{{{}/*}}:state:*", escaped(prefix), escaped(tenant.as_str()));
        let mut found = BTreeSet::new();
        for slot in self.a_slot_of_each_server(DOING).await? {
            let mut cursor = 0;
            loop {
                let (next, keys) = self.scan_names(DOING, slot, cursor, &pattern).await?;
                let names = keys.iter().filter_map(|key| std::str::from_utf8(key).ok());
                found.extend(names.filter_map(|name| {
                    let (owner, _, _, of) = read_key(prefix, name)?.partition?;
                    let (topic, key) = of.split_once(':').filter(|_| owner == *tenant)?;
                    Some((topic.parse::<Name>().ok()?, key.to_owned()))
                }));
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(found.into_iter().map(|(topic, key)| (TopicId { tenant: tenant.clone(), topic }, key)).collect())
    }

    pub(crate) async fn export_state(&self, topic: &TopicId, key: &str) -> Result<Option<StoredState>, StoreError> {
        for number in self.map().await?.of_key(topic, key) {
            let partition = self.partition(number);
            let name = partition.keys(&topic.tenant).state(&topic.topic, key);
            let mut get = pipe();
            get.atomic().cmd("GET").arg(&name).cmd("PTTL").arg(&name);
            let (stored, ttl): (Option<Vec<u8>>, i64) = partition.link.query("read the state of a key", &get).await?;
            let Some(stored) = stored else { continue };
            let ttl = Duration::from_millis(u64::try_from(ttl).unwrap_or_default().max(1));
            return Ok(read_state(stored).map(|VersionedState { value, version }| StoredState { value, version, ttl }));
        }
        Ok(None)
    }

    pub(crate) async fn import_state(
        &self,
        topic: &TopicId,
        key: &str,
        state: &StoredState,
    ) -> Result<bool, StoreError> {
        if self.state(topic, key).await?.is_some() {
            return Ok(false);
        }
        let number = self.map().await?.of_key(topic, key).first().copied().unwrap_or_default();
        let partition = self.partition(number);
        let stored = stored_state(&VersionedState { value: state.value.clone(), version: state.version });
        let mut set = pipe();
        set.cmd("SET").arg(partition.keys(&topic.tenant).state(&topic.topic, key)).arg(stored);
        set.arg("NX").arg("PX").arg(millis(state.ttl).max(1));
        let (set,): (Option<String>,) = partition.link.query("take the state of a key in", &set).await?;
        Ok(set.is_some())
    }
}

impl Partition {
    async fn stored_state(&self, topic: &TopicId, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let mut get = pipe();
        get.cmd("GET").arg(self.keys(&topic.tenant).state(&topic.topic, key));
        let (stored,) = self.link.query("read the state of a key", &get).await?;
        Ok(stored)
    }

    async fn delete_state(&self, topic: &TopicId, key: &str, version: Option<u64>) -> Result<StateDeleted, StoreError> {
        const DOING: &str = "delete the state of a key";
        let mut call =
            Call::new(script!("states/delete_state.lua"), &[self.keys(&topic.tenant).state(&topic.topic, key)]);
        call.arg(version.map(|version| version.to_string()).unwrap_or_default());
        Ok(match self.reply(DOING, call).await?.number().map_err(self.misread(DOING))? {
            0 => StateDeleted::Missing,
            1 => StateDeleted::Deleted,
            _ => StateDeleted::OtherVersion,
        })
    }
}
