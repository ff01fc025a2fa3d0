//! Dead jobs by what killed them.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::JobQuery;
use super::find::{QueryCursor, search};
use super::group::{group_of, message_of};
use super::scan::Scanned;
use crate::error::StoreError;
use crate::inspect::{Inspect, JobState, JobView};
use crate::list::StateFilter;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::outcome::Reason;
use gristmill_core::time::Timestamp;

/// Dead jobs that one call looks at.
const LOOK_AT: usize = 10_000;

/// Dead jobs of a topic with the same reason, code and message, numbers and ids aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadGroup {
    /// The topic.
    #[serde(flatten)]
    pub topic: TopicId,
    /// Why the jobs were given up, if that is known.
    pub reason: Option<Reason>,
    /// The code of their failures.
    pub code: String,
    /// The first line of their messages, with `#` for what differs from job to job.
    pub message: String,
    /// The query that chooses them.
    pub q: String,
    /// How many there are.
    pub count: usize,
    /// When the first of them was given up, in milliseconds since 1970.
    #[serde(rename = "first_ms")]
    pub first: Timestamp,
    /// When the last of them was.
    #[serde(rename = "last_ms")]
    pub last: Timestamp,
    /// One of them: the latest.
    pub sample: JobId,
}

/// The groups of some dead jobs, the largest first.
#[derive(Debug, Clone, Default)]
pub struct DeadGroups {
    /// Of the jobs that were looked at.
    pub groups: Vec<DeadGroup>,
    /// How many jobs these are.
    pub looked_at: usize,
    /// Where to go on; groups of that answer may be some of these. `None`: there are no more.
    pub next: Option<QueryCursor>,
}

/// Groups the dead jobs of a tenant that fit. Looks at 10,000 jobs, 16 MiB of what they hold or 200 pages at most.
///
/// # Errors
/// Those of [`find`](super::find()). If the future is dropped, the store is as it was.
pub async fn dead_groups(
    store: &dyn Inspect,
    tenant: &Name,
    query: &JobQuery,
    after: Option<QueryCursor>,
) -> Result<DeadGroups, StoreError> {
    let query = query.clone().of_state(StateFilter::Dead);
    let (mut scanned, mut groups) = (Scanned::at_most(usize::MAX, LOOK_AT).of_any_size(), HashMap::new());
    let next = search(store, tenant, None, &query, after, &mut scanned, |job| add(&mut groups, &job)).await?;
    let mut groups: Vec<DeadGroup> = groups.into_values().collect();
    groups.sort_by(|one, other| {
        other.count.cmp(&one.count).then(other.last.cmp(&one.last)).then_with(|| one.q.cmp(&other.q))
    });
    Ok(DeadGroups { groups, looked_at: scanned.looked_at, next })
}

fn add(groups: &mut HashMap<String, DeadGroup>, view: &JobView) {
    let (JobState::Dead { since }, Some(job)) = (&view.state, &view.job) else { return };
    let failure = view.last_failure.as_ref();
    let topic = job.spec.topic.clone();
    let one = DeadGroup {
        reason: failure.map(|failure| failure.reason),
        code: failure.map(|failure| failure.detail.code.clone()).unwrap_or_default(),
        message: message_of(view),
        q: format!("topic:{} state:dead group:{}", topic.topic, group_of(view)),
        topic,
        count: 1,
        first: *since,
        last: *since,
        sample: view.id.clone(),
    };
    match groups.get_mut(&one.q) {
        Some(known) => known.add(one),
        None => _ = groups.insert(one.q.clone(), one),
    }
}

impl DeadGroup {
    /// Adds the jobs of the same group in another answer.
    pub fn add(&mut self, more: Self) {
        self.count += more.count;
        self.first = self.first.min(more.first);
        if more.last > self.last {
            (self.last, self.sample) = (more.last, more.sample);
        }
    }
}
