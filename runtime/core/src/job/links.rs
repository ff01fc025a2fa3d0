//! What a job waits for besides its time, and which job waits for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::JobId;

/// How many jobs a job may name in `after`.
pub const AFTER: usize = 1000;

/// How many jobs may wait for one job.
pub const WAITERS: usize = 1000;

/// How many jobs one job may wait for in all: what it names in `after`, and the members of its batch.
pub const MEMBERS: usize = 10_000;

/// The name of the metadata in which a handler finds what became of the jobs that its job waited for.
pub const PREDECESSORS: &str = "predecessors";

/// The name of the metadata that says for how many jobs it waited, listed or not.
pub const PREDECESSORS_TOTAL: &str = "predecessors-total";

/// The name of the metadata that says how many of them were not done.
pub const PREDECESSORS_FAILED: &str = "predecessors-failed";

/// The names of metadata that only the runner gives a job.
pub const RESERVED: [&str; 3] = [PREDECESSORS, PREDECESSORS_TOTAL, PREDECESSORS_FAILED];

/// The name of [`RESERVED`] that a handler could take this one for: variables and headers have no case, and variables have `_` for all but
/// letters and digits.
pub fn reserved(name: &str) -> Option<&'static str> {
    let folded = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    RESERVED.into_iter().find(|reserved| reserved.chars().map(folded).eq(name.chars().map(folded)))
}

/// What becomes of a job if one that it waited for was not done.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum AfterFailed {
    /// It becomes dead itself, with the reason `predecessor`, and does not run.
    #[default]
    Dead,
    /// It runs, and its handler sees what became of each.
    Run,
}

impl AfterFailed {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Dead, Self::Run];

    /// The name, in kebab case.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What became of a job that another one waits for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::Display, strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Ended {
    /// It is done.
    Complete,
    /// It was given up.
    Dead,
    /// Its time to live ended before an attempt began.
    Expired,
    /// It was cancelled.
    Cancelled,
    /// It was not known when a handler enqueued the job that was to wait for it, or as many jobs waited for it as may.
    Unknown,
}

impl Ended {
    /// All there are.
    pub const ALL: [Self; 5] = [Self::Complete, Self::Dead, Self::Expired, Self::Cancelled, Self::Unknown];

    /// The name, in kebab case.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// By which letter stores know it.
    pub const fn letter(self) -> char {
        match self {
            Self::Complete => 'c',
            Self::Dead => 'd',
            Self::Expired => 'e',
            Self::Cancelled => 'x',
            Self::Unknown => 'u',
        }
    }

    /// The one with this letter; `None` of a job that has not ended.
    pub fn of_letter(letter: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ended| letter.starts_with(ended.letter()))
    }
}

/// Why a job cannot be stored that is to wait for others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "problem", content = "job", rename_all = "kebab-case")]
pub enum NoLink {
    /// It names a job that the store does not know.
    #[error(
        "the store has no job `{0}` to wait for, or to be a batch: it never was, or it is over and its result is not kept; to wait for \
         a job that may be over, push that one with `keep-result`, or give its topic a `result-retention`"
    )]
    Unknown(JobId),
    /// Too many jobs wait for one.
    #[error("{WAITERS} jobs wait for job `{0}`, and no more may: put the jobs between into a batch, and wait for that")]
    Crowded(JobId),
    /// The batch waits no longer, or never did.
    #[error("job `{0}` is no open batch: push one with `open`, and its members before it is sealed")]
    NotOpen(JobId),
    /// The batch has as many members as it may.
    #[error("batch `{0}` waits for {MEMBERS} jobs, and for no more: begin another one")]
    Full(JobId),
    /// The batch could wait for itself.
    #[error(
        "job `{0}` waits for jobs outside of the batch, so no member of the batch can wait for it: a member waits for other members, \
         or for jobs that wait for none"
    )]
    Tangled(JobId),
    /// The job is in another partition.
    #[error(
        "job `{0}` is in another partition than jobs of this topic with this key: see `Spread topics` in docs/guides/workflows.md"
    )]
    Elsewhere(JobId),
}
