//! Removing all that a topic holds.

use super::error::StoreError;
use super::inspect::{Cancelled, Inspect};
use super::list::{PAGE_JOBS, StateFilter};
use gristmill_core::job::{JobId, TopicId};

/// What [`purge`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// Ready and delayed jobs that were cancelled.
    pub waiting: u64,
    /// Dead jobs that were deleted.
    pub dead: u64,
    /// The topic is forgotten. `false`: it still has jobs. They are running, came meanwhile, or were too many for one call.
    pub forgotten: bool,
}

/// Cancels the waiting jobs of a topic, deletes its dead ones, and forgets the topic if no job is left: see
/// [`Control::forget_topic`](super::Control::forget_topic). Running jobs go on; one that begins to run during the call may be
/// marked as cancelled.
///
/// Reads at most `limit` jobs. If there are more, call it again. If the future is dropped, the jobs removed so far are gone.
///
/// # Errors
/// The store is unavailable or refuses. The jobs removed so far are gone.
pub async fn purge(store: &dyn Inspect, topic: &TopicId, limit: usize) -> Result<Purged, StoreError> {
    let (mut purged, mut left) = (Purged::default(), limit);
    for state in [StateFilter::Ready, StateFilter::Delayed, StateFilter::Dead] {
        let mut after = None;
        while left > 0 {
            let page = store.jobs(topic, state, after.as_ref(), left.min(PAGE_JOBS)).await?;
            left = left.saturating_sub(page.jobs.len());
            let ids: Vec<JobId> = page.jobs.into_iter().map(|job| job.id).collect();
            if ids.is_empty() {
                // A page may be empty, and others follow.
            } else if state == StateFilter::Dead {
                let deleted = store.delete_dead(topic, &ids).await?;
                purged.dead += deleted.into_iter().filter(|deleted| *deleted).count() as u64;
            } else {
                let cancelled = store.cancel(&topic.tenant, &ids).await?;
                purged.waiting += cancelled.into_iter().filter(|end| *end == Cancelled::Gone).count() as u64;
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    purged.forgotten = store.forget_topic(topic).await?;
    Ok(purged)
}
