//! Who holds running jobs: a worker, by one of its claims. As text `worker:number`, which names the processing List of that claim.

use std::sync::atomic::Ordering;

use redis::pipe;

use super::inspect::claim_fields;
use super::keys::Keys;
use super::partition_map::PARTITIONS_MAX;
use super::store::{Partition, by_tenant};
use crate::StoreError;
use gristmill_core::job::{JobId, Lease, WorkerId};
use gristmill_core::time::Timestamp;

/// How many of the low bits of a claim's number do not come from the time. The lowest say the number of the partition; the others
/// are random: two processes that claim in the name of one worker in the same millisecond have different numbers. A script refuses
/// a number that is in use.
const LOW_BITS: u32 = 22;

/// Claims of one partition have numbers that differ by a multiple of this.
const STEP: u64 = PARTITIONS_MAX as u64;

/// A worker, and the number of one of its claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Holder<'a> {
    pub(super) worker: &'a WorkerId,
    pub(super) batch: u64,
}

impl<'a> Holder<'a> {
    /// The holder that a lease names. The batch must be known.
    pub(super) fn of(lease: &'a Lease) -> Self {
        Self { worker: &lease.worker, batch: lease.batch.unwrap_or_default() }
    }

    pub(super) fn text(self) -> String {
        format!("{}:{}", self.worker.as_str(), self.batch)
    }
}

/// The worker and the number of the claim in the text of a holder.
pub(super) fn read_holder(text: &str) -> Option<(&str, u64)> {
    let (worker, batch) = text.rsplit_once(':')?;
    Some((worker, batch.parse().ok()?))
}

/// When a claim was made, by the holder in its text, as [`Partition::next_batch`] numbers claims.
pub(super) fn claimed_at(holder: &str) -> Option<Timestamp> {
    read_holder(holder).map(|(_, batch)| Timestamp::from_millis(batch >> LOW_BITS))
}

/// How many processing Lists are read in one round trip.
pub(super) const LISTS: usize = 100;

impl Partition {
    /// The holders of all running jobs of a tenant, each with the end of its lease in ms.
    pub(super) async fn holders(&self, doing: &'static str, keys: &Keys) -> Result<Vec<(String, u64)>, StoreError> {
        let mut ask = pipe();
        ask.cmd("ZRANGE").arg(keys.leases()).arg(0).arg(-1).arg("WITHSCORES");
        let (holders,): (Vec<(String, u64)>,) = self.link.query(doing, &ask).await?;
        Ok(holders)
    }

    /// The ids in the processing Lists of some holders, at most [`LISTS`].
    pub(super) async fn held(
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
    pub(super) fn next_batch(&self) -> u64 {
        let random = fastrand::u64(..(1 << LOW_BITS) / STEP) * STEP;
        let now = self.clock.now(Timestamp::now).as_millis() << LOW_BITS | random | u64::from(self.number);
        let next = |last: u64| now.max(last + STEP);
        let last = self.last_batch.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        next(last.unwrap_or_else(|last| last))
    }

    /// The batches of leases that do not say theirs, and that this partition has.
    pub(super) async fn batches(&self, doing: &'static str, leases: &[&Lease]) -> Result<Vec<Option<u64>>, StoreError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_read_as_it_is_written() {
        let worker = WorkerId::new("pull:press:1:mail");
        let text = Holder { worker: &worker, batch: 7 }.text();
        assert_eq!(read_holder(&text), Some((worker.as_str(), 7)));
        assert_eq!((read_holder("nothing"), read_holder("worker:x")), (None, None));
    }
}
