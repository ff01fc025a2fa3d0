//! What several stores know of the same jobs, as if they were one.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::batch::ByteBudget;
use super::error::StoreError;
use super::inspect::{DeadJob, JobState, JobView};
use super::list::PAGE_BYTES;
use super::weight::Weigh;
use gristmill_core::job::Progress;

/// Of two views of one job, the one to show: the second, unless it is finished and the first is not.
pub(crate) fn prefer(one: JobView, other: JobView) -> JobView {
    let is_alive = |view: &JobView| view.state != JobState::Finished;
    if is_alive(&other) || !is_alive(&one) { other } else { one }
}

/// The first `end` dead jobs, given a function that reads them from one to another.
pub(crate) async fn dead_until<F: Future<Output = Result<Vec<DeadJob>, StoreError>>>(
    end: usize,
    read: impl Fn(usize, usize) -> F,
) -> Result<Vec<DeadJob>, StoreError> {
    let mut all = Vec::new();
    while all.len() < end {
        let page = read(all.len(), end - all.len()).await?;
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    Ok(all)
}

/// The dead jobs of several stores in the order of one, without those that are in two of them: as many as a page has room for.
pub(crate) fn dead_between(dead: impl Iterator<Item = DeadJob>, skip: usize, limit: usize) -> Vec<DeadJob> {
    let mut seen = BTreeSet::new();
    let mut dead: Vec<DeadJob> = dead.filter(|dead| seen.insert(dead.job.spec.id.clone())).collect();
    dead.sort_by_key(|dead| Reverse((dead.since, dead.job.spec.id.clone())));
    let mut room = ByteBudget::of(PAGE_BYTES);
    let has_room = |dead: &DeadJob| room.take(dead.weight());
    dead.into_iter().skip(skip).take(limit).take_while(has_room).collect()
}

/// Of two views of one job that is over, the one that ended later.
pub(crate) fn latest_end(one: JobView, other: JobView) -> JobView {
    let at = |view: &JobView| view.ended.as_ref().map(|ended| ended.at);
    if at(&one) > at(&other) { one } else { other }
}

/// The jobs of several stores that ended last, the latest first.
pub(crate) fn latest_ends(all: impl Iterator<Item = JobView>, limit: usize) -> Vec<JobView> {
    let mut all: Vec<JobView> = all.collect();
    all.sort_by_key(|view| Reverse(view.ended.as_ref().map(|ended| ended.at)));
    all.truncate(limit);
    all
}

/// For each of so many deliveries the progress that one of several stores knows.
pub(crate) fn first_known(deliveries: usize, answers: Vec<Vec<Option<Progress>>>) -> Vec<Option<Progress>> {
    let mut known = vec![None; deliveries];
    for answer in answers {
        known.iter_mut().zip(answer).for_each(|(known, here)| *known = known.take().or(here));
    }
    known
}
