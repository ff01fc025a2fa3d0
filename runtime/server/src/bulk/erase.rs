//! What erasing does that no other action does: jobs in every state, the results and recordings that are kept of jobs that are over, and the states of a key.

use std::collections::{BTreeSet, HashSet};

use super::work::{BulkCursor, BulkStore};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_runner::Recording;
use gristmill_store::{
    Cancelled, ChooseJobs, FoundJobs, JobQuery, JobState, JobView, RecordedJob, StateDeleted, StoreError, look_up,
};

/// Results that are looked at in one step.
const RESULTS: usize = 100;
/// And recordings.
const RECORDINGS: usize = 20;

/// Whose jobs are erased, and which.
#[derive(Debug)]
pub(super) struct Erase {
    pub(super) tenant: Name,
    pub(super) query: JobQuery,
}

impl Erase {
    /// How many states there are of the key that the query names; they are deleted if it `acts`.
    pub(super) async fn states(&self, store: BulkStore<'_>, acts: bool) -> Result<usize, StoreError> {
        let Some(key) = self.query.only_key() else { return Ok(0) };
        let mut states = 0;
        for counts in store.jobs.counts(&self.tenant).await? {
            if !self.query.fits_topic(&counts.topic.topic) {
                continue;
            }
            states += usize::from(match acts {
                true => store.states.delete_state(&counts.topic, key, None).await? == StateDeleted::Deleted,
                false => store.states.state(&counts.topic, key).await?.is_some(),
            });
        }
        Ok(states)
    }

    /// Jobs that are over and fit, of a page of those whose results are kept: without the results.
    pub(super) async fn results(
        &self,
        store: BulkStore<'_>,
        after: Option<&str>,
    ) -> Result<(FoundJobs, BulkCursor), StoreError> {
        let (views, next) = match self.query.id() {
            _ if !self.query.is_about_results() => (Vec::new(), None),
            Some(id) => {
                let view = look_up(store.jobs, &self.tenant, &id).await?;
                let is_over = |view: &JobView| view.state == JobState::Finished && view.result.is_some();
                (view.into_iter().filter(is_over).collect(), None)
            }
            None => {
                let page = store.results.results(&self.tenant, after, RESULTS).await?;
                (page.jobs, page.next)
            }
        };
        let mut found = FoundJobs { looked_at: views.len(), ..FoundJobs::default() };
        for view in views {
            let view = self.with_topic(store, view).await?;
            // A dead one was found in its list, and its result goes with it.
            if self.query.fits(&view).await && self.is_over(store, &view.id).await? {
                found.jobs.push(JobView { result: None, ..view });
            }
            // A result may be large: others have their turn.
            tokio::task::yield_now().await;
        }
        Ok((found, next.map_or(BulkCursor::Recordings(None), |next| BulkCursor::Results(Some(next)))))
    }

    /// Jobs that are over and fit, of a page of those that have a recording: with what its head has of them, and their bodies if these are in it. A recording may be large: a page has few of them.
    pub(super) async fn recorded(
        &self,
        store: BulkStore<'_>,
        after: Option<(TopicId, Option<RecordedJob>)>,
    ) -> Result<(FoundJobs, BulkCursor), StoreError> {
        if !self.query.is_about_recordings(true) {
            return Ok((FoundJobs::default(), BulkCursor::End));
        }
        let topics = store.jobs.counts(&self.tenant).await?.into_iter().map(|counts| counts.topic);
        let topics: BTreeSet<_> = topics.filter(|topic| self.query.fits_topic(&topic.topic)).collect();
        let mut topics = topics.into_iter();
        let (topic, after) = match after {
            Some((topic, after @ Some(_))) => (Some(topic), after),
            Some((before, None)) => (topics.find(|topic| *topic > before), None),
            None => (topics.next(), None),
        };
        let Some(topic) = topic else { return Ok((FoundJobs::default(), BulkCursor::End)) };
        let page = store.recordings.recorded_jobs(&topic, after.as_ref(), RECORDINGS).await?;
        let mut found = FoundJobs { looked_at: page.len(), ..FoundJobs::default() };
        let last = page.last().filter(|_| page.len() == RECORDINGS).cloned();
        for RecordedJob { id, .. } in page {
            let Some(bytes) = store.recordings.recording(&topic, &id).await? else { continue };
            let Ok(recording) = Recording::parse(&bytes) else { continue };
            let Some(view) = recorded_view(id, &recording) else { continue };
            let is_about_it = self.query.is_about_recordings(recording.body.is_some());
            if is_about_it && self.query.fits(&view).await && !self.is_found_otherwise(store, &view.id).await? {
                found.jobs.push(view);
            }
            tokio::task::yield_now().await;
        }
        Ok((found, BulkCursor::Recordings(Some((topic, last)))))
    }

    /// With how it ended, which has its topic, if the query asks for that: its result does not have it.
    async fn with_topic(&self, store: BulkStore<'_>, mut view: JobView) -> Result<JobView, StoreError> {
        if view.ended.is_none() && self.query.names_topics() {
            view.ended = store.jobs.ended(&self.tenant, &view.id).await?.and_then(|over| over.ended);
        }
        Ok(view)
    }

    /// In a list of jobs, or by its result.
    async fn is_found_otherwise(&self, store: BulkStore<'_>, id: &JobId) -> Result<bool, StoreError> {
        Ok(match store.jobs.job(&self.tenant, id).await? {
            None => false,
            Some(view) if view.state != JobState::Finished => true,
            Some(view) if view.result.is_none() || !self.query.is_about_results() => false,
            Some(view) => self.query.fits(&self.with_topic(store, view).await?).await,
        })
    }

    async fn is_over(&self, store: BulkStore<'_>, id: &JobId) -> Result<bool, StoreError> {
        let job = store.jobs.job(&self.tenant, id).await?;
        Ok(job.is_none_or(|view| view.state == JobState::Finished))
    }

    /// Removes jobs, wherever they are by now, and what is kept of them. Returns why each remaining job stays.
    pub(super) async fn jobs(
        &self,
        store: BulkStore<'_>,
        topic: Option<&TopicId>,
        ids: &[JobId],
    ) -> Result<Vec<Option<&'static str>>, StoreError> {
        let (mut dead, mut ended) = (Vec::new(), Vec::new());
        if let Some(topic) = topic {
            dead = store.jobs.delete_dead(topic, ids).await?;
            ended = store.jobs.kill(&self.tenant, ids).await?;
        }
        // Of jobs that are over it is not always known which topic they were of.
        let topics: Vec<TopicId> = match topic {
            Some(topic) => vec![topic.clone()],
            None => store.jobs.counts(&self.tenant).await?.into_iter().map(|counts| counts.topic).collect(),
        };
        let mut recorded = HashSet::new();
        for (id, _) in ids.iter().zip(&ended).filter(|(_, ended)| **ended == Cancelled::TooLate) {
            if let Some(topic) = topic
                && store.recordings.recording(topic, id).await?.is_some()
            {
                recorded.insert(id);
            }
        }
        for topic in topics {
            store.recordings.forget_recordings(&topic, ids).await?;
        }
        // Last: jobs that were ended also have results.
        let kept = store.results.forget_results(&self.tenant, ids).await?;
        let each = ids.iter().enumerate().map(|(n, id)| match ended.get(n) {
            Some(Cancelled::Stopping) => Some("still-running"),
            Some(Cancelled::Gone) => None,
            _ if dead.get(n) == Some(&true) || kept.get(n) == Some(&true) || recorded.contains(id) => None,
            _ => Some("too-late"),
        });
        Ok(each.collect())
    }
}

/// A job that is over, as its recording has it.
fn recorded_view(id: JobId, recording: &Recording) -> Option<JobView> {
    let job = recording.job_as_known()?;
    Some(JobView { job: Some(job), ..JobView::over(id, recording.head.attempt, None) })
}
