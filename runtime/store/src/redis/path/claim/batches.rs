//! Numbers of claims, and what their holders hold.

use std::sync::atomic::Ordering;

use redis::pipe;

use crate::StoreError;
use crate::redis::holder::{Holder, LOW_BITS, claim_fields, read_holder};
use crate::redis::key_names::Keys;
use crate::redis::partitions::partition_map::PARTITIONS_MAX;
use crate::redis::store::{Partition, by_tenant};
use gristmill_core::job::{JobId, Lease, WorkerId};
use gristmill_core::time::Timestamp;

/// Claims of one partition have numbers that differ by a multiple of this.
const STEP: u64 = PARTITIONS_MAX as u64;

/// How many processing Lists are read in one round trip.
pub(in crate::redis) const LISTS: usize = 100;

impl Partition {
    /// The holders of all running jobs of a tenant, each with the end of its lease in ms.
    pub(in crate::redis) async fn holders(
        &self,
        doing: &'static str,
        keys: &Keys,
    ) -> Result<Vec<(String, u64)>, StoreError> {
        let mut ask = pipe();
        ask.cmd("ZRANGE").arg(keys.leases()).arg(0).arg(-1).arg("WITHSCORES");
        let (holders,): (Vec<(String, u64)>,) = self.link.query(doing, &ask).await?;
        Ok(holders)
    }

    /// The ids in the processing Lists of some holders, at most [`LISTS`].
    pub(in crate::redis) async fn held(
        &self,
        doing: &'static str,
        keys: &Keys,
        holders: impl Iterator<Item = &str>,
    ) -> Result<Vec<Vec<JobId>>, StoreError> {
        let mut ask = pipe();
        for (worker, batch) in holders.filter_map(read_holder) {
            let worker = WorkerId::new(worker);
            ask.cmd("LRANGE").arg(keys.processing(Holder { worker: &worker, batch })).arg(0).arg(-1);
        }
        let lists: Vec<Vec<String>> = if ask.is_empty() { Vec::new() } else { self.link.query(doing, &ask).await? };
        let read = |list: Vec<String>| list.into_iter().filter_map(|id| JobId::try_from(id).ok()).collect();
        Ok(lists.into_iter().map(read).collect())
    }

    /// A number for a claim: higher than all before of this process and, as far as the hosts' clocks agree, than all before of
    /// others; not the number of any other claim of the worker, also after a failover to a server that lost some.
    pub(in crate::redis) fn next_batch(&self) -> u64 {
        let random = fastrand::u64(..(1 << LOW_BITS) / STEP) * STEP;
        let now = self.clock.now(Timestamp::now).as_millis() << LOW_BITS | random | u64::from(self.number);
        let next = |last: u64| now.max(last + STEP);
        let last = self.last_batch.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        next(last.unwrap_or_else(|last| last))
    }

    /// The batches of leases that do not say theirs, and that this partition has.
    pub(in crate::redis) async fn batches(
        &self,
        doing: &'static str,
        leases: &[&Lease],
    ) -> Result<Vec<Option<u64>>, StoreError> {
        let mut batches = vec![None; leases.len()];
        for (tenant, mut group) in by_tenant(leases, |lease| &lease.topic.tenant) {
            group.retain(|(_, lease)| lease.batch.is_none());
            let mut ask = pipe();
            let ids: Vec<&str> = group.iter().map(|(_, lease)| lease.job.as_str()).collect();
            if ids.is_empty() {
                continue;
            }
            ask.cmd("HMGET").arg(self.keys(tenant).claims()).arg(ids);
            let (claims,): (Vec<Option<String>>,) = self.link.query(doing, &ask).await?;
            for ((position, lease), claim) in group.into_iter().zip(claims) {
                let holder = claim.as_deref().and_then(|claim| read_holder(claim_fields(claim).2));
                let holder = holder.filter(|(worker, _)| *worker == lease.worker.as_str());
                if let (Some((_, batch)), Some(known)) = (holder, batches.get_mut(position)) {
                    *known = Some(batch);
                }
            }
        }
        Ok(batches)
    }
}
