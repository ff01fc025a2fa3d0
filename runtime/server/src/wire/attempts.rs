//! Recent attempts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BATCH;
use gristmill_core::job::{JobId, Name};
use gristmill_core::time::Timestamp;
use gristmill_runner::RecentAttempt;

/// Which attempts of a tenant are wanted.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AttemptsWanted {
    /// Of this topic only.
    pub(crate) topic: Option<Name>,
    /// At this job only.
    pub(crate) job: Option<JobId>,
    /// Failures only.
    #[serde(default)]
    pub(crate) failed: bool,
    /// The latest ones.
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = BATCH))]
    pub(crate) limit: usize,
}

fn usual_limit() -> usize {
    50
}

/// The attempts that a runner has settled last.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Attempts {
    /// The latest first.
    pub(crate) attempts: Vec<RecentAttempt>,
    /// Of the attempts that were settled after this time none is missing, as far as `limit` allows. Earlier ones may be: the runner had not
    /// begun, or has dropped them.
    pub(crate) since_ms: Timestamp,
}

/// The same, as commands read it.
#[derive(Debug, Clone, Deserialize)]
pub struct AttemptsSeen {
    /// The latest first, as documents: `docs/reference/http-api.md` names their fields.
    pub attempts: Vec<serde_json::Value>,
    /// Of the attempts that were settled after this time none is missing, as far as the limit allows.
    pub since_ms: Timestamp,
}
