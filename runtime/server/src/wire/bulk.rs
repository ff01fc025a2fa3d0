//! Bulk actions: what is done to all jobs that fit a query.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gristmill_core::job::{Due, JobChange, JobId, Name, Priority};
use gristmill_core::time::Timestamp;
use gristmill_store::JobAction;

/// How many of the jobs that fit are shown.
pub(crate) const SAMPLES: usize = 5;

/// What is done to each job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BulkAction {
    /// Cancels jobs that wait, are ready, are delayed or run.
    Cancel,
    /// Makes dead jobs ready again, with all their attempts before them.
    Respawn,
    /// Deletes dead jobs.
    Delete,
    /// Changes when jobs that wait, are ready or are delayed become due, or their priority.
    Change,
    /// Removes jobs in every state for good, with the results that are kept of them and of jobs that are over, and the states of the key that the
    /// query names.
    Erase,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BulkState {
    /// The dry run: it counts the jobs, and changes none.
    Counting,
    /// Counted. It changes nothing until it is started.
    Counted,
    /// It changes jobs.
    Running,
    /// Every job that fits has had its turn.
    Done,
    /// A request or the end of the server ended it. What was changed before stays so.
    Aborted,
    /// It could not go on. What was changed before stays so.
    Failed,
}

/// A bulk action to make: its dry run begins.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBulk {
    /// The query that the jobs fit, such as `topic:mail* key:cust-17`. It needs a condition besides topics and states.
    pub q: String,
    /// What is done to them.
    pub action: BulkAction,
    /// With `change`: when they become due. `after_ms` counts from now.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Due::maybe")]
    pub due: Option<Due>,
    /// With `change`: their priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
}

/// A bulk action. It is kept in the memory of its server.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Bulk {
    /// Its id.
    pub id: String,
    /// What is done to each job.
    pub action: BulkAction,
    /// The query. Ages in it are counted from when it was made.
    pub q: String,
    /// Of `change`: when they become due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Due>,
    /// Of `change`: their priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Who made it: a token by its description and id, or `operator`.
    pub actor: String,
    /// How far it is.
    pub state: BulkState,
    /// When it was made, by the server's clock, in milliseconds since 1970. Jobs that were pushed or died later are not meant.
    #[serde(rename = "created_at_ms")]
    pub created_at: Timestamp,
    /// When the dry run was confirmed.
    #[serde(rename = "started_at_ms", default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it was done, aborted, or failed.
    #[serde(rename = "ended_at_ms", default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How many jobs were held against the query: in the dry run, and from zero again since it was started.
    pub looked_at: u64,
    /// How many jobs fit in the dry run. Of `change` only those that are otherwise; of `erase` with the states of the key.
    pub matched: u64,
    /// Some of these, at most five.
    pub samples: Vec<BulkSample>,
    /// How many jobs were changed.
    pub changed: u64,
    /// How many jobs were not, by reason: `too-late` (over, or dead; running, of `change`), `still-running` (of `erase`: asked to stop), `not-dead` (or another job holds its
    /// unique value), `unchanged`, and, once it is done, `no-longer-fits`.
    pub skipped: BTreeMap<String, u64>,
    /// Why it failed, or what aborted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A job that fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BulkSample {
    /// Its id.
    pub id: JobId,
    /// Its topic.
    pub topic: Name,
    /// Its state in the dry run.
    pub state: String,
}

/// The bulk actions of a tenant.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Bulks {
    /// The latest first, at most 100.
    pub(crate) bulk: Vec<Bulk>,
}

/// Confirms a dry run.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartBulk {
    /// The `matched` that was shown.
    pub(crate) expect: u64,
}

impl NewBulk {
    /// What is to be different about the jobs.
    pub(crate) fn change(&self) -> JobChange {
        JobChange { due: self.due, priority: self.priority }
    }
}

impl From<JobAction> for BulkAction {
    fn from(action: JobAction) -> Self {
        match action {
            JobAction::Cancel => Self::Cancel,
            JobAction::Respawn => Self::Respawn,
            JobAction::Delete => Self::Delete,
            JobAction::Change(_) => Self::Change,
        }
    }
}

impl BulkAction {
    /// The name, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Respawn => "respawn",
            Self::Delete => "delete",
            Self::Change => "change",
            Self::Erase => "erase",
        }
    }
}

impl BulkState {
    /// The name, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counting => "counting",
            Self::Counted => "counted",
            Self::Running => "running",
            Self::Done => "done",
            Self::Aborted => "aborted",
            Self::Failed => "failed",
        }
    }

    /// Whether it looks at jobs.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Counting | Self::Running)
    }

    /// Whether it has ended.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Aborted | Self::Failed)
    }
}

impl Bulk {
    /// The jobs that had their turn and were not changed.
    pub fn skipped_in_all(&self) -> u64 {
        self.skipped.values().sum()
    }
}
