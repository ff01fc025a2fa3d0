//! What this worker has in hand: claimed, and not settled yet.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::lifeline::Lifeline;
use crate::job::{Claim, JobId, Name, WorkerId};
use crate::outcome::Verdict;
use crate::store::{Settlement, Store};

/// The jobs in hand, locked once a batch. What the store counts as this worker's and is not in here was claimed by a call
/// whose reply was lost: left alone, it would wait for its lease to run out although its worker lives.
#[derive(Debug, Default)]
pub(super) struct Hand(Mutex<HashSet<JobId>>);

impl Hand {
    pub(super) fn take(&self, claims: &[Claim]) {
        self.jobs().extend(claims.iter().map(|claim| claim.lease.job.clone()));
    }

    pub(super) fn put_down(&self, settlements: &[Settlement]) {
        let mut jobs = self.jobs();
        for settlement in settlements {
            jobs.remove(&settlement.lease.job);
        }
    }

    fn jobs(&self) -> MutexGuard<'_, HashSet<JobId>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Gives back what the store counts as this worker's and is not in hand; uses up no attempt.
///
/// For the claimer alone, between two claims: else a claim that is on its way would look like a lost one. What is settled
/// meanwhile is fenced.
pub(super) async fn give_back_lost(
    store: &Arc<dyn Store>,
    lifeline: &Lifeline,
    worker: &WorkerId,
    tenants: &BTreeSet<Name>,
    hand: &Hand,
) {
    for tenant in tenants {
        let in_hand = hand.jobs().clone();
        let lost = match lifeline.call(|| store.held(tenant, worker, &in_hand)).await {
            Some(Ok(lost)) if lost.is_empty() => continue,
            Some(Ok(lost)) => lost,
            Some(Err(error)) => {
                tracing::error!(%tenant, "failed to look for lost claims: {:#}", anyhow::Error::from(error));
                continue;
            }
            None => return,
        };
        let release = |lease| Settlement::new(lease, Verdict::Release(Duration::ZERO));
        let releases: Vec<Settlement> = lost.into_iter().map(release).collect();
        match lifeline.call(|| store.settle(&releases)).await {
            Some(Ok(_)) => tracing::info!(%tenant, jobs = releases.len(), "gave back claims whose replies were lost"),
            Some(Err(error)) => {
                tracing::error!(%tenant, "failed to give back lost claims: {:#}", anyhow::Error::from(error));
            }
            None => return,
        }
    }
}
