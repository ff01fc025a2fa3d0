//! Finds jobs in the topics of a tenant.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::scan::{ChooseJobs, Scanned, scan};
use super::{JobField, JobQuery};
use crate::counts::TopicCounts;
use crate::ended::{REMEMBERED, look_up};
use crate::error::StoreError;
use crate::inspect::{Inspect, JobState, JobView};
use crate::list::{Cursor, StateFilter};
use crate::progress::show_progress;
use gristmill_core::job::{JobId, Name, TopicId};

/// Jobs that one call looks at.
const LOOK_AT: usize = 10_000;

/// Jobs of a key that are looked up one by one: of more, lists are read.
const OF_KEY: usize = 200;
/// In place of what a list is ordered by, in cursors behind jobs that were looked up, which are in the order of their ids.
const BY_ID: f64 = -1.0;

/// Jobs that fit a query.
#[derive(Debug, Clone, Default)]
pub struct Found {
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
    topic: Name,
    state: StateFilter,
    /// `None`: at the front.
    after: Option<Cursor>,
}

/// The text is no cursor of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no cursor of a search: give back the `next` of the answer before, and nothing else")]
pub struct BadQueryCursor;

impl fmt::Display for QueryCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.after {
            Some(after) => write!(f, "{}/{after}", self.topic),
            None => write!(f, "{}/{}", self.topic, self.state.as_str()),
        }
    }
}

impl FromStr for QueryCursor {
    type Err = BadQueryCursor;

    fn from_str(text: &str) -> Result<Self, BadQueryCursor> {
        let (topic, place) = text.split_once('/').ok_or(BadQueryCursor)?;
        let topic = topic.parse().map_err(|_| BadQueryCursor)?;
        if let Some(state) = StateFilter::parse(place) {
            return Ok(Self { topic, state, after: None });
        }
        let after: Cursor = place.parse().map_err(|_| BadQueryCursor)?;
        Ok(Self { topic, state: after.place(), after: Some(after) })
    }
}

/// Finds at most `limit` jobs of a tenant that fit: of one topic, or of all. Looks at 10,000 jobs, 16 MiB of bodies or 200 pages at
/// most, so that `next` may go on behind a call that found nothing. An id in the query is looked up, and so are the ready and running jobs
/// of a key, by id, unless they are very many. The holder of a unique value in the query comes first.
///
/// A query that names the state `finished` finds what is remembered of jobs that are over, behind all others and without a `next`: the last
/// [`REMEMBERED`] of each topic, the latest first.
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
) -> Result<Found, StoreError> {
    if let Some(id) = query.id() {
        let job = look_up(store, tenant, &id).await?;
        let is_in_topic = |view: &JobView| view.topic().is_some_and(|of| topic.is_none_or(|topic| of == topic));
        let job = job.filter(|view| is_in_topic(view) && query.fits(view)).map(|view| JobView { result: None, ..view });
        return Ok(Found { jobs: job.into_iter().collect(), looked_at: 1, next: None });
    }
    let (mut scanned, mut jobs) = (Scanned::at_most(limit, LOOK_AT), Vec::new());
    if after.is_none() {
        jobs = unique_holders(store, tenant, topic, query, &mut scanned).await?;
    }
    let known: Vec<JobId> = jobs.iter().map(|view| view.id.clone()).collect();
    let add = |job: JobView| {
        if !known.contains(&job.id) {
            jobs.push(job);
        }
    };
    let next = search(store, tenant, topic, query, after, &mut scanned, add).await?;
    if next.is_none() && query.wants_finished() {
        let topics = match topic {
            Some(topic) => vec![topic.clone()],
            None => store.counts(tenant).await?.into_iter().map(|counts| counts.topic).collect(),
        };
        for topic in topics.iter().filter(|topic| query.fits_topic(&topic.topic)) {
            let ended = store.ended_jobs(topic, REMEMBERED).await?;
            scanned.looked_at += ended.len();
            let room = limit.saturating_sub(jobs.len());
            jobs.extend(ended.into_iter().filter(|view| query.fits(view)).take(room));
            if jobs.len() >= limit {
                break;
            }
        }
    }
    show_progress(store, tenant, &mut jobs).await?;
    Ok(Found { jobs, looked_at: scanned.looked_at, next })
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
        let view = store.job(tenant, &id).await?.filter(|view| view.topic() == Some(topic) && query.fits(view));
        if let Some(view) = view.filter(|view| view.state != JobState::Finished) {
            scanned.room -= 1;
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
    let mut lists = lists(store, tenant, topic, query).await?;
    let order =
        |topic: &Name, state: StateFilter| (topic.clone(), StateFilter::ALL.iter().position(|known| *known == state));
    if let Some(after) = &after {
        let begin = order(&after.topic, after.state);
        lists.retain(|(topic, state)| order(&topic.topic, *state) >= begin);
    }
    for (topic, state) in lists {
        let goes_on = |after: Option<Cursor>| Some(QueryCursor { topic: topic.topic.clone(), state, after });
        if scanned.is_over() {
            return Ok(goes_on(None));
        }
        let here = after.as_ref().filter(|after| after.topic == topic.topic && after.state == state);
        let here = here.and_then(|after| after.after.clone());
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
                return Ok(goes_on(Some(Cursor::new(state, BY_ID, last))));
            }
            continue;
        }
        if let Some(next) = scan(store, (&topic, state), here, query, scanned, &mut found).await? {
            return Ok(goes_on(Some(next)));
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
        {
            scanned.bytes = scanned.bytes.saturating_sub(view.job.as_ref().map_or(0, |job| job.spec.body.data.len()));
            if query.fits(&view) {
                scanned.room -= 1;
                found(JobView { result: None, ..view });
            }
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
