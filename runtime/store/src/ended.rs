//! Jobs that are over, and what is remembered of them for a while.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gristmill_core::job::TopicId;
use gristmill_core::time::Timestamp;

/// As many jobs of a topic that ended last are remembered for a while.
pub const REMEMBERED: usize = 1000;

/// How and when a job ended that is no longer stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobEnd {
    /// Its topic.
    #[serde(flatten)]
    pub topic: TopicId,
    /// What became of it.
    pub outcome: EndedAs,
    /// When, in milliseconds since 1970.
    #[serde(rename = "at_ms")]
    pub at: Timestamp,
}

/// What became of a job that is no longer stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EndedAs {
    /// Done.
    Complete,
    /// Its time to live ended before an attempt began.
    Expired,
    /// It was cancelled.
    Cancelled,
    /// It was dead, and was deleted by an operator or by its topic's limits.
    Deleted,
}

impl EndedAs {
    #[cfg(any(feature = "redis", feature = "embedded"))]
    const ALL: [Self; 4] = [Self::Complete, Self::Expired, Self::Cancelled, Self::Deleted];

    /// The name, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Deleted => "deleted",
        }
    }

    #[cfg(any(feature = "redis", feature = "embedded"))]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == text)
    }
}
