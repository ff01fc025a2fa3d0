//! A list of jobs that is read page by page while the jobs come and go, and what it promises.

use std::collections::{BTreeMap, BTreeSet};

use gristmill_core::job::{JobId, TopicId};
use gristmill_store::{Cursor, JobView, ListJobs, StateFilter};

use super::plain::Model;
use super::side::{Difference, same};

/// A list of ready jobs may begin again if so many jobs, the last of a page, have left the line before the next page.
const ANCHORS: usize = 8;

/// What is known of a list that has begun and not ended.
#[derive(Debug)]
pub(super) struct Listing {
    topic: TopicId,
    place: StateFilter,
    next: Option<Cursor>,
    /// How often each job was listed.
    listed: BTreeMap<JobId, usize>,
    /// Jobs that have been in this place since the list began.
    stayed: BTreeSet<JobId>,
    /// Of the last jobs of the last page: those that have been there since.
    anchors: BTreeSet<JobId>,
    may_repeat: bool,
}

impl Listing {
    pub(super) fn new(model: &Model, topic: &TopicId, place: StateFilter) -> Self {
        let stayed = model.list(topic, place).into_iter().map(|view| view.id).collect();
        let (next, listed, anchors) = (None, BTreeMap::new(), BTreeSet::new());
        Self { topic: topic.clone(), place, next, listed, stayed, anchors, may_repeat: false }
    }

    /// Notes which jobs have left the place. To be called after every step: none leaves and returns in one.
    pub(super) fn observe(&mut self, model: &Model) {
        let there: BTreeSet<JobId> = model.list(&self.topic, self.place).into_iter().map(|view| view.id).collect();
        self.stayed.retain(|id| there.contains(id));
        self.anchors.retain(|id| there.contains(id));
    }

    /// Compares the next page with a stretch of the model's list. `None` once the list has ended.
    pub(super) async fn page(
        mut self,
        store: &(impl ListJobs + ?Sized),
        model: &Model,
        limit: usize,
    ) -> Result<Option<Self>, Difference> {
        let is_first = self.next.is_none();
        // As it would come over HTTP.
        let after: Option<Cursor> = self.next.take().map(|cursor| cursor.to_string().parse().unwrap());
        let mut page = store.jobs(&self.topic, self.place, after.as_ref(), limit).await?;
        // Conformance tests it.
        page.jobs.iter_mut().for_each(|view| view.claimed_at = None);
        self.next = page.next;
        self.may_repeat |= !is_first && self.place == StateFilter::Ready && self.anchors.is_empty();

        let all = model.list(&self.topic, self.place);
        let begin = match page.jobs.first() {
            Some(first) if !is_first => all.iter().position(|view| view.id == first.id).unwrap_or(0),
            Some(_) => 0,
            None if is_first => 0,
            None => all.len(),
        };
        let most = begin + page.jobs.len().min(limit);
        let end = if self.next.is_some() { most } else { all.len() };
        let expected: Vec<&JobView> = all[begin..end].iter().collect();
        same("page of a list", page.jobs.iter().collect(), expected)?;

        let ids = page.jobs.iter().map(|view| &view.id);
        for id in ids.clone() {
            *self.listed.entry(id.clone()).or_default() += 1;
        }
        if !page.jobs.is_empty() {
            self.anchors = ids.rev().take(ANCHORS).cloned().collect();
        }
        if self.next.is_some() {
            return Ok(Some(self));
        }
        for id in &self.stayed {
            let times = self.listed.get(id).copied().unwrap_or(0);
            if times == 0 || times > 1 && !self.may_repeat {
                let Self { topic, place, listed, .. } = &self;
                return Err(Difference::new(format!(
                    "{id} was listed {times} times, though it stayed: {place:?} of {topic}, {listed:?}"
                )));
            }
        }
        Ok(None)
    }
}
