//! What a running attempt does to its lease: prolong it, and save a checkpoint under it.

use std::time::Duration;

use redis::Value;

use super::reply::Reply;
use super::script::{CHECKPOINT, Call, EXTEND};
use super::store::{RedisStore, SCRIPT_JOBS, by_tenant, in_order};
use crate::StoreError;
use crate::clock::wait_ms;
use gristmill_core::job::Lease;

impl RedisStore {
    pub(super) async fn extend_leases(&self, leases: &[Lease], lease: Duration) -> Result<Vec<bool>, StoreError> {
        const DOING: &str = "extend leases";
        let mut answers = Vec::with_capacity(leases.len());
        for (tenant, group) in by_tenant(leases, |lease| &lease.topic.tenant) {
            let keys = self.keys(tenant);
            let names = [keys.claims(), keys.leases()];
            let calls = group.chunks(SCRIPT_JOBS).map(|part| {
                let mut call = Call::new(&EXTEND, &names);
                call.arg(self.now_argument()).arg(wait_ms(lease));
                for (_, lease) in part {
                    call.arg(lease.job.as_str()).arg(lease.delivery).arg(lease.worker.as_str());
                }
                call
            });
            let replies = self.link.run(DOING, calls.collect()).await?;
            for (part, reply) in group.chunks(SCRIPT_JOBS).zip(replies) {
                let held = Reply::new(reply).and_then(Reply::yes_or_no).map_err(self.misread(DOING))?;
                answers.extend(part.iter().map(|(place, _)| *place).zip(held));
            }
        }
        Ok(in_order(answers))
    }

    pub(super) async fn save_checkpoint(&self, lease: &Lease, state: &[u8]) -> Result<bool, StoreError> {
        let keys = self.keys(&lease.topic.tenant);
        let mut call = Call::new(&CHECKPOINT, &[keys.claims(), keys.checkpoints()]);
        call.arg(lease.job.as_str()).arg(lease.delivery).arg(lease.worker.as_str()).arg(state);
        let replies = self.link.run("save a checkpoint", vec![call]).await?;
        Ok(matches!(replies.as_slice(), [Value::Int(1)]))
    }
}
