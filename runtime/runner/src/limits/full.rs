//! Tenants that have as much in the store as they may: what their attempts would store is refused, and their schedules make no jobs.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::storage::{Added, Full, StorageUse};
use crate::context::{Context, ExecutorContext};
use gristmill_core::job::{Claim, Name};
use gristmill_core::outcome::{Outcome, StateChange};
use gristmill_sandbox::Report;

/// Refuses follow-up jobs and a state that the tenant of an attempt may not store any more: the attempt fails, and is tried again.
pub(crate) async fn hold_to_limits(claim: &Claim, report: &mut Report, context: &ExecutorContext) {
    let mut added = Added::default();
    if matches!(report.outcome, Outcome::Complete(_) | Outcome::Snooze(_)) {
        report.follow_ups.iter().for_each(|job| added.add(job));
    }
    if let (Outcome::Complete(_), Some(StateChange::Set(value))) = (&report.outcome, &report.state) {
        added.bytes += value.len() as u64;
    }
    if added.jobs == 0 && added.bytes == 0 {
        return;
    }
    let tenant = &claim.lease.topic.tenant;
    let limits = context.registry.borrow().limits(tenant);
    match context.storage.let_in(&*context.store, tenant, added, &limits, |_| true).await {
        Ok(None) => {}
        Ok(Some(full)) => {
            report.follow_ups.clear();
            report.state = None;
            report.outcome = Outcome::TenantFull { limit: full.limit(), allowed: allowed(full) };
        }
        // A store that does not answer does not settle, either.
        Err(error) => tracing::debug!(%tenant, "failed to count what is stored: {:#}", anyhow::Error::from(error)),
    }
}

const fn allowed(full: Full) -> u64 {
    match full {
        Full::Jobs(most) | Full::Bytes(most) | Full::Topics(most) => most,
    }
}

/// Writes into the store which tenants are full, of those whose schedules have fired. Runs until stopped.
pub(crate) async fn run(context: Context, storage: Arc<StorageUse>, mut fired: mpsc::Receiver<Name>) {
    let mut known = BTreeSet::new();
    loop {
        let tenant = tokio::select! {
            biased;
            () = context.stop.cancelled() => return,
            Some(tenant) = fired.recv() => tenant,
        };
        let limits = context.registry.borrow().limits(&tenant);
        let one_more = Added { jobs: 1, ..Added::default() };
        let note = async {
            let full = storage.let_in(&*context.store, &tenant, one_more, &limits, |_| true).await?;
            if full.is_some() == known.contains(&tenant) {
                return Ok(());
            }
            context.store.set_full(&tenant, full.is_some()).await?;
            match full {
                Some(full) => {
                    known.insert(tenant.clone());
                    let limit = full.limit();
                    tracing::warn!(%tenant, "its schedules make no jobs: it has as much in the store as `{limit}` allows");
                }
                None => {
                    known.remove(&tenant);
                    tracing::info!(%tenant, "its schedules make jobs again");
                }
            }
            Ok::<_, gristmill_store::StoreError>(())
        };
        if let Err(error) = note.await {
            tracing::debug!(%tenant, "failed to count what is stored: {:#}", anyhow::Error::from(error));
        }
    }
}
