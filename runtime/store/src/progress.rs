//! How far running attempts are.

use super::error::StoreError;
use super::inspect::{JobState, JobView, Query};
use gristmill_core::job::Name;

/// Says of running jobs how far their handlers are.
///
/// # Errors
/// Those of [`Query::progress`].
pub async fn show_progress<Q: Query + ?Sized>(
    store: &Q,
    tenant: &Name,
    views: &mut [JobView],
) -> Result<(), StoreError> {
    let running = |view: &JobView| match view.state {
        JobState::Running { delivery, .. } if view.progress.is_none() => Some((view.id.clone(), delivery)),
        _ => None,
    };
    let deliveries: Vec<_> = views.iter().filter_map(running).collect();
    if deliveries.is_empty() {
        return Ok(());
    }
    let known = store.progress(tenant, &deliveries).await?;
    let running = views.iter_mut().filter(|view| running(view).is_some());
    running.zip(known).for_each(|(view, progress)| view.progress = progress);
    Ok(())
}
