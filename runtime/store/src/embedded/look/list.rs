//! Lists of jobs, page by page.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::inspect::{claimed_at, state};
use crate::batch::ByteBudget;
use crate::embedded::fault::{Done, Fault};
use crate::embedded::memory::topic::PriorityRows;
use crate::embedded::place::{JobLine, LAST_PLACE, of_topic, place_of};
use crate::embedded::row::{
    job_columns, lease_until, limit as limited, running_jobs, show_job, shown_jobs, stored_bytes,
};
use crate::embedded::store::EmbeddedStore;
use crate::list::{PAGE_BYTES, PAGE_JOBS};
use crate::{Cursor, JobState, JobView, ListJobs, Page, StateFilter, StoreError};
use gristmill_core::job::{JobId, Priority, TopicId};

const DOING: &str = "list jobs";

/// A topic, and how far its lines were claimed.
const TOPIC: &str =
    "SELECT number, claimed_high, claimed_normal, claimed_low FROM topics WHERE tenant = ?1 AND topic = ?2";

/// A line of ready jobs, behind a place in it.
const READY: &str = shown_jobs!("job_rows.number > ?1 AND job_rows.number <= ?2 ORDER BY job_rows.number LIMIT ?3");

/// Jobs that wait for others of their key, behind a place of a key.
const BEHIND_KEY: &str = shown_jobs!(
    "job_rows.number >> 43 = ?1 AND slot = 0 AND (key, job_rows.number) > (?2, ?3)
     ORDER BY key, job_rows.number LIMIT ?4"
);

const DELAYED: &str = shown_jobs!(
    "job_rows.number >> 43 = ?1 AND delayed_until IS NOT NULL AND (delayed_until, id) > (?2, ?3)
     ORDER BY delayed_until, id LIMIT ?4"
);

const DEAD: &str = shown_jobs!(
    "job_rows.number >> 43 = ?1 AND dead_since IS NOT NULL AND (dead_since, id) < (?2, ?3)
     ORDER BY dead_since DESC, id DESC LIMIT ?4"
);

/// Sorts numbers and ids, and reads only the jobs of the page.
const RUNNING: &str = shown_jobs!(
    "job_rows.number IN (SELECT job_rows.number",
    running_jobs!(),
    "topics.number = ?2 AND id > ?3 ORDER BY id LIMIT ?4) ORDER BY id"
);

#[async_trait]
impl ListJobs for EmbeddedStore {
    async fn jobs(
        &self,
        topic: &TopicId,
        place: StateFilter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let after = Cursor::within_one_store(after, place);
        let after = after.map_err(|problem| self.error(Fault::Refused(problem), DOING))?.cloned();
        let (topic, limit) = (topic.clone(), limit.min(PAGE_JOBS));
        self.read_list(DOING, move |connection, _| list(connection, &topic, place, after.as_ref(), limit)).await
    }
}

/// A page that is being filled.
struct Filling<'a> {
    connection: &'a Connection,
    topic: &'a TopicId,
    limit: usize,
    room: ByteBudget,
    jobs: Vec<JobView>,
    /// There are jobs that had no room.
    more: bool,
    /// The row of the last job.
    last: Option<i64>,
    last_key: Option<String>,
}

fn list(
    connection: &Connection,
    topic: &TopicId,
    place: StateFilter,
    after: Option<&Cursor>,
    limit: usize,
) -> Done<Page> {
    if limit == 0 {
        return Ok(Page { jobs: Vec::new(), next: after.cloned() });
    }
    let mut find = connection.prepare_cached(TOPIC)?;
    let found = find.query_row([topic.tenant.as_str(), topic.topic.as_str()], |row| {
        Ok((row.get::<_, i64>("number")?, PriorityRows::read(row)?))
    });
    let Some((number, claimed)) = found.optional()? else { return Ok(Page::default()) };
    let mut page = Filling {
        connection,
        topic,
        limit,
        room: ByteBudget::of(PAGE_BYTES),
        jobs: Vec::new(),
        more: false,
        last: None,
        last_key: None,
    };
    let last = after.and_then(Cursor::last).map_or("", JobId::as_str);
    // One more than there is room for shows whether there are more.
    let most = limited(limit + 1);
    match place {
        StateFilter::Ready => return page.list_ready(number, claimed, after),
        StateFilter::Delayed => page.fill(DELAYED, params![number, time_of(after, -1), last, most])?,
        StateFilter::Dead => page.fill(DEAD, params![number, time_of(after, i64::MAX), last, most])?,
        StateFilter::Running => page.fill(RUNNING, params![topic.tenant.as_str(), number, last, most])?,
    }
    let next =
        page.jobs.last().filter(|_| page.more).map(|last| Cursor::new(place, order_of(&last.state), last.id.clone()));
    Ok(Page { jobs: page.jobs, next })
}

impl Filling<'_> {
    fn fill(&mut self, select: &str, of: impl Params) -> Done<()> {
        let mut select = self.connection.prepare_cached(select)?;
        let mut rows = select.query(of)?;
        while let Some(row) = rows.next()? {
            if self.jobs.len() == self.limit || !self.room.take(stored_bytes(row)?) {
                self.more = true;
                return Ok(());
            }
            let job = show_job(row, self.topic)?;
            let (state, history) = state(row)?;
            self.last = row.get("number")?;
            self.last_key = row.get("key")?;
            let bare = JobView::over(job.spec.id.clone(), history.attempts, None);
            let (last_failure, claimed_at) = (history.failure, claimed_at(row)?);
            self.jobs.push(JobView { state, job: Some(job), last_failure, claimed_at, ..bare });
        }
        Ok(())
    }

    /// The lines one after the other, until the page is full.
    fn list_ready(mut self, number: i64, claimed: PriorityRows, after: Option<&Cursor>) -> Done<Page> {
        if let Some((after, key)) = after.and_then(|after| Some((after, after.key.as_deref()?))) {
            return self.list_behind(number, (key, after.number as i64));
        }
        let begin = after.map_or(Priority::High, |after| after.line);
        for line in Priority::ALL.into_iter().filter(|line| *line >= begin) {
            let (first, last) = JobLine::Of(line).bounds(number);
            let after =
                after.filter(|after| after.line == line).map_or(0, |after| (after.number as i64).clamp(0, LAST_PLACE));
            self.last = None;
            let left = limited(self.limit - self.jobs.len() + 1);
            self.fill(READY, params![claimed.get(line).max(first + after), last, left])?;
            if self.more {
                // If none of this line had room, it begins in the next page where it would have begun in this one.
                let place = self.last.map_or(after, place_of);
                return Ok(Page { jobs: self.jobs, next: Some(Cursor::in_line(line, place as f64, Vec::new())) });
            }
        }
        self.list_behind(number, ("", 0))
    }

    /// Adds the jobs that wait for others of their key, behind a place of a key.
    fn list_behind(mut self, number: i64, (key, place): (&str, i64)) -> Done<Page> {
        self.last = None;
        let after = if key.is_empty() { 0 } else { JobLine::Beside.number(number, place) };
        let left = limited(self.limit - self.jobs.len() + 1);
        self.fill(BEHIND_KEY, params![number, key, after, left])?;
        let (key, place) =
            self.last.zip(self.last_key.as_deref()).map_or((key, place), |(last, key)| (key, place_of(last)));
        let next = self.more.then(|| Cursor::behind_key(key, place as f64));
        Ok(Page { jobs: self.jobs, next })
    }
}

/// The time behind which a page begins.
fn time_of(after: Option<&Cursor>, first: i64) -> i64 {
    after.map_or(first, |after| after.number as i64)
}

/// What the place of a job is ordered by, besides its id.
fn order_of(state: &JobState) -> f64 {
    match state {
        JobState::Delayed { until } => until.as_millis() as f64,
        JobState::Dead { since } => since.as_millis() as f64,
        _ => 0.0,
    }
}
