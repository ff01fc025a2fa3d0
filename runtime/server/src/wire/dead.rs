//! Which of a topic's dead jobs are meant: these, those that fit a query, or all. And the dead in groups.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BATCH, WereDead};
use gristmill_core::job::JobId;
use gristmill_core::json::at_most;
use gristmill_store::DeadGroup;

/// Jobs by `ids`, by a query (`q`), or `all`: one of these.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chosen {
    #[serde(default, deserialize_with = "at_most::maybe::<BATCH, _, _>")]
    #[schemars(length(max = BATCH))]
    pub(crate) ids: Option<Vec<JobId>>,
    /// A query, with a condition besides topics and states; it needs the scope `read`, too.
    pub(crate) q: Option<String>,
    /// All that are dead.
    #[serde(default)]
    pub(crate) all: bool,
    /// With `q` or `all`: at most so many.
    #[schemars(range(min = 1, max = BATCH))]
    pub(crate) limit: Option<usize>,
    /// With `q` or `all`: the `next` of the answer before.
    pub(crate) after: Option<String>,
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

/// What was done to the jobs of a query, or to all. One request looks at 1000 jobs at most.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Done {
    pub(crate) changed: u64,
    pub(crate) looked_at: usize,
    /// Where to go on; null: every dead job was looked at.
    pub(crate) next: Option<String>,
}

/// For each id whether the job was dead; or what came of the query.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(untagged)]
pub(crate) enum Intervened {
    ByIds(WereDead),
    ByQuery(Done),
}

impl Chosen {
    /// # Errors
    /// In words: it names jobs in two ways, or in none, or too many.
    pub(crate) fn check(&self) -> Result<(), String> {
        match (&self.ids, &self.q, self.all) {
            (Some(_), None, false) if self.limit.is_none() && self.after.is_none() => Ok(()),
            (Some(_), None, false) => Err("`limit` and `after` go with `q` or `all`".into()),
            (None, Some(_), false) | (None, None, true) => match self.limit {
                Some(limit) if !(1..=BATCH).contains(&limit) => Err(format!("`limit` is 1 to {BATCH}")),
                _ => Ok(()),
            },
            _ => Err("say which jobs by `ids`, by `q` or with `\"all\": true`, one of them".into()),
        }
    }
}
