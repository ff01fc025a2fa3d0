//! Kill, where nothing can stop the attempt: jobs that pull workers hold.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;

use super::contract::{Settle, Settled};
use super::error::StoreError;
use super::inspect::{Cancelled, JobState, JobView, Query};
use super::settlement::Settlement;
use gristmill_core::job::{Claim, JobId, Lease, Name, WorkerId};
use gristmill_core::outcome::Verdict;
use gristmill_core::time::Timestamp;

/// Jobs that are looked at together.
const AT_ONCE: usize = 16;

/// Ends the attempts of pull workers at cancelled jobs, as if the workers had released them; their leases are lost. `answers` says which of
/// the jobs run; those that this call ends are gone.
pub(super) async fn end_pulled(
    store: &(impl Query + Settle),
    tenant: &Name,
    ids: &[JobId],
    answers: &mut [Cancelled],
) -> Result<(), StoreError> {
    let mut running: Vec<_> = ids.iter().zip(answers).filter(|(_, answer)| **answer == Cancelled::Stopping).collect();
    let (mut releases, mut pulled) = (Vec::new(), Vec::new());
    while !running.is_empty() {
        let rest = running.split_off(running.len().min(AT_ONCE));
        let mut looks = Vec::new();
        for (id, _) in &running {
            looks.push(store.job(tenant, id));
        }
        for ((_, answer), view) in running.into_iter().zip(try_join_all(looks).await?) {
            if let Some(claim) = view.and_then(claim_of_pull_worker) {
                releases.push(Settlement::of(&claim, Verdict::Release(Duration::ZERO), Duration::ZERO));
                pulled.push(answer);
            }
        }
        running = rest;
    }
    if releases.is_empty() {
        return Ok(());
    }
    for (settled, answer) in store.settle(&releases).await?.into_iter().zip(pulled) {
        if settled == Settled::Cancelled {
            *answer = Cancelled::Gone;
        }
    }
    Ok(())
}

fn claim_of_pull_worker(view: JobView) -> Option<Claim> {
    // One that is not marked was pushed anew under the same id.
    let JobState::Running { worker, delivery, lease_until, cancelled: true } = view.state else { return None };
    let (worker, job) = (WorkerId::new(&worker), Arc::new(view.job?));
    let lease = Lease { job: view.id, topic: job.spec.topic.clone(), worker, delivery, batch: None };
    lease.worker.is_pull().then(|| Claim {
        job,
        lease,
        attempt: view.attempts,
        claimed_at: Timestamp::default(),
        lease_until,
        previous: None,
        checkpoint: None,
    })
}
