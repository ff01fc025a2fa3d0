//! Who holds running jobs: a worker, by one of its claims. As text `worker:number`, which names the processing List of that claim.

use gristmill_core::job::{Lease, WorkerId};
use gristmill_core::time::Timestamp;

/// How many of the low bits of a claim's number do not come from the time. The lowest say the number of the partition; the others
/// are random: two processes that claim in the name of one worker in the same millisecond have different numbers. A script refuses
/// a number that is in use.
pub(super) const LOW_BITS: u32 = 22;

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

/// When a claim was made, by the holder in its text, as [`Partition::next_batch`](super::store::Partition::next_batch) numbers claims.
pub(super) fn claimed_at(holder: &str) -> Option<Timestamp> {
    read_holder(holder).map(|(_, batch)| Timestamp::from_millis(batch >> LOW_BITS))
}

/// Deliveries, attempts and worker of what is stored as `deliveries:attempts:holder`. A job that was never claimed has none, and
/// one that is not running has no worker.
pub(super) fn parse_claim(text: &str) -> (u64, u32, &str) {
    let (deliveries, attempts, holder) = claim_fields(text);
    (deliveries, attempts, read_holder(holder).map_or("", |(worker, _)| worker))
}

/// The same with the holder in place of the worker.
pub(super) fn claim_fields(text: &str) -> (u64, u32, &str) {
    let mut fields = text.splitn(3, ':');
    let deliveries = fields.next().and_then(|deliveries| deliveries.parse().ok()).unwrap_or(0);
    let attempts = fields.next().and_then(|attempts| attempts.parse().ok()).unwrap_or(0);
    (deliveries, attempts, fields.next().unwrap_or_default())
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
