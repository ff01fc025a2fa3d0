//! What others do to the Redis of a store.

use std::sync::Arc;

use gristmill_core::job::{JobId, TopicId};
use gristmill_test_servers::redis::Redis;

/// The Redis of the store with this prefix.
pub(super) struct Server {
    pub(super) redis: Arc<Redis>,
    pub(super) prefix: String,
}

/// Packs a job as a map of its id and its body, and runs a command with it.
const WRITE: &str = "local job = cmsgpack.pack({ ['1'] = ARGV[1], ['4'] = 'x' })
    if ARGV[2] == 'ready' then return redis.call('LPUSH', KEYS[1], job) end
    return redis.call('ZADD', KEYS[1], 1, job)";

impl Server {
    /// Writes four jobs that are ready and two that are due, where the store finds them. Returns their ids.
    pub(super) async fn write_raw(&self, topic: &TopicId) -> Vec<JobId> {
        let mut ids = Vec::new();
        for (number, place) in ["ready", "ready", "ready", "ready", "delayed", "delayed"].into_iter().enumerate() {
            let TopicId { tenant, topic } = topic;
            let (id, key) = (format!("raw{number}"), format!("{}:{{{tenant}/0}}:{place}:{topic}", self.prefix));
            self.redis.ask::<u64>("EVAL", &[WRITE, "1", &key, &id, place]).await.expect("Redis takes the job");
            ids.push(id.parse().unwrap());
        }
        ids
    }

    /// Zero for any amount.
    pub(super) async fn set_memory(&self, bytes: u32) {
        let bytes = bytes.to_string();
        self.redis.ask::<String>("CONFIG", &["SET", "maxmemory", &bytes]).await.expect("Redis takes the setting");
    }
}
