//! Finds jobs in the topics of a tenant.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::ended::search_ended;
use super::scan::{ChooseJobs, Scanned, scan};
use super::{JobField, JobQuery};
use crate::counts::TopicCounts;
use crate::error::StoreError;
use crate::inspect::{Inspect, JobState, JobView};
use crate::list::{Cursor, StateFilter};
use crate::look_up::look_up;
use crate::progress::show_progress;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;

/// Jobs that one call looks at.
const LOOK_AT: usize = 10_000;

/// Jobs of a key that are looked up one by one: of more, lists are read.
const OF_KEY: usize = 200;
/// In place of what a list is ordered by, in cursors behind jobs that were looked up, which are in the order of their ids.
const BY_ID: f64 = -1.0;

/// Jobs that fit a query.
#[derive(Debug, Clone, Default)]
pub struct FoundJobs {
    /// In the order of topics, states, and their lists. As [`ListJobs::jobs`](crate::ListJobs::jobs) shows them.
    pub jobs: Vec<JobView>,
    /// How many jobs were held against the query.
    pub looked_at: usize,
    /// Where to go on. `None`: there are no more.
    pub next: Option<QueryCursor>,
}

/// Where a search goes on. Its text is good for URLs.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryCursor {
    pub(super) topic: Name,
    pub(super) position: TopicPosition,
}

/// Where in a topic.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TopicPosition {
    /// At the front of a list.
    List(StateFilter),
    Behind(Cursor),
    /// Among the jobs that are over: behind the one that ended then, or at the front.
    Ended(Option<(Timestamp, JobId)>),
}

/// The text is no cursor of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no cursor of a search: give back the `next` of the answer before, and nothing else")]
pub struct BadQueryCursor;

const FINISHED: &str = "finished";

impl fmt::Display for QueryCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.topic)?;
        match &self.position {
            TopicPosition::List(state) => f.write_str(state.as_str()),
            TopicPosition::Behind(after) => write!(f, "{after}"),
            TopicPosition::Ended(None) => f.write_str(FINISHED),
            TopicPosition::Ended(Some((at, id))) => write!(f, "{FINISHED}:{}:{id}", at.as_millis()),
        }
    }
}

impl FromStr for QueryCursor {
    type Err = BadQueryCursor;

    fn from_str(text: &str) -> Result<Self, BadQueryCursor> {
        let (topic, position) = text.split_once('/').ok_or(BadQueryCursor)?;
        let topic = topic.parse().map_err(|_| BadQueryCursor)?;
        Ok(Self { topic, position: TopicPosition::parse(position).ok_or(BadQueryCursor)? })
    }
}

impl TopicPosition {
    fn parse(text: &str) -> Option<Self> {
        if let Some(state) = StateFilter::parse(text) {
            return Some(Self::List(state));
        }
        match text.strip_prefix(FINISHED) {
            Some("") => Some(Self::Ended(None)),
            Some(last) => {
                let (at, id) = last.strip_prefix(':')?.split_once(':')?;
                Some(Self::Ended(Some((Timestamp::from_millis(at.parse().ok()?), id.parse().ok()?))))
            }
            None => text.parse().ok().map(Self::Behind),
        }
    }

    /// The list, if it is in one, and where there.
    fn in_list(&self) -> Option<(StateFilter, Option<&Cursor>)> {
        match self {
            Self::List(state) => Some((*state, None)),
            Self::Behind(after) => Some((after.place(), Some(after))),
            Self::Ended(_) => None,
        }
    }
}

/// Finds at most `limit` jobs of a tenant that fit, or about 4 MiB of them: of one topic, or of all. Looks at 10,000 jobs, 16 MiB of what they
/// hold or 200 pages at most, so that `next` may go on behind a call that found nothing. An id in the query is looked up, and so are the ready
/// and running jobs of a key, by id, unless they are very many. The holder of a unique value in the query comes first.
///
/// A query that names the state `finished` finds what is remembered of jobs that are over, behind all others: the last
/// [`REMEMBERED`](crate::REMEMBERED) of each topic, the latest first.
///
/// Each job is held against the query once, and others have their turn on the thread while it looks.
///
/// # Errors
/// Those of [`ListJobs::jobs`](crate::ListJobs::jobs) and [`Query::counts`](crate::Query::counts). If the future is dropped, the store
/// is as it was.
pub async fn find(
    store: &dyn Inspect,
    tenant: &Name,
    topic: Option<&TopicId>,
    query: &JobQuery,
    after: Option<QueryCursor>,
    limit: usize,
) -> Result<FoundJobs, StoreError> {
    find_some(store, tenant, topic, query, after, Scanned::at_most(limit, LOOK_AT), |view| view).await
}

/// The same for who needs no more than which jobs they are: without bodies, metadata, failures and checkpoints, so that no number of bytes
/// ends it.
///
/// # Errors
/// Those of [`find`].
pub async fn find_without_payloads(
    store: &dyn Inspect,
    tenant: &Name,
    query: &JobQuery,
    after: Option<QueryCursor>,
    limit: usize,
) -> Result<FoundJobs, StoreError> {
    let scanned = Scanned::at_most(limit, LOOK_AT).of_any_size();
    find_some(store, tenant, None, query, after, scanned, without_payloads).await
}

fn without_payloads(mut view: JobView) -> JobView {
    if let Some(job) = &mut view.job {
        (job.spec.body, job.spec.metadata) = Default::default();
    }
    JobView { last_failure: None, checkpoint: None, ..view }
}

async fn find_some(
    store: &dyn Inspect,
    tenant: &Name,
    topic: Option<&TopicId>,
    query: &JobQuery,
    after: Option<QueryCursor>,
    mut scanned: Scanned,
    kept: fn(JobView) -> JobView,
) -> Result<FoundJobs, StoreError> {
    if let Some(id) = query.id() {
        let job = look_up(store, tenant, &id).await?;
        let is_in_topic = |view: &JobView| view.topic().is_some_and(|of| topic.is_none_or(|topic| of == topic));
        let job = match job.filter(is_in_topic) {
            Some(view) if query.fits(&view).await => Some(kept(JobView { result: None, ..view })),
            _ => None,
        };
        return Ok(FoundJobs { jobs: job.into_iter().collect(), looked_at: 1, next: None });
    }
    let mut jobs = Vec::new();
    if after.is_none() {
        jobs = unique_holders(store, tenant, topic, query, &mut scanned).await?;
    }
    let known: Vec<JobId> = jobs.iter().map(|view| view.id.clone()).collect();
    let mut add = |job: JobView| {
        if !known.contains(&job.id) {
            jobs.push(kept(job));
        }
    };
    let mut next = search(store, tenant, topic, query, after.clone(), &mut scanned, &mut add).await?;
    if next.is_none() && query.wants_finished() {
        next = search_ended(store, tenant, topic, query, after, &mut scanned, &mut add).await?;
    }
    show_progress(store, tenant, &mut jobs).await?;
    Ok(FoundJobs { jobs, looked_at: scanned.looked_at, next })
}

/// The jobs that fit and hold the unique value that the query names: those that people look for, before any list is read. Further on,
/// lists may show them again.
async fn unique_holders(
    store: &dyn Inspect,
    tenant: &Name,
    topic: Option<&TopicId>,
    query: &JobQuery,
    scanned: &mut Scanned,
) -> Result<Vec<JobView>, StoreError> {
    let Some(value) = query.only(&JobField::Unique) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    let topics: BTreeSet<TopicId> =
        lists(store, tenant, topic, query).await?.into_iter().map(|(topic, _)| topic).collect();
    for topic in &topics {
        if scanned.is_over() {
            break;
        }
        let Some(id) = store.unique_holder(topic, value).await? else { continue };
        scanned.looked_at += 1;
        let is_in_topic = |view: &JobView| view.topic() == Some(topic) && view.state != JobState::Finished;
        let Some(view) = store.job(tenant, &id).await?.filter(is_in_topic) else { continue };
        if scanned.holds_against(query, &view).await {
            scanned.found(&view);
            found.push(JobView { result: None, ..view });
        }
    }
    Ok(found)
}

/// Looks at one list after the other.
pub(super) async fn search(
    store: &dyn Inspect,
    tenant: &Name,
    topic: Option<&TopicId>,
    query: &JobQuery,
    after: Option<QueryCursor>,
    scanned: &mut Scanned,
    mut found: impl FnMut(JobView) + Send,
) -> Result<Option<QueryCursor>, StoreError> {
    let begin = match &after {
        Some(after) => match after.position.in_list() {
            Some((state, behind)) => Some((&after.topic, state, behind)),
            None => return Ok(None),
        },
        None => None,
    };
    let mut lists = lists(store, tenant, topic, query).await?;
    let order =
        |topic: &Name, state: StateFilter| (topic.clone(), StateFilter::ALL.iter().position(|known| *known == state));
    if let Some((topic, state, _)) = begin {
        let begin = order(topic, state);
        lists.retain(|(topic, state)| order(&topic.topic, *state) >= begin);
    }
    for (topic, state) in lists {
        let goes_on = |position: TopicPosition| Some(QueryCursor { topic: topic.topic.clone(), position });
        if scanned.is_over() {
            return Ok(goes_on(TopicPosition::List(state)));
        }
        let here = begin.filter(|(of, begin, _)| **of == topic.topic && *begin == state);
        let here = here.and_then(|(.., behind)| behind.cloned());
        let (by_id, here): (Option<Cursor>, Option<Cursor>) = match here {
            Some(after) if after.number < 0.0 && after.number.is_finite() => (Some(after), None),
            here => (None, here),
        };
        // A list that was begun is read to its end.
        let looked_up = match here {
            None => jobs_of_key(store, &topic, state, query).await?,
            Some(_) => None,
        };
        if let Some(ids) = looked_up {
            let last = by_id.as_ref().and_then(Cursor::last);
            let ids: Vec<JobId> = ids.into_iter().filter(|id| last.is_none_or(|last| id > last)).collect();
            if let Some(last) = look_at(store, tenant, &ids, (state, query), scanned, &mut found).await? {
                return Ok(goes_on(TopicPosition::Behind(Cursor::new(state, BY_ID, last))));
            }
            continue;
        }
        if let Some(next) = scan(store, (&topic, state), here, query, scanned, &mut found).await? {
            return Ok(goes_on(TopicPosition::Behind(next)));
        }
    }
    Ok(None)
}

/// The jobs of the key that the query names, if the store can look up those of this state.
async fn jobs_of_key(
    store: &dyn Inspect,
    topic: &TopicId,
    state: StateFilter,
    query: &JobQuery,
) -> Result<Option<Vec<JobId>>, StoreError> {
    let has_all = matches!(state, StateFilter::Ready | StateFilter::Running);
    match query.only(&JobField::Key).filter(|_| has_all) {
        Some(key) => store.jobs_of_key(topic, key, OF_KEY).await,
        None => Ok(None),
    }
}

/// Calls `found` with each of these jobs that fits and is in this state. Returns the last one that was looked at, if the request may look no further.
async fn look_at(
    store: &dyn Inspect,
    tenant: &Name,
    ids: &[JobId],
    (state, query): (StateFilter, &JobQuery),
    scanned: &mut Scanned,
    mut found: impl FnMut(JobView) + Send,
) -> Result<Option<JobId>, StoreError> {
    for (n, id) in ids.iter().enumerate() {
        scanned.looked_at += 1;
        if let Some(view) = store.job(tenant, id).await?
            && view.state.as_str() == state.as_str()
            && scanned.holds_against(query, &view).await
        {
            scanned.found(&view);
            found(JobView { result: None, ..view });
        }
        if scanned.is_over() && n + 1 < ids.len() {
            return Ok(Some(id.clone()));
        }
    }
    Ok(None)
}

/// The lists in which there may be jobs that fit, in order.
async fn lists(
    store: &dyn Inspect,
    tenant: &Name,
    topic: Option<&TopicId>,
    query: &JobQuery,
) -> Result<Vec<(TopicId, StateFilter)>, StoreError> {
    let states: Vec<_> = StateFilter::ALL.into_iter().filter(|state| query.fits_state(*state)).collect();
    if let Some(topic) = topic {
        let states = states.into_iter().filter(|_| query.fits_topic(&topic.topic));
        return Ok(states.map(|state| (topic.clone(), state)).collect());
    }
    let counts = store.counts(tenant).await?;
    let topics = counts.iter().filter(|counts| query.fits_topic(&counts.topic.topic));
    let of = |counts: &TopicCounts, state| match state {
        StateFilter::Ready => counts.ready,
        StateFilter::Delayed => counts.delayed,
        StateFilter::Running => counts.running,
        StateFilter::Dead => counts.dead,
    };
    Ok(topics
        .flat_map(|counts| {
            let full = states.iter().filter(move |state| of(counts, **state) > 0);
            full.map(|state| (counts.topic.clone(), *state))
        })
        .collect())
}
