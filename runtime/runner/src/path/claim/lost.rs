//! Claims of this worker that it does not have in hand, because the store's reply was lost.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::context::Context;
use gristmill_core::job::Name;
use gristmill_core::outcome::Verdict;
use gristmill_store::Settlement;

/// Gives back what the store counts as this worker's and is not in hand; uses up no attempt.
///
/// For the claimer alone, between two claims: else a claim that is on its way would look like a lost one. What is settled
/// meanwhile is fenced.
pub(crate) async fn give_back_lost(context: &Context, tenants: &BTreeSet<Name>) {
    let Context { store, retry, worker, in_flight, .. } = context;
    for tenant in tenants {
        let in_hand = in_flight.of(tenant);
        let lost = match retry.call(|| store.claims_of(tenant, worker, &in_hand)).await {
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
        match store.settle(&releases).await {
            Ok(_) => tracing::info!(%tenant, jobs = releases.len(), "gave back claims whose replies were lost"),
            // The runner tries again when the store is available again. Nothing waits for it until then.
            Err(error) if error.is_unavailable() => retry.note_unavailable(error),
            Err(error) => tracing::error!(%tenant, "failed to give back lost claims: {:#}", anyhow::Error::from(error)),
        }
    }
}
