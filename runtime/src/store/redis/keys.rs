//! Names of keys and channels. They exist here and in `docs/redis-keys.md`, and nowhere else.

use crate::job::{JobId, Name, TopicId, WorkerId};

/// What all keys begin with unless the settings say otherwise.
pub const DEFAULT_PREFIX: &str = "gm";

/// The partition that all jobs of a tenant are in, until a tenant can have several.
const PARTITION: u32 = 0;

/// The keys of one tenant partition. They share the hash tag `{tenant/partition}`, hence one slot.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    base: String,
}

impl Keys {
    pub(super) fn new(prefix: &str, tenant: &Name) -> Self {
        Self { base: format!("{prefix}:{{{tenant}/{PARTITION}}}:") }
    }

    fn key(&self, name: &str) -> String {
        [&self.base, name].concat()
    }

    fn key_of(&self, name: &str, of: &str) -> String {
        [&self.base, name, ":", of].concat()
    }

    /// HASH id → stamp and envelope.
    pub(super) fn jobs(&self) -> String {
        self.key("jobs")
    }

    /// HASH id → `deliveries:attempts:worker`.
    pub(super) fn claims(&self) -> String {
        self.key("claims")
    }

    /// ZSET id → end of lease, ms.
    pub(super) fn leases(&self) -> String {
        self.key("leases")
    }

    /// SET of topics with ready jobs.
    pub(super) fn active(&self) -> String {
        self.key("active")
    }

    /// ZSET topic → its next due time, ms.
    pub(super) fn due(&self) -> String {
        self.key("due")
    }

    /// SET of topics ever pushed to.
    pub(super) fn topics(&self) -> String {
        self.key("topics")
    }

    /// HASH id → last failure.
    pub(super) fn failures(&self) -> String {
        self.key("failures")
    }

    /// HASH id → checkpoint.
    pub(super) fn checkpoints(&self) -> String {
        self.key("checkpoints")
    }

    /// HASH `topic:what` → how many.
    pub(super) fn counts(&self) -> String {
        self.key("counts")
    }

    /// LIST of ids: in at the left, out at the right.
    pub(super) fn ready(&self, topic: &Name) -> String {
        self.key_of("ready", topic.as_str())
    }

    /// ZSET id → due, ms.
    pub(super) fn delayed(&self, topic: &Name) -> String {
        self.key_of("delayed", topic.as_str())
    }

    /// ZSET id → buried at, ms.
    pub(super) fn dead(&self, topic: &Name) -> String {
        self.key_of("dead", topic.as_str())
    }

    /// HASH unique value → id.
    pub(super) fn unique(&self, topic: &Name) -> String {
        self.key_of("unique", topic.as_str())
    }

    /// LIST of elements of the ready List that were no job.
    pub(super) fn strays(&self, topic: &Name) -> String {
        self.key_of("strays", topic.as_str())
    }

    /// LIST of ids that the worker runs.
    pub(super) fn processing(&self, worker: &WorkerId) -> String {
        self.key_of("processing", worker.as_str())
    }

    /// STRING: what became of a job.
    pub(super) fn result(&self, id: &JobId) -> String {
        self.key_of("result", id.as_str())
    }

    /// Channel of wake-ups.
    pub(super) fn wake_channel(&self) -> String {
        self.key("wake")
    }

    /// Channel of ids of finished jobs.
    pub(super) fn done_channel(&self) -> String {
        self.key("done")
    }
}

/// ZSET worker → last heartbeat, ms. Of all tenants, in a slot of its own.
pub(super) fn workers(prefix: &str) -> String {
    [prefix, ":workers"].concat()
}

/// The counter field of a topic: `topic:what`. The other direction of what the scripts' `count` writes.
pub(super) fn counter(field: &str, tenant: &Name) -> Option<(TopicId, String)> {
    let (topic, what) = field.split_once(':')?;
    Some((TopicId { tenant: tenant.clone(), topic: topic.parse().ok()? }, what.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_partition_share_its_hash_tag() {
        let (tenant, topic): (Name, Name) = ("acme".parse().unwrap(), "resize".parse().unwrap());
        let keys = Keys::new(DEFAULT_PREFIX, &tenant);
        assert_eq!(keys.jobs(), "gm:{acme/0}:jobs");
        assert_eq!(keys.ready(&topic), "gm:{acme/0}:ready:resize");
        assert_eq!(keys.processing(&WorkerId::new("host-1-x")), "gm:{acme/0}:processing:host-1-x");
        assert_eq!(keys.wake_channel(), "gm:{acme/0}:wake");
        assert_eq!(workers(DEFAULT_PREFIX), "gm:workers");
    }

    #[test]
    fn counters_are_read_as_they_are_written() {
        let tenant: Name = "acme".parse().unwrap();
        let (topic, what) = counter("a.b:dead-trap", &tenant).unwrap();
        assert_eq!((topic.to_string().as_str(), what.as_str()), ("acme/a.b", "dead-trap"));
        assert!(counter("nothing", &tenant).is_none());
    }
}
