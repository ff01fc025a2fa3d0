//! What several stores know of the same jobs, as if they were one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::answers::Sweepable;
use super::counts::TopicCounts;
use super::inspect::{Cancelled, JobChanged, JobState, JobView};
use super::kept::RecordedJob;
use super::list::PAGE_JOBS;
use super::schedules::StoredSchedule;
use super::workflows::BatchSealed;
use gristmill_core::bill::{BillLine, Cost, Day};
use gristmill_core::job::{JobId, Progress, TopicId};
use gristmill_core::time::Timestamp;

/// Nothing: all have done it.
pub(crate) fn done(_: Vec<()>) {}

/// One answer after the other.
pub(crate) fn concat<A>(answers: Vec<Vec<A>>) -> Vec<A> {
    answers.into_iter().flatten().collect()
}

/// The first answer of one that knows something.
pub(crate) fn first<A>(answers: Vec<Option<A>>) -> Option<A> {
    answers.into_iter().flatten().next()
}

/// How many there are in all.
pub(crate) fn sum(answers: Vec<u64>) -> u64 {
    answers.into_iter().sum()
}

/// Whether one says so.
pub(crate) fn any(answers: Vec<bool>) -> bool {
    answers.contains(&true)
}

/// For each item, whether one says so.
pub(crate) fn any_of_each(answers: Vec<Vec<bool>>) -> Vec<bool> {
    each(answers, |one, other| one | other)
}

/// For each item, the progress that one knows.
pub(crate) fn first_of_each(answers: Vec<Vec<Option<Progress>>>) -> Vec<Option<Progress>> {
    each(answers, Option::or)
}

/// For each job the greatest change. One that is in two stores for a moment is changed in both.
pub(crate) fn most_of_each(answers: Vec<Vec<JobChanged>>) -> Vec<JobChanged> {
    each(answers, Ord::max)
}

/// For each job, what the store did that has it: of two, what ended it.
pub(crate) fn ended_of_each(answers: Vec<Vec<Cancelled>>) -> Vec<Cancelled> {
    each(answers, |one, other| if one == Cancelled::TooLate || other == Cancelled::Gone { other } else { one })
}

/// The answers of all, item by item.
fn each<A>(answers: Vec<Vec<A>>, join: impl Fn(A, A) -> A) -> Vec<A> {
    let join_all =
        |one: Vec<A>, other: Vec<A>| one.into_iter().zip(other).map(|(one, other)| join(one, other)).collect();
    answers.into_iter().reduce(join_all).unwrap_or_default()
}

/// What the store did that has the batch.
pub(crate) fn sealed(answers: Vec<BatchSealed>) -> BatchSealed {
    answers.into_iter().find(|answer| *answer != BatchSealed::NotWaiting).unwrap_or(BatchSealed::NotWaiting)
}

/// Jobs, by id; `None` if there are more than `limit`, or one store does not say.
pub(crate) fn at_most(answers: Vec<Option<Vec<JobId>>>, limit: usize) -> Option<Vec<JobId>> {
    let all: BTreeSet<JobId> = answers.into_iter().collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
    (all.len() <= limit).then(|| all.into_iter().collect())
}

/// Schedules, by id: of one that is in two stores for a moment, the last one.
pub(crate) fn by_id(answers: Vec<Vec<StoredSchedule>>) -> Vec<StoredSchedule> {
    let by_id = concat(answers).into_iter().map(|found| (found.id.clone(), found));
    by_id.collect::<BTreeMap<_, _>>().into_values().collect()
}

/// The lines of bills as one bill, in order.
pub(crate) fn bill(answers: Vec<Vec<BillLine>>) -> Vec<BillLine> {
    let mut lines: BTreeMap<(Day, TopicId), Cost> = BTreeMap::new();
    for BillLine { topic, day, cost } in concat(answers) {
        *lines.entry((day, topic)).or_default() += cost;
    }
    lines.into_iter().map(|((day, topic), cost)| BillLine { topic, day, cost }).collect()
}

/// What is to be swept in all.
pub(crate) fn sweepable(answers: Vec<Sweepable>) -> Sweepable {
    let mut all = Sweepable::default();
    answers.into_iter().for_each(|answer| all.add(answer));
    all
}

/// The counts of each topic, by name.
pub(crate) fn counts(answers: Vec<Vec<TopicCounts>>) -> Vec<TopicCounts> {
    let mut topics: BTreeMap<TopicId, TopicCounts> = BTreeMap::new();
    for counts in answers.into_iter().flatten() {
        match topics.get_mut(&counts.topic) {
            Some(known) => known.add(counts),
            None => drop(topics.insert(counts.topic.clone(), counts)),
        }
    }
    topics.into_values().collect()
}

/// Chooses the view of a job to show: the last one, but for those that are finished where another is not.
pub(crate) fn prefer(views: Vec<Option<JobView>>) -> Option<JobView> {
    let is_alive = |view: &JobView| view.state != JobState::Finished;
    let prefer = |one, other| if is_alive(&other) || !is_alive(&one) { other } else { one };
    views.into_iter().flatten().reduce(prefer)
}

/// The jobs that died first, without those that are in two stores.
pub(crate) fn oldest(dead: Vec<Vec<(Timestamp, JobId)>>, limit: usize) -> Vec<(Timestamp, JobId)> {
    let all: BTreeSet<(Timestamp, JobId)> = concat(dead).into_iter().collect();
    all.into_iter().take(limit.min(PAGE_JOBS)).collect()
}

/// The jobs that were recorded last, the latest first, without those that are in two stores.
pub(crate) fn latest_recorded(recorded: Vec<Vec<RecordedJob>>, limit: usize) -> Vec<RecordedJob> {
    let all: BTreeSet<RecordedJob> = concat(recorded).into_iter().collect();
    all.into_iter().rev().take(limit.min(PAGE_JOBS)).collect()
}

/// Chooses the view of a job that is over: the one that ended last.
pub(crate) fn latest_end(views: Vec<Option<JobView>>) -> Option<JobView> {
    let at = |view: &JobView| view.ended.as_ref().map(|ended| ended.at);
    views.into_iter().flatten().reduce(|one, other| if at(&one) > at(&other) { one } else { other })
}

/// The jobs that ended last, the latest first.
pub(crate) fn latest_ends(views: Vec<Vec<JobView>>, limit: usize) -> Vec<JobView> {
    let mut all = concat(views);
    all.sort_by_key(|view| Reverse(view.ended.as_ref().map(|ended| ended.at)));
    all.truncate(limit);
    all
}
