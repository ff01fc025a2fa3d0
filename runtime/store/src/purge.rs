//! Removing all that a topic holds.

use super::action::JobAction;
use super::contract::Produce;
use super::error::StoreError;
use super::job_query::{JobQuery, Scanned};
use super::list::StateFilter;
use gristmill_core::job::TopicId;

/// What [`purge`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// Ready and delayed jobs that were cancelled; one that began to run meanwhile is marked.
    pub waiting: u64,
    /// Dead jobs that were deleted.
    pub dead: u64,
    /// The topic is forgotten. `false`: it still has jobs. They are running, came meanwhile, or were too many for one call.
    pub forgotten: bool,
}

/// Cancels the waiting jobs of a topic, deletes its dead ones, and if no job is left forgets the topic, see
/// [`Control::forget_topic`](super::Control::forget_topic), and frees the unique values that are held for a time. Running jobs go on; one that begins to run during the call may be
/// marked as cancelled.
///
/// Reads at most `limit` jobs (with 0 only a topic without jobs is forgotten, and no value freed), and about 16 MiB of them. If there are more, call it again. If the future is dropped, the jobs removed so far are gone.
///
/// # Errors
/// The store is unavailable or refuses. The jobs removed so far are gone.
pub async fn purge(store: &dyn Produce, topic: &TopicId, limit: usize) -> Result<Purged, StoreError> {
    let (mut purged, mut scanned) = (Purged::default(), Scanned::at_most(limit, limit).of_any_size());
    for (state, action) in [
        (StateFilter::Ready, JobAction::Cancel),
        (StateFilter::Delayed, JobAction::Cancel),
        (StateFilter::Dead, JobAction::Delete),
    ] {
        if scanned.is_over() {
            break;
        }
        let list = (topic, state);
        let changed = action.act_on_list(store, list, None, &JobQuery::default(), &mut scanned).await?.changed;
        *(if state == StateFilter::Dead { &mut purged.dead } else { &mut purged.waiting }) += changed;
    }
    purged.forgotten = store.forget_topic(topic).await?;
    if purged.forgotten && limit > 0 {
        while store.free_windows(topic).await? > 0 {}
    }
    Ok(purged)
}
