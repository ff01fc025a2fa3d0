//! What is known of a job, wherever it is.

use super::error::StoreError;
use super::inspect::{JobState, JobView, Query};
use super::progress::show_progress;
use gristmill_core::job::{JobId, Name};

/// What is known of a job: what [`Query::job`] says, of a running one how far it is, and of one that is over how it ended.
///
/// # Errors
/// Those of [`Query::job`] and [`Query::ended`]. If the future is dropped, the store is as it was.
pub async fn look_up<Q: Query + ?Sized>(store: &Q, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
    match store.job(tenant, id).await? {
        Some(mut view) if matches!(view.state, JobState::Running { .. }) => {
            show_progress(store, tenant, std::slice::from_mut(&mut view)).await?;
            Ok(Some(view))
        }
        Some(view) if view.state != JobState::Finished || view.ended.is_some() => Ok(Some(view)),
        Some(view) => {
            let ended = store.ended(tenant, id).await?.and_then(|over| over.ended);
            Ok(Some(JobView { ended, ..view }))
        }
        None => store.ended(tenant, id).await,
    }
}
