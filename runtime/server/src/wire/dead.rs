//! Which of a topic's dead jobs are meant: these, or those that are so. And the dead in groups.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BATCH, WereDead};
use gristmill_core::job::JobId;
use gristmill_core::json::at_most;
use gristmill_core::outcome::Reason;
use gristmill_core::time::Timestamp;
use gristmill_store::{ChooseJobs, DeadGroup, JobState, JobView};

/// Jobs by `ids`, by a `filter` or by a query: one of these.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chosen {
    #[serde(default, deserialize_with = "at_most::maybe::<BATCH, _, _>")]
    #[schemars(length(max = BATCH))]
    pub(crate) ids: Option<Vec<JobId>>,
    pub(crate) filter: Option<Filter>,
    /// A query, with a condition besides topics and states; it needs the scope `read`, too.
    pub(crate) q: Option<String>,
    /// With `filter` or `q`: at most so many.
    #[schemars(range(min = 1, max = BATCH))]
    pub(crate) limit: Option<usize>,
    /// With `filter` or `q`: the `next` of the answer before.
    pub(crate) after: Option<String>,
}

/// What a dead job must be, all of it.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    reason: Option<Reason>,
    code: Option<String>,
    /// Dead since before then.
    before_ms: Option<Timestamp>,
    /// Dead since then or later.
    after_ms: Option<Timestamp>,
}

/// The dead in groups, the largest first. If `next` is not null, there are more jobs, some of these groups.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Groups {
    pub(crate) groups: Vec<DeadGroup>,
    pub(crate) looked_at: usize,
    pub(crate) next: Option<String>,
}

/// Which dead jobs are grouped.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupsOf {
    /// The query that they fit, such as `topic:mail* died<1h`. All dead jobs fit an empty one.
    #[serde(default)]
    pub(crate) q: String,
    /// The `next` of the answer before.
    pub(crate) after: Option<String>,
}

/// What was done to the jobs that a filter or a query chose. One request looks at 1000 jobs at most.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Done {
    pub(crate) changed: usize,
    pub(crate) looked_at: usize,
    /// Where to go on; null: every dead job was looked at.
    pub(crate) next: Option<String>,
}

/// For each id whether the job was dead; or what came of the filter.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(untagged)]
pub(crate) enum Intervened {
    ByIds(WereDead),
    ByFilter(Done),
}

impl Chosen {
    /// # Errors
    /// In words: it names jobs in two ways, or in none, or too many.
    pub(crate) fn check(&self) -> Result<(), String> {
        match (&self.ids, &self.filter, &self.q) {
            (Some(_), None, None) if self.limit.is_none() && self.after.is_none() => Ok(()),
            (Some(_), None, None) => Err("`limit` and `after` go with `filter` or `q`".into()),
            (None, Some(_), None) | (None, None, Some(_)) => match self.limit {
                Some(limit) if !(1..=BATCH).contains(&limit) => Err(format!("`limit` is 1 to {BATCH}")),
                _ => Ok(()),
            },
            _ => Err("say which jobs by `ids`, by `filter` or by `q`, one of them".into()),
        }
    }
}

#[async_trait]
impl ChooseJobs for Filter {
    async fn fits(&self, job: &JobView) -> bool {
        let JobState::Dead { since } = job.state else { return false };
        let failure = job.last_failure.as_ref();
        self.before_ms.is_none_or(|before| since < before)
            && self.after_ms.is_none_or(|after| since >= after)
            && self.reason.is_none_or(|reason| failure.is_some_and(|failure| failure.reason == reason))
            && self.code.as_ref().is_none_or(|code| failure.is_some_and(|failure| failure.detail.code == *code))
    }

    /// Neither this job nor one that is dead for longer can fit.
    fn is_past(&self, job: &JobView) -> bool {
        let JobState::Dead { since } = job.state else { return false };
        self.after_ms.is_some_and(|after| since < after)
    }
}
