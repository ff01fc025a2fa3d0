//! Spreading topics over more partitions, while they are in use.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value;

use super::partition_map::PARTITIONS_MAX;
use super::{PartitionMap, RedisStore};
use crate::clock::wait_ms;
use crate::redis::key_names;
use crate::redis::script::{Call, script};
use crate::{Query, StoreError};
use gristmill_core::job::TopicId;

const DOING: &str = "spread a topic";

/// By then all processes know of the new partitions, see [`MapAge`](super::partition_map::MapAge): they change to them together.
const BEGINS_AFTER: Duration = Duration::from_secs(10);

impl RedisStore {
    /// Spreads topics over at least this many partitions each. New jobs go there ten seconds later; those that are stored stay
    /// where they are, and are claimed and found as before. A topic that has as many already stays as it is.
    ///
    /// # Errors
    /// The store is unavailable or refuses: some topics may have been spread. Or a topic was spread so often that its tenant has 128
    /// partitions.
    pub async fn spread(&self, topics: &BTreeMap<TopicId, u32>) -> Result<(), StoreError> {
        self.spread_after(topics, BEGINS_AFTER).await
    }

    pub(in crate::redis) async fn spread_after(
        &self,
        topics: &BTreeMap<TopicId, u32>,
        wait: Duration,
    ) -> Result<(), StoreError> {
        for (topic, partitions) in topics.iter().filter(|(_, partitions)| **partitions > 1) {
            let mut call = Call::new(script!("partitions/spread.lua"), &[key_names::partitions(&self.server.prefix)]);
            call.arg(topic.to_string()).arg(*partitions).arg(wait_ms(wait)).arg(PARTITIONS_MAX);
            match self.server.link.run(DOING, vec![call]).await?.pop() {
                Some(Value::Int(0)) => {}
                Some(Value::Int(1)) => {
                    tracing::info!(%topic, partitions, "is spread over more partitions from {} s on", wait.as_secs());
                    self.copy_pause(topic).await?;
                }
                _ => {
                    let problem = format!(
                        "`{topic}` cannot have {partitions} partitions: each time that it got more these were new ones, and together \
                         there are {PARTITIONS_MAX} at most"
                    );
                    return Err(self.server.refused(DOING, anyhow::Error::msg(problem)));
                }
            }
        }
        self.read_map().await.map(drop)
    }

    /// The same for every topic, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn all_spread(self, partitions: u32) -> Self {
        self.partitions.set_map(PartitionMap::all_over(partitions));
        self
    }

    async fn copy_pause(&self, topic: &TopicId) -> Result<(), StoreError> {
        self.read_map().await?;
        let counts = self.counts(&topic.tenant).await?;
        if counts.iter().any(|counts| counts.topic == *topic && counts.paused) {
            self.set_paused(topic, true).await?;
        }
        Ok(())
    }
}
