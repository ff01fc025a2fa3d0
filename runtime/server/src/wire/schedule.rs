//! Schedules: what they say, what they did, and when they fire next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gristmill_core::job::JobId;
use gristmill_core::schedule::Ticks;
use gristmill_core::time::Timestamp;
use gristmill_store::{ScheduleChanged, StoredSchedule};

/// How many ticks are foretold.
const UPCOMING: usize = 5;

/// The schedules of a tenant, by topic and name.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Schedules {
    pub(crate) schedules: Vec<Schedule>,
}

/// A schedule.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Schedule {
    #[serde(flatten)]
    pub(crate) stored: StoredSchedule,
    /// When it fires, in words; empty if its time zone is not known here.
    #[serde(default)]
    pub(crate) in_words: String,
    /// The next five ticks, in milliseconds since 1970. None while it is paused.
    #[serde(default)]
    pub(crate) upcoming_ms: Vec<Timestamp>,
}

/// What became of a schedule.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ScheduleAnswer {
    pub(crate) status: ScheduleChanged,
    /// The job of a schedule that was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<JobId>,
    /// One if the topic is unknown: its jobs wait until something makes it a topic. Left out if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

/// Runs a schedule now.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunSchedule {
    /// The id of the job; a new one if it is left out. The same request with the same id runs the schedule once.
    #[serde(default)]
    pub(crate) id: Option<JobId>,
}

impl From<StoredSchedule> for Schedule {
    fn from(stored: StoredSchedule) -> Self {
        let ticks = stored.record.schedule.ticks().ok();
        let in_words = ticks.as_ref().map(Ticks::in_words).unwrap_or_default();
        let upcoming = std::iter::successors(stored.record.awaited(), |tick| ticks.as_ref()?.next_after(*tick));
        Self { in_words, upcoming_ms: upcoming.take(UPCOMING).collect(), stored }
    }
}
