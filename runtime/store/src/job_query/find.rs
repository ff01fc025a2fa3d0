//! Finds jobs in the topics of a tenant.

use std::fmt;
use std::str::FromStr;

use super::JobQuery;
use super::scan::{ChooseJobs, Scanned, scan};
use crate::ended::{REMEMBERED, look_up};
use crate::error::StoreError;
use crate::inspect::{Inspect, JobView, TopicCounts};
use crate::list::{Cursor, StateFilter};
use crate::progress::show_progress;
use gristmill_core::job::{Name, TopicId};

/// Jobs that one call looks at.
const LOOK_AT: usize = 10_000;

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
/// most, so that `next` may go on behind a call that found nothing. An id in the query is looked up.
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
    let next = search(store, tenant, topic, query, after, &mut scanned, |job| jobs.push(job)).await?;
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
        if let Some(next) = scan(store, (&topic, state), here, query, scanned, &mut found).await? {
            return Ok(goes_on(Some(next)));
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
