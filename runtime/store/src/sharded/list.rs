//! Pages of jobs: of a tenant's places one after the other.

use async_trait::async_trait;

use super::places::Places;
use super::store::ShardedStore;
use super::work::if_available;
use crate::list::Stage;
use crate::{Cursor, ListJobs, Page, StateFilter, StoreError};
use gristmill_core::job::TopicId;

#[async_trait]
impl ListJobs for ShardedStore {
    /// In the order in which jobs move, so that none is missed on its way; one that moves between two pages may be listed
    /// twice. A page is of one place only, and the next one begins where that has no more. A place that was left long ago
    /// is left out while it is away.
    async fn jobs(
        &self,
        topic: &TopicId,
        place: StateFilter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let (first, places) = (self.first(&topic.tenant)?, self.places(&topic.tenant));
        if limit == 0 {
            return Ok(Page { jobs: Vec::new(), next: after.cloned() });
        }
        let (stages, mut begun) = self.stages(&places, place, after);
        let mut stages = stages.into_iter().peekable();
        while let Some(at) = stages.next() {
            let member = self.member(at);
            let mut listed = member.ask(member.store.jobs(topic, place, begun.take().as_ref(), limit)).await;
            if at != first && !places.is_moving {
                listed = if_available(listed).map(Option::unwrap_or_default);
            }
            let Page { jobs, next } = listed?;
            if let Some(next) = next {
                return Ok(Page { jobs, next: Some(next.within(member.name.clone())) });
            }
            if !jobs.is_empty() {
                let then = stages.peek().map(|at| Cursor::at_beginning(place, self.member(*at).name.clone()));
                return Ok(Page { jobs, next: then });
            }
        }
        Ok(Page::default())
    }
}

impl ShardedStore {
    /// The places that a list has not come through yet, and how far it has come in the first of them. All of them, if the
    /// cursor is of none: rather twice than not at all.
    fn stages(&self, places: &Places, place: StateFilter, after: Option<&Cursor>) -> (Vec<usize>, Option<Cursor>) {
        let all: Vec<usize> = places.in_order_of_moves().collect();
        let Some((after, Stage { store, is_new })) = after.and_then(|after| Some((after, after.stage.as_ref()?)))
        else {
            return (all, None);
        };
        let left: Vec<usize> = all.iter().copied().skip_while(|at| self.member(*at).name != *store).collect();
        if left.is_empty() {
            return (all, None);
        }
        // One of other jobs is for the store to refuse.
        let goes_on = !is_new || after.place != place;
        (left, goes_on.then(|| Cursor { stage: None, ..after.clone() }))
    }
}
