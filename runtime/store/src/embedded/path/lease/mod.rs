//! Leases: what keeps a running job running, and what its worker says of it meanwhile.

pub(in crate::embedded) mod progress;

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::reap::batch;
use crate::clock::wait_ms;
use crate::embedded::fault::Done;
use crate::embedded::file::request::Weight;
use crate::embedded::memory::running::RunningJob;
use crate::embedded::memory::topics::Number;
use crate::embedded::place::of_topic;
use crate::embedded::row::{ms, read_id, running_jobs, topic, whole};
use crate::embedded::store::EmbeddedStore;
use crate::embedded::work::Work;
use crate::{Leases, StoreError};
use gristmill_core::job::{JobId, Lease, Name, Progress, WorkerId};
use gristmill_core::time::Timestamp;

/// Prolongs the lease of a running job.
const EXTEND: &str = "UPDATE job_rows SET lease_until = ?2 WHERE number = ?1";

/// Saves a checkpoint of a running job.
const CHECKPOINT: &str = "UPDATE job_rows SET checkpoint = ?2 WHERE number = ?1";

/// Running jobs that a worker holds, the last claim first. The plus keeps SQLite from making an index of all batches for each look.
const HELD: &str = concat!(
    "SELECT id, topic, deliveries, claim",
    running_jobs!(),
    "+worker = ?2 ORDER BY claim DESC, job_rows.number DESC"
);

#[async_trait]
impl Leases for EmbeddedStore {
    async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<bool>, StoreError> {
        let leases = leases.to_vec();
        let weight = Weight { jobs: leases.len(), bytes: 0 };
        self.write("extend leases", weight, move |work| {
            let until = work.now().plus(Duration::from_millis(wait_ms(lease)));
            leases.iter().map(|lease| work.extend(lease, until)).collect()
        })
        .await
    }

    async fn checkpoint(&self, lease: &Lease, state: &[u8]) -> Result<bool, StoreError> {
        let (lease, state) = (lease.clone(), state.to_vec());
        let weight = Weight { jobs: 1, bytes: state.len() };
        self.write("save a checkpoint", weight, move |work| work.save_checkpoint(&lease, &state)).await
    }

    async fn note_progress(&self, progress: &[(Lease, Progress)]) -> Result<(), StoreError> {
        self.attempts_progress().note(progress);
        Ok(())
    }

    async fn claims_of(
        &self,
        tenant: &Name,
        worker: &WorkerId,
        except: &HashSet<JobId>,
    ) -> Result<Vec<Lease>, StoreError> {
        let (tenant, by) = (tenant.clone(), worker.clone());
        let held =
            self.read("look for what a worker holds", move |connection, _| held(connection, &tenant, &by)).await?;
        Ok(held.into_iter().filter(|lease| !except.contains(&lease.job)).collect())
    }
}

impl Work<'_> {
    /// The running job of a lease, and its topic: nothing, if that very delivery is not running on that very worker, by that very
    /// claim if the lease says by which.
    pub(in crate::embedded) fn running(&mut self, lease: &Lease) -> Done<Option<(Number, &mut RunningJob)>> {
        let Some(topic) = self.topics.find(self.connection, &lease.topic)? else { return Ok(None) };
        let jobs = &self.topics.get(topic).running_jobs;
        let holds = |(worker, claim): (&WorkerId, u64)| {
            *worker == lease.worker && lease.batch.is_none_or(|batch| batch == claim)
        };
        let is_held = jobs
            .get(&lease.job)
            .is_some_and(|job| job.deliveries == lease.delivery && jobs.holder(job.number).is_some_and(holds));
        if !is_held {
            return Ok(None);
        }
        Ok(self.topics.running_jobs_mut(topic).get_mut(&lease.job).map(|job| (topic, job)))
    }

    fn extend(&mut self, lease: &Lease, until: Timestamp) -> Done<bool> {
        let Some((_, job)) = self.running(lease)? else { return Ok(false) };
        job.lease_until = until;
        let number = job.number;
        self.statements.get(EXTEND)?.execute([number, ms(until)])?;
        Ok(true)
    }

    fn save_checkpoint(&mut self, lease: &Lease, state: &[u8]) -> Done<bool> {
        let Some((_, job)) = self.running(lease)? else { return Ok(false) };
        let number = job.number;
        self.statements.get(CHECKPOINT)?.execute(params![number, state])?;
        Ok(true)
    }
}

fn held(connection: &Connection, tenant: &Name, worker: &WorkerId) -> Done<Vec<Lease>> {
    let mut select = connection.prepare_cached(HELD)?;
    let mut rows = select.query([tenant.as_str(), worker.as_str()])?;
    let mut leases = Vec::new();
    while let Some(row) = rows.next()? {
        let delivery = whole(row.get("deliveries")?) + 1;
        leases.push(Lease {
            job: read_id(row)?,
            topic: topic(row, tenant)?,
            worker: worker.clone(),
            delivery,
            batch: batch(row)?,
        });
    }
    Ok(leases)
}
