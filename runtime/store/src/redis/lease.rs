//! What a running attempt does to its lease: extend it, and save a checkpoint under it.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use redis::pipe;

use super::envelope;
use super::run::{Part, positions};
use super::script::{Call, script};
use super::store::{RedisStore, SCRIPT_JOBS, by_tenant};
use crate::clock::wait_ms;
use crate::{Leases, StoreError};
use gristmill_core::job::{JobId, Lease, Name, WorkerId};

#[async_trait]
impl Leases for RedisStore {
    async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<bool>, StoreError> {
        let mut parts = Vec::new();
        for (tenant, group) in by_tenant(leases, |lease| &lease.topic.tenant) {
            let keys = self.keys(tenant);
            let names = [keys.claims(), keys.leases()];
            for part in group.chunks(SCRIPT_JOBS) {
                let mut call = Call::new(script!("extend.lua"), &names);
                call.arg(self.now_argument()).arg(wait_ms(lease));
                for (_, lease) in part {
                    call.arg(lease.job.as_str()).arg(lease.delivery).arg(lease.worker.as_str());
                }
                parts.push(Part { call, positions: positions(part), read: |reply, _| reply.yes_or_no() });
            }
        }
        self.run_parts("extend leases", parts).await
    }

    async fn checkpoint(&self, lease: &Lease, state: &[u8]) -> Result<bool, StoreError> {
        let keys = self.keys(&lease.topic.tenant);
        let mut call = Call::new(script!("checkpoint.lua"), &[keys.claims(), keys.checkpoints()]);
        call.arg(lease.job.as_str()).arg(lease.delivery).arg(lease.worker.as_str()).arg(state);
        self.is_one("save a checkpoint", call).await
    }

    /// One command where the worker holds nothing else: ids are compared here, and only the rest is looked up.
    async fn claims_of(
        &self,
        tenant: &Name,
        worker: &WorkerId,
        except: &HashSet<JobId>,
    ) -> Result<Vec<Lease>, StoreError> {
        const DOING: &str = "look for what a worker holds";
        let keys = self.keys(tenant);
        let mut look = pipe();
        look.cmd("LRANGE").arg(keys.processing(worker)).arg(0).arg(-1);
        let (held,): (Vec<String>,) = self.link.query(DOING, &look).await?;
        let held = held.into_iter().filter_map(|id| id.parse().ok()).filter(|id| !except.contains(id));
        let held: Vec<JobId> = held.collect();

        let mut leases = Vec::with_capacity(held.len());
        for ids in held.chunks(SCRIPT_JOBS) {
            let names: Vec<&str> = ids.iter().map(JobId::as_str).collect();
            let mut look = pipe();
            look.cmd("HMGET").arg(keys.claims()).arg(&names).cmd("HMGET").arg(keys.jobs()).arg(&names);
            type Parts = (Vec<Option<String>>, Vec<Option<Vec<u8>>>);
            let (claims, stored): Parts = self.link.query(DOING, &look).await?;
            let parts = ids.iter().zip(claims.iter().zip(&stored));
            // Whatever has ended or was taken away between the two questions is not held any more.
            leases.extend(parts.filter_map(|(job, (claim, stored))| {
                let delivery = held_by(worker, claim.as_deref()?)?;
                let topic = envelope::topic(tenant, stored.as_deref()?).ok()?;
                Some(Lease { job: job.clone(), topic, worker: worker.clone(), delivery })
            }));
        }
        Ok(leases)
    }
}

/// The delivery, if this worker holds it.
fn held_by(worker: &WorkerId, claim: &str) -> Option<u64> {
    let mut fields = claim.splitn(3, ':');
    let (delivery, _, holder) = (fields.next()?, fields.next()?, fields.next()?);
    delivery.parse().ok().filter(|_| holder == worker.as_str())
}
