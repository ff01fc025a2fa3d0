//! Looks at the jobs of a topic in one state, in the order of their list, as far as one request may.

use std::collections::HashMap;

use async_trait::async_trait;

use crate::error::StoreError;
use crate::inspect::{JobView, ListJobs};
use crate::list::{Cursor, PAGE_BYTES, Page, StateFilter};
use crate::weight::Weigh;
use gristmill_core::job::{JobId, TopicId};

/// How many of them are in memory at once.
const PAGE: usize = 200;
/// After this many bytes others have their turn on the thread.
const TURN: usize = 64 << 10;
/// What it costs to look at a job that holds nothing, in bytes.
const JOB: usize = 256;

/// Says which jobs are wanted.
#[async_trait]
pub trait ChooseJobs: Send + Sync {
    /// Whether this one is. Lets others run while it reads a large one.
    async fn fits(&self, job: &JobView) -> bool;

    /// Whether neither this job nor one that stands behind it in its list can fit.
    fn is_past(&self, job: &JobView) -> bool;
}

/// How much more a request may look at and find.
#[derive(Debug, Clone, Copy)]
pub struct Scanned {
    /// The most jobs that may still be found.
    pub room: usize,
    /// Bytes that they may still hold. What goes beyond it is at most a page.
    pub room_bytes: usize,
    /// Jobs that were looked at.
    pub looked_at: usize,
    /// The most of them.
    pub look_at: usize,
    /// Bytes that may still be read, of all that jobs hold.
    pub bytes: usize,
    /// Pages that may still be asked for, so that many empty lists cost no more than a full one.
    pub pages: usize,
    /// What was read since others had their turn.
    since_turn: usize,
}

impl Scanned {
    /// At most `room` jobs may be found, and `look_at` looked at.
    pub const fn at_most(room: usize, look_at: usize) -> Self {
        Self { room, room_bytes: PAGE_BYTES, looked_at: 0, look_at, bytes: 16 << 20, pages: 200, since_turn: 0 }
    }

    /// The same for jobs of which only what is small is kept.
    #[must_use]
    pub const fn of_any_size(self) -> Self {
        Self { room_bytes: usize::MAX, ..self }
    }

    /// Whether the request may do no more.
    pub const fn is_over(&self) -> bool {
        self.room == 0 || self.room_bytes == 0 || self.looked_at >= self.look_at || self.bytes == 0 || self.pages == 0
    }

    /// Holds a job against what is wanted, and counts what was read. Lets others run from time to time.
    pub(super) async fn holds_against(&mut self, choice: &dyn ChooseJobs, job: &JobView) -> bool {
        let (fits, bytes) = (choice.fits(job).await, job.weight());
        self.bytes = self.bytes.saturating_sub(bytes);
        self.since_turn = self.since_turn.saturating_add(bytes).saturating_add(JOB);
        if self.since_turn >= TURN {
            self.since_turn = 0;
            tokio::task::yield_now().await;
        }
        fits
    }

    /// Counts a job that was found.
    pub(super) fn found(&mut self, job: &JobView) {
        self.room = self.room.saturating_sub(1);
        self.room_bytes = self.room_bytes.saturating_sub(job.weight());
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
        let (page, fitting) = page(store, (topic, state), after.as_ref(), most, choice, scanned).await?;
        scanned.looked_at += page.jobs.len();
        let is_past = page.jobs.last().is_some_and(|job| choice.is_past(job));
        for job in page.jobs {
            if fitting.get(&job.id) == Some(&true) {
                scanned.found(&job);
                found(job);
            }
        }
        after = page.next.filter(|_| !is_past);
        if after.is_none() || scanned.is_over() {
            return Ok(after);
        }
    }
}

/// A page with no more fitting jobs than there is room for, so that none is lost behind the page's cursor; and which of its jobs fit. Each job
/// is held against what is wanted once.
async fn page<S: ListJobs + ?Sized>(
    store: &S,
    (topic, state): (&TopicId, StateFilter),
    after: Option<&Cursor>,
    mut most: usize,
    choice: &dyn ChooseJobs,
    scanned: &mut Scanned,
) -> Result<(Page, HashMap<JobId, bool>), StoreError> {
    let mut known = HashMap::new();
    loop {
        scanned.pages = scanned.pages.saturating_sub(1);
        let page = store.jobs(topic, state, after, most).await?;
        let (mut fitting, mut too_many) = (0, None);
        for (index, job) in page.jobs.iter().enumerate() {
            let fits = match known.get(&job.id) {
                Some(fits) => *fits,
                None => scanned.holds_against(choice, job).await,
            };
            known.insert(job.id.clone(), fits);
            fitting += usize::from(fits);
            if fitting > scanned.room {
                too_many = Some(index);
                break;
            }
        }
        match too_many {
            // The page ends before the first one too many.
            Some(index) => most = index,
            None => return Ok((page, known)),
        }
    }
}
