//! Looks at the jobs of a topic in one state, in the order of their list, as far as one request may.

use crate::error::StoreError;
use crate::inspect::{JobView, ListJobs};
use crate::list::{Cursor, Page, StateFilter};
use gristmill_core::job::TopicId;

/// Of which so many are in memory at once.
const PAGE: usize = 200;

/// Says which jobs are wanted.
pub trait ChooseJobs: Send + Sync {
    /// Whether this one is.
    fn fits(&self, job: &JobView) -> bool;

    /// Whether neither this job nor one that stands behind it in its list can fit.
    fn is_past(&self, job: &JobView) -> bool;
}

/// How much more a request may look at and find.
#[derive(Debug, Clone, Copy)]
pub struct Scanned {
    /// The most jobs that may still be found.
    pub room: usize,
    /// Jobs that were looked at.
    pub looked_at: usize,
    /// The most of them.
    pub look_at: usize,
    /// Bytes of bodies that may still be read.
    pub bytes: usize,
    /// Pages that may still be asked for, so that many empty lists cost no more than a full one.
    pub pages: usize,
}

impl Scanned {
    /// So many jobs may be found, and so many looked at.
    pub const fn at_most(room: usize, look_at: usize) -> Self {
        Self { room, looked_at: 0, look_at, bytes: 16 << 20, pages: 200 }
    }

    /// Whether the request may do no more.
    pub const fn is_over(&self) -> bool {
        self.room == 0 || self.looked_at >= self.look_at || self.bytes == 0 || self.pages == 0
    }
}

/// Calls `found` with each job that fits, and returns where to go on. Returns `None` once no further job can fit.
///
/// # Errors
/// Those of [`ListJobs::jobs`]. If the future is dropped, the store is as it was.
pub async fn scan<S: ListJobs + ?Sized>(
    store: &S,
    (topic, state): (&TopicId, StateFilter),
    mut after: Option<Cursor>,
    choice: &dyn ChooseJobs,
    scanned: &mut Scanned,
    mut found: impl FnMut(JobView) + Send,
) -> Result<Option<Cursor>, StoreError> {
    loop {
        let most = PAGE.min(scanned.look_at - scanned.looked_at);
        let page = page(store, (topic, state), after.as_ref(), most, choice, scanned).await?;
        scanned.looked_at += page.jobs.len();
        let is_past = page.jobs.last().is_some_and(|job| choice.is_past(job));
        for job in page.jobs {
            scanned.bytes = scanned.bytes.saturating_sub(job.job.as_ref().map_or(0, |job| job.spec.body.data.len()));
            if choice.fits(&job) {
                scanned.room -= 1;
                found(job);
            }
        }
        after = page.next.filter(|_| !is_past);
        if after.is_none() || scanned.is_over() {
            return Ok(after);
        }
    }
}

/// A page with no more fitting jobs than there is room for, so that none is lost behind the page's cursor.
async fn page<S: ListJobs + ?Sized>(
    store: &S,
    (topic, state): (&TopicId, StateFilter),
    after: Option<&Cursor>,
    mut most: usize,
    choice: &dyn ChooseJobs,
    scanned: &mut Scanned,
) -> Result<Page, StoreError> {
    loop {
        scanned.pages = scanned.pages.saturating_sub(1);
        let page = store.jobs(topic, state, after, most).await?;
        let mut fitting = page.jobs.iter().enumerate().filter(|(_, job)| choice.fits(job));
        match fitting.nth(scanned.room) {
            // The page ends before the first one too many.
            Some((index, _)) => most = index,
            None => return Ok(page),
        }
    }
}
