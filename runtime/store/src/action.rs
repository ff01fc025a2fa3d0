//! One action on jobs: on those of ids, or on those of a list that fit a query.

use super::error::StoreError;
use super::inspect::{Cancelled, Inspect, JobChanged};
use super::job_query::{ChooseJobs, Scanned, scan};
use super::list::{Cursor, StateFilter};
use gristmill_core::job::{JobChange, JobId, TopicId};

/// What is done to jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobAction {
    /// Cancels jobs that wait or run.
    Cancel,
    /// Makes dead jobs ready again.
    Respawn,
    /// Deletes dead jobs.
    Delete,
    /// Changes jobs that wait.
    Change(JobChange),
}

/// What an action did to the jobs of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListChanged {
    /// How many jobs were changed.
    pub changed: u64,
    /// Where to go on. `None`: no further job can fit.
    pub next: Option<Cursor>,
}

impl JobAction {
    /// Does it to jobs of a topic. Says of each job that stays as it was why: `too-late`, `not-dead` (or another job holds its unique value)
    /// or `unchanged`.
    ///
    /// # Errors
    /// The store is unavailable or refuses; some jobs may have been changed.
    pub async fn act(
        self,
        store: &dyn Inspect,
        topic: &TopicId,
        ids: &[JobId],
    ) -> Result<Vec<Option<&'static str>>, StoreError> {
        let not_dead = |was_dead: Vec<bool>| was_dead.into_iter().map(|was| (!was).then_some("not-dead")).collect();
        Ok(match self {
            Self::Cancel => {
                let too_late = |cancelled| (cancelled == Cancelled::TooLate).then_some("too-late");
                store.cancel(&topic.tenant, ids).await?.into_iter().map(too_late).collect()
            }
            Self::Respawn => not_dead(store.respawn(topic, ids).await?),
            Self::Delete => not_dead(store.delete_dead(topic, ids).await?),
            Self::Change(change) => {
                let unchanged = |changed| match changed {
                    JobChanged::Changed => None,
                    JobChanged::Unchanged => Some("unchanged"),
                    JobChanged::TooLate => Some("too-late"),
                };
                store.change(&topic.tenant, ids, &change).await?.into_iter().map(unchanged).collect()
            }
        })
    }

    /// Does it to the jobs of a list that fit, as far as `scanned` lets it look.
    ///
    /// # Errors
    /// Those of [`scan`] and [`JobAction::act`].
    pub async fn act_on_list(
        self,
        store: &dyn Inspect,
        (topic, state): (&TopicId, StateFilter),
        after: Option<Cursor>,
        choice: &dyn ChooseJobs,
        scanned: &mut Scanned,
    ) -> Result<ListChanged, StoreError> {
        let mut ids = Vec::new();
        let next = scan(store, (topic, state), after, choice, scanned, |job| ids.push(job.id)).await?;
        let refusals = self.act(store, topic, &ids).await?;
        Ok(ListChanged { changed: refusals.iter().filter(|refusal| refusal.is_none()).count() as u64, next })
    }
}
