//! A job that a worker has taken, and the right to settle it.

use std::sync::Arc;

use super::names::{JobId, TopicId, WorkerId};
use super::spec::Job;
use crate::outcome::Reason;
use crate::time::Timestamp;

/// The right to settle one attempt: names the job, and which delivery of it is meant.
///
/// Fencing: the store counts a job's deliveries; a settle that names an older one changes nothing.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The job.
    pub job: JobId,
    /// Its topic.
    pub topic: TopicId,
    /// The worker that holds it.
    pub worker: WorkerId,
    /// How often the job has been claimed, this time included. Unlike the attempt it never goes down. A new job that has
    /// the id of one that is over begins anew: only the batch distinguishes its first delivery from that of the earlier job to the
    /// same worker.
    pub delivery: u64,
    /// The number of the claim that gave it, which no other claim of the store has. `None`: not known, and the store looks it up.
    pub batch: Option<u64>,
}

/// Two leases are equal that name the same delivery. The batch only says where the store finds it.
impl PartialEq for Lease {
    fn eq(&self, other: &Self) -> bool {
        let Self { job, topic, worker, delivery, batch: _ } = self;
        (job, topic, worker, *delivery) == (&other.job, &other.topic, &other.worker, other.delivery)
    }
}

impl Eq for Lease {}

/// A job taken to be worked on, for a bounded time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Shared with the sandbox, so that a large body is held once.
    pub job: Arc<Job>,
    /// What the settlement must name.
    pub lease: Lease,
    /// 1 on the first try.
    pub attempt: u32,
    /// When, by the store's clock.
    pub claimed_at: Timestamp,
    /// When the lease ends unless it is extended, by the store's clock.
    pub lease_until: Timestamp,
    /// Why the last attempt failed, if one did.
    pub previous: Option<Reason>,
    /// What an earlier attempt saved.
    pub checkpoint: Option<Vec<u8>>,
}
