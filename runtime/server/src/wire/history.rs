//! What happened minute by minute and day by day.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gristmill_core::bill::{Cost, Day};
use gristmill_core::job::Name;
use gristmill_core::time::Timestamp;

/// Whose history is wanted.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryWanted {
    /// Of this topic. Without it, all topics of the tenant together.
    pub(crate) topic: Option<Name>,
}

/// What happened lately, in all runners and pull workers together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// When the first of the minutes begins, by the server's clock. Null: the server has not counted yet, or it has more than 1000 topics or
    /// tenants, and keeps no minutes for this one.
    pub since_ms: Option<Timestamp>,
    /// The earliest first, at most 120. Each begins where the one before ends.
    pub minutes: Vec<Minute>,
    /// The last 31 days, UTC, the earliest first; only those with attempts.
    pub days: Vec<HistoryDay>,
}

/// What happened in a minute, and how many jobs were where at its end. It is longer if the store was unavailable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Minute {
    /// Its end.
    pub at_ms: Timestamp,
    /// Jobs that were enqueued.
    pub enqueued: u64,
    /// Jobs that were done.
    pub done: u64,
    /// Attempts that failed: jobs that are tried again, and those of `dead`.
    pub failed: u64,
    /// Jobs that were given up.
    pub dead: u64,
    /// Jobs that were ready.
    pub ready: u64,
    /// Jobs that ran.
    pub running: u64,
}

impl Minute {
    /// Whether anything happened in it, or a job was ready or ran.
    pub fn is_busy(&self) -> bool {
        *self != Self { at_ms: self.at_ms, ..Self::default() }
    }
}

/// What the attempts of a day cost, as in the bill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryDay {
    /// Which day, UTC.
    pub day: Day,
    /// What its attempts cost.
    #[serde(flatten)]
    pub cost: Cost,
}
