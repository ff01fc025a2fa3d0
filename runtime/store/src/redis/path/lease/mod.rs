//! What a running attempt does to its lease: extend it, and save a checkpoint under it.

use std::collections::HashSet;
use std::time::Duration;

use redis::pipe;

use super::claim::batches::LISTS;
use crate::StoreError;
use crate::clock::wait_ms;
use crate::redis::envelope;
use crate::redis::holder::{Holder, claim_fields, read_holder};
use crate::redis::script::run::{BatchCall, positions};
use crate::redis::script::{Call, script};
use crate::redis::store::{Numbered, Partition, SCRIPT_JOBS, by_tenant};
use gristmill_core::job::{JobId, Lease, Name, Progress, WorkerId};

/// For how long the progress is kept that an attempt last reported.
const PROGRESS_MS: u64 = 24 * 3600 * 1000;

impl Partition {
    /// All leases say their batches.
    pub(in crate::redis) async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<bool>, StoreError> {
        const DOING: &str = "extend leases";
        let mut parts = Vec::new();
        for (tenant, group) in by_tenant(leases, |lease| &lease.topic.tenant) {
            let keys = self.keys(tenant);
            for part in group.chunks(SCRIPT_JOBS) {
                let mut holders = Numbered(Vec::new());
                let numbers: Vec<usize> = part.iter().map(|(_, lease)| holders.number(Holder::of(lease))).collect();
                let mut names = vec![keys.claims(), keys.leases(), keys.extended()];
                names.extend(holders.0.iter().map(|holder| keys.processing(*holder)));
                let mut call = Call::new(script!("path/lease/extend.lua"), &names);
                call.arg(self.now_argument()).arg(wait_ms(lease)).holders(&holders.0);
                for ((_, lease), holder) in part.iter().zip(numbers) {
                    call.arg(lease.job.as_str()).arg(lease.delivery).arg(holder);
                }
                parts.push(BatchCall { call, positions: positions(part), read: |reply, _| reply.yes_or_no() });
            }
        }
        self.run_batch(DOING, parts).await
    }

    /// The lease says its batch.
    pub(in crate::redis) async fn checkpoint(&self, lease: &Lease, state: &[u8]) -> Result<bool, StoreError> {
        const DOING: &str = "save a checkpoint";
        let keys = self.keys(&lease.topic.tenant);
        let mut call = Call::new(script!("path/lease/checkpoint.lua"), &[keys.claims(), keys.checkpoints()]);
        call.arg(lease.job.as_str()).arg(lease.delivery).arg(Holder::of(lease).text()).arg(state);
        self.is_one(DOING, call).await
    }

    pub(in crate::redis) async fn note_progress(&self, progress: &[(Lease, Progress)]) -> Result<(), StoreError> {
        for (tenant, group) in by_tenant(progress, |(lease, _)| &lease.topic.tenant) {
            let keys = self.keys(tenant);
            for part in group.chunks(SCRIPT_JOBS) {
                let mut names = vec![keys.claims()];
                names.extend(part.iter().map(|(_, (lease, _))| keys.progress(&lease.job)));
                let mut call = Call::new(script!("path/lease/progress.lua"), &names);
                call.arg(PROGRESS_MS);
                for (_, (Lease { job, delivery, .. }, Progress { basis_points, note })) in part {
                    call.arg(job.as_str()).arg(*delivery).arg(format!("{delivery} {basis_points} {note}"));
                }
                self.is_one("note the progress of attempts", call).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn progress(
        &self,
        tenant: &Name,
        deliveries: &[(JobId, u64)],
    ) -> Result<Vec<Option<Progress>>, StoreError> {
        let keys = self.keys(tenant);
        let mut all = Vec::with_capacity(deliveries.len());
        for part in deliveries.chunks(SCRIPT_JOBS) {
            let mut ask = pipe();
            for (id, _) in part {
                ask.cmd("GET").arg(keys.progress(id));
            }
            let found: Vec<Option<String>> = self.link.query("look for the progress of attempts", &ask).await?;
            all.extend(part.iter().zip(found).map(|((_, delivery), found)| read_progress(&found?, *delivery)));
        }
        Ok(all)
    }

    /// Two round trips where the worker holds nothing else: ids are compared here, and only the rest is looked up.
    pub(crate) async fn claims_of(
        &self,
        tenant: &Name,
        worker: &WorkerId,
        except: &HashSet<JobId>,
    ) -> Result<Vec<Lease>, StoreError> {
        const DOING: &str = "look for what a worker holds";
        let keys = self.keys(tenant);
        let holders = self.holders(DOING, &keys).await?;
        let of_worker =
            |holder: &&(String, u64)| read_holder(&holder.0).is_some_and(|(name, _)| name == worker.as_str());
        let holders: Vec<&str> = holders.iter().filter(of_worker).map(|(holder, _)| holder.as_str()).collect();
        let mut held = Vec::new();
        for some in holders.chunks(LISTS) {
            held.extend(self.held(DOING, &keys, some.iter().copied()).await?.into_iter().flatten());
        }
        held.retain(|id| !except.contains(id));

        let mut leases = Vec::with_capacity(held.len());
        for ids in held.chunks(SCRIPT_JOBS) {
            let names: Vec<&str> = ids.iter().map(JobId::as_str).collect();
            let mut look = pipe();
            look.cmd("HMGET").arg(keys.claims()).arg(&names).cmd("HMGET").arg(keys.jobs()).arg(&names);
            type Reply = (Vec<Option<String>>, Vec<Option<Vec<u8>>>);
            let (claims, stored): Reply = self.link.query(DOING, &look).await?;
            let parts = ids.iter().zip(claims.iter().zip(&stored));
            // Whatever has ended or was taken away between the two questions is not held any more.
            leases.extend(parts.filter_map(|(job, (claim, stored))| {
                let (delivery, _, holder) = claim_fields(claim.as_deref()?);
                let (_, batch) = read_holder(holder).filter(|(name, _)| *name == worker.as_str())?;
                let topic = envelope::topic(tenant, stored.as_deref()?).ok()?;
                Some(Lease { job: job.clone(), topic, worker: worker.clone(), delivery, batch: Some(batch) })
            }));
        }
        Ok(leases)
    }
}

/// `None` if it is of another delivery.
fn read_progress(text: &str, delivery: u64) -> Option<Progress> {
    let (of, rest) = text.split_once(' ')?;
    let (basis_points, note) = rest.split_once(' ')?;
    let is_ours = of.parse::<u64>() == Ok(delivery);
    is_ours.then(|| Some(Progress { basis_points: basis_points.parse().ok()?, note: note.to_owned() }))?
}
