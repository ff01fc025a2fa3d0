//! One step of a bulk action: looks at some jobs, and acts on those of the step before.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::mem;

use super::erase::Erase;
use crate::problem::{Code, Problem};
use crate::wire::BATCH;
use crate::wire::bulk::{BulkAction, BulkSample, NewBulk, SAMPLES};
use gristmill_core::job::{Due, Job, JobChange, JobId, Name, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_store::{
    FoundJobs, Inspect, JobAction, JobQuery, JobState, JobView, QueryCursor, RecordedJob, Recordings, Results, States,
    Store, StoreError, find_without_payloads,
};

const NOT_SELECTIVE: &str = "`q` has no condition besides topics and states, so that it would choose every job of these: add one, such as \
    `key:cust-17`, `reason:timeout` or `age>1h`";

/// So often the lists are gone through at most.
const PASSES: usize = 5;

/// What bulk actions need of a store.
#[derive(Debug, Clone, Copy)]
pub(super) struct BulkStore<'s> {
    pub(super) jobs: &'s dyn Inspect,
    pub(super) states: &'s dyn States,
    pub(super) results: &'s dyn Results,
    pub(super) recordings: &'s dyn Recordings,
}

impl<'s> BulkStore<'s> {
    pub(super) fn of(store: &'s dyn Store) -> Self {
        Self { jobs: store, states: store, results: store, recordings: store }
    }
}

/// What a bulk action does, and to which jobs.
#[derive(Debug)]
pub(crate) struct Work {
    pub(super) tenant: Name,
    action: BulkAction,
    /// Of [`BulkAction::Erase`].
    erase: Option<Erase>,
    /// Of [`BulkAction::Change`]. `After` counts from when it was made.
    change: JobChange,
    query: JobQuery,
}

/// How far a bulk action is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    cursor: BulkCursor,
    /// The jobs of the last page, which wait for their turn. A cursor finds its place by the last jobs of its page, so these are
    /// changed only once the next page has been read.
    found: BTreeMap<Option<TopicId>, Vec<JobId>>,
    /// Those whose turn it is, by topic; without one: of which only the results remain.
    due: BTreeMap<Option<TopicId>, Vec<JobId>>,
    /// How often the lists have been gone through.
    passes: usize,
    /// This pass has changed a job.
    has_changed: bool,
    /// The jobs that were changed, which later passes leave alone: by a hash of 64 bits, since they may be millions.
    changed: HashSet<u64>,
    hasher: RandomState,
}

/// Where jobs are looked for next.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum BulkCursor {
    /// Before all jobs: the states of keys.
    #[default]
    Begin,
    Lists(Option<QueryCursor>),
    /// Behind all lists.
    Results(Option<String>),
    /// Behind all results: in this topic behind this one, or in the next topic.
    Recordings(Option<(TopicId, Option<RecordedJob>)>),
    End,
}

/// What was done in a step.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) looked_at: usize,
    pub(super) matched: usize,
    pub(super) samples: Vec<BulkSample>,
    pub(super) changed: usize,
    /// By reason.
    pub(super) skipped: BTreeMap<&'static str, usize>,
    /// The jobs of which nothing may remain.
    pub(super) erased: Vec<JobId>,
}

impl Work {
    /// # Errors
    /// The query is none, or has no condition besides topics and states.
    pub(crate) fn new(tenant: Name, new: &NewBulk) -> Result<Self, Problem> {
        let query: JobQuery = new.q.parse().map_err(|error| Problem::new(Code::BadRequest, format!("`q`: {error}")))?;
        if !query.is_selective() {
            return Err(Problem::new(Code::BadRequest, NOT_SELECTIVE));
        }
        let states: &[&str] = match new.action {
            BulkAction::Cancel => &["ready", "delayed", "waiting", "running"],
            BulkAction::Respawn | BulkAction::Delete => &["dead"],
            BulkAction::Change => &["ready", "delayed", "waiting"],
            BulkAction::Erase => &["ready", "delayed", "waiting", "running", "dead"],
        };
        let erase = (new.action == BulkAction::Erase).then(|| Erase { tenant: tenant.clone(), query: query.clone() });
        Ok(Self { tenant, action: new.action, erase, change: new.change(), query: query.of_states(states) })
    }

    /// From when ages are counted. Jobs that were pushed or died later are not meant.
    pub(super) fn since(&self) -> Timestamp {
        self.query.now()
    }

    /// Looks at the next jobs, and acts on those before them if `acts`. Returns whether there is more to do.
    ///
    /// What was done is noted, and out of the progress, as soon as the store has answered: a step that failed or was dropped is
    /// repeated with the same progress, and goes on where it stopped. Only a call without an answer is made again.
    pub(super) async fn step(
        &self,
        store: BulkStore<'_>,
        progress: &mut Progress,
        acts: bool,
        note: &impl Fn(Step),
    ) -> Result<bool, StoreError> {
        if progress.due.is_empty() {
            Box::pin(self.look(store, progress, acts, note)).await?;
        }
        Box::pin(self.act(store, progress, note)).await?;
        Ok(!progress.is_at_end() || (acts && self.goes_through_again(progress)))
    }

    async fn look(
        &self,
        store: BulkStore<'_>,
        progress: &mut Progress,
        acts: bool,
        note: &impl Fn(Step),
    ) -> Result<(), StoreError> {
        let (FoundJobs { mut jobs, looked_at, .. }, next) = match (&progress.cursor, &self.erase) {
            (BulkCursor::Begin, Some(erase)) => {
                let states = erase.states(store, acts).await?;
                let matched = if progress.passes == 0 { states } else { 0 };
                note(Step { matched, changed: if acts { states } else { 0 }, ..Step::default() });
                (FoundJobs::default(), BulkCursor::Lists(None))
            }
            (BulkCursor::Begin, None) => self.look_at_lists(store, progress.passes, None).await?,
            (BulkCursor::Lists(after), _) => self.look_at_lists(store, progress.passes, after.clone()).await?,
            (BulkCursor::Results(after), Some(erase)) => erase.results(store, after.as_deref()).await?,
            (BulkCursor::Recordings(after), Some(erase)) => erase.recorded(store, after.clone()).await?,
            (BulkCursor::Results(_) | BulkCursor::Recordings(_), None) | (BulkCursor::End, _) => {
                (FoundJobs::default(), BulkCursor::End)
            }
        };
        jobs.retain(|job| self.is_meant(job) && !progress.has_changed_it(&job.id));
        if progress.passes == 0 {
            let samples = jobs.iter().filter_map(sample).take(SAMPLES).collect();
            note(Step { looked_at, matched: jobs.len(), samples, ..Step::default() });
        }
        if !acts {
            jobs.clear();
        }
        progress.due = mem::take(&mut progress.found);
        for view in jobs {
            progress.found.entry(view.job.map(|job| job.spec.topic)).or_default().push(view.id);
        }
        progress.cursor = next;
        Ok(())
    }

    async fn look_at_lists(
        &self,
        store: BulkStore<'_>,
        passes: usize,
        after: Option<QueryCursor>,
    ) -> Result<(FoundJobs, BulkCursor), StoreError> {
        // On the heap: futures nested this deep take much of a thread's stack.
        let found = Box::pin(find_without_payloads(store.jobs, &self.tenant, &self.query, after, BATCH)).await?;
        let next = match (&found.next, &self.erase) {
            (Some(next), _) => BulkCursor::Lists(Some(next.clone())),
            // They do not move.
            (None, Some(_)) if passes == 0 => BulkCursor::Results(None),
            (None, _) => BulkCursor::End,
        };
        Ok((found, next))
    }

    /// A job that moves against the search, as one that comes due behind it, is not met: so the lists are gone through again until that
    /// changes nothing more. The dead do not move.
    fn goes_through_again(&self, progress: &mut Progress) -> bool {
        let moves = matches!(self.action, BulkAction::Cancel | BulkAction::Change | BulkAction::Erase);
        progress.passes += 1;
        let again = moves && progress.passes < PASSES && (progress.passes == 1 || progress.has_changed);
        (progress.cursor, progress.has_changed) = (BulkCursor::Begin, false);
        again
    }

    /// What comes after the dry run does not count: otherwise jobs that are pushed all the time would never end.
    fn is_meant(&self, view: &JobView) -> bool {
        let Some(job) = &view.job else { return self.erase.is_some() };
        let came_at = if let JobState::Dead { since } = view.state { since } else { job.enqueued_at };
        came_at <= self.since() && (self.action != BulkAction::Change || self.is_otherwise(&view.state, job))
    }

    /// Whether the change changes it: one that is delayed by it is met again farther behind.
    fn is_otherwise(&self, state: &JobState, job: &Job) -> bool {
        let JobChange { due, priority } = self.change_now();
        let due_at = if let JobState::Delayed { until } = state { *until } else { job.due_at };
        let is_due_otherwise = match due {
            None => false,
            Some(Due::At(at)) => due_at != at,
            Some(_) => *state != JobState::Ready && due_at > Timestamp::now(),
        };
        is_due_otherwise || priority.is_some_and(|priority| priority != job.spec.options.priority)
    }

    /// The change with a time that is the same for all, or now once that has come.
    fn change_now(&self) -> JobChange {
        let at = match self.change.due {
            Some(Due::After(delay)) => Some(self.since().plus(delay)),
            Some(Due::At(at)) => Some(at),
            Some(Due::Now) | None => None,
        };
        let due = match at {
            Some(at) if at > Timestamp::now() => Some(Due::At(at)),
            _ => self.change.due.map(|_| Due::Now),
        };
        JobChange { due, ..self.change }
    }

    /// What is done to jobs that are not erased.
    fn job_action(&self) -> JobAction {
        match self.action {
            BulkAction::Cancel | BulkAction::Erase => JobAction::Cancel,
            BulkAction::Respawn => JobAction::Respawn,
            BulkAction::Delete => JobAction::Delete,
            BulkAction::Change => JobAction::Change(self.change_now()),
        }
    }

    async fn act(&self, store: BulkStore<'_>, progress: &mut Progress, note: &impl Fn(Step)) -> Result<(), StoreError> {
        while let Some((topic, ids)) = progress.due.first_key_value() {
            let skipped = match (&self.erase, topic) {
                (Some(erase), topic) => erase.jobs(store, topic.as_ref(), ids).await?,
                (None, Some(topic)) => self.job_action().act(store.jobs, topic, ids).await?,
                (None, None) => Vec::new(),
            };
            note(progress.acted(&skipped, self.erase.is_some()));
        }
        Ok(())
    }
}

impl Progress {
    fn is_at_end(&self) -> bool {
        self.cursor == BulkCursor::End && self.found.is_empty() && self.due.is_empty()
    }

    fn has_changed_it(&self, id: &JobId) -> bool {
        self.changed.contains(&self.hasher.hash_one(id))
    }

    /// Takes out the jobs of the first topic, each of which was changed or skipped for a reason. Passes after the first one count only
    /// what they change: they meet the skipped ones again.
    fn acted(&mut self, skipped: &[Option<&'static str>], erases: bool) -> Step {
        let mut step = Step::default();
        let ids = self.due.pop_first().map(|(_, ids)| ids).unwrap_or_default();
        for (id, skipped) in ids.iter().zip(skipped) {
            match skipped {
                // A job that moved while its page was read may be in it twice.
                None => step.changed += usize::from(self.changed.insert(self.hasher.hash_one(id))),
                Some(reason) if self.passes == 0 => *step.skipped.entry(*reason).or_default() += 1,
                Some(_) => {}
            }
        }
        self.has_changed |= step.changed > 0;
        step.erased = if erases { ids } else { Vec::new() };
        step
    }
}

fn sample(view: &JobView) -> Option<BulkSample> {
    let topic = view.topic()?.topic.clone();
    Some(BulkSample { id: view.id.clone(), topic, state: view.state.as_str().into() })
}
