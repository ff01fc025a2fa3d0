//! Jumps over delays: jobs that wait for their time are due now.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use gristmill_config::units::counted;
use gristmill_core::job::{Due, JobChange, JobId};
use gristmill_store::{JobQuery, JobState, Store, StoreError, find};

use super::super::screen;

/// Jobs that are read at once.
const PAGE: usize = 200;
/// How often delays are jumped over where that is wanted always.
const EVERY: Duration = Duration::from_millis(200);

/// Makes all delayed jobs due now, of all tenants: also those that wait for their next attempt. Returns how many they were. Jobs that wait for other
/// jobs go on waiting for them.
///
/// # Errors
/// The store is unavailable, or refuses.
pub(super) async fn jump(store: &dyn Store) -> Result<usize, StoreError> {
    let Ok(delayed) = "state:delayed".parse::<JobQuery>() else { return Ok(0) };
    let mut jumped = 0;
    for tenant in store.tenants().await? {
        let mut after = None;
        loop {
            let found = find(store, &tenant, None, &delayed, after, PAGE).await?;
            let waits = found.jobs.into_iter().filter(|view| matches!(view.state, JobState::Delayed { .. }));
            let ids: Vec<JobId> = waits.map(|view| view.id).collect();
            if !ids.is_empty() {
                let change = JobChange { due: Some(Due::Now), priority: None };
                let changed = store.change(&tenant, &ids, &change).await?;
                jumped += changed.iter().filter(|changed| **changed == gristmill_store::JobChanged::Changed).count();
            }
            after = found.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(jumped)
}

/// Does so again and again. A store that is unavailable is asked again.
pub(super) async fn always(store: Arc<dyn Store>) -> Infallible {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Ok(jumped @ 1..) = jump(&*store).await {
            screen::note(&format!("jumped over the delay of {}", counted(jumped, "job", "jobs")));
        }
    }
}
