//! What the jobs of a key leave for each other.
//!
//! A state is in the partition of its key's jobs, as [`write_state`](super::record::write_state) writes it. After its topic has been spread further, a state that was set
//! before is still where it was, and is found there until the next one is set; so a state that is deleted then leaves a mark.

use async_trait::async_trait;
use redis::pipe;

use super::partitions::RedisStore;
use super::record::read_state;
use super::store::Partition;
use crate::{States, StoreError};
use gristmill_core::job::TopicId;

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
