//! What the jobs of a key leave for each other.
//!
//! A state is in the partition of its key's jobs, as [`write_state`](super::record::write_state) writes it. After its topic has been spread further, a state that was set
//! before is still where it was, and is found there until the next one is set; so a state that is deleted then leaves a mark.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use redis::pipe;

use super::keys::read_key;
use super::partitions::RedisStore;
use super::record::{read_state, write_state};
use super::scan::escaped;
use super::store::Partition;
use crate::{States, StoreError, StoredState};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::outcome::StateChange;
use gristmill_core::time::millis;

#[async_trait]
impl States for RedisStore {
    async fn state(&self, topic: &TopicId, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        for number in self.map().await?.of_key(topic, key) {
            if let Some(stored) = self.partition(number).stored_state(topic, key).await? {
                return Ok(read_state(stored));
            }
        }
        Ok(None)
    }

    /// Earlier states go first: one that is left must not come back.
    async fn delete_state(&self, topic: &TopicId, key: &str) -> Result<bool, StoreError> {
        let was_there = self.state(topic, key).await?.is_some();
        for number in self.map().await?.of_key(topic, key).into_iter().rev() {
            self.partition(number).delete_state(topic, key).await?;
        }
        Ok(was_there)
    }
}

impl RedisStore {
    pub(super) async fn all_keys_with_state(&self, tenant: &Name) -> Result<Vec<(TopicId, String)>, StoreError> {
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

    pub(super) async fn one_state(&self, topic: &TopicId, key: &str) -> Result<Option<StoredState>, StoreError> {
        for number in self.map().await?.of_key(topic, key) {
            let partition = self.partition(number);
            let name = partition.keys(&topic.tenant).state(&topic.topic, key);
            let mut get = pipe();
            get.atomic().cmd("GET").arg(&name).cmd("PTTL").arg(&name);
            let (stored, ttl): (Option<Vec<u8>>, i64) = partition.link.query("read the state of a key", &get).await?;
            let Some(stored) = stored else { continue };
            let ttl = Duration::from_millis(u64::try_from(ttl).unwrap_or_default().max(1));
            return Ok(read_state(stored).map(|value| StoredState { value, ttl }));
        }
        Ok(None)
    }

    pub(super) async fn add_state(&self, topic: &TopicId, key: &str, state: &StoredState) -> Result<bool, StoreError> {
        if self.state(topic, key).await?.is_some() {
            return Ok(false);
        }
        let number = self.map().await?.of_key(topic, key).first().copied().unwrap_or_default();
        let partition = self.partition(number);
        let stored = write_state(&StateChange::Set(state.value.clone()), false);
        let mut set = pipe();
        set.cmd("SET").arg(partition.keys(&topic.tenant).state(&topic.topic, key)).arg(stored.unwrap_or_default());
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

    async fn delete_state(&self, topic: &TopicId, key: &str) -> Result<(), StoreError> {
        let mut delete = pipe();
        delete.cmd("DEL").arg(self.keys(&topic.tenant).state(&topic.topic, key));
        let (_,): (u64,) = self.link.query("delete the state of a key", &delete).await?;
        Ok(())
    }
}
