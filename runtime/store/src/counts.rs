//! How many jobs of a topic are where, and which limit keeps them there.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gristmill_core::job::TopicId;
use gristmill_core::time::Timestamp;

/// How many jobs of a topic are where, and what became of the rest since the store began counting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopicCounts {
    /// The topic.
    #[serde(flatten)]
    pub topic: TopicId,
    /// Jobs that are due and not running.
    pub ready: u64,
    /// Of the ready ones, those that no claim may take, because they wait for another job of their key.
    #[serde(default)]
    pub waiting_for_key: u64,
    /// Jobs that are not due yet, or wait for other jobs.
    pub delayed: u64,
    /// Of the delayed ones, those that wait for other jobs.
    #[serde(default)]
    pub waiting: u64,
    /// Jobs that a worker holds.
    pub running: u64,
    /// Jobs that were given up.
    pub dead: u64,
    /// When the job first became due that has been ready for the longest: of those at the heads of the topic's lines, the
    /// earliest. `None` if no job is ready.
    #[serde(rename = "oldest_ready_ms")]
    pub oldest_ready: Option<Timestamp>,
    /// No job of it is handed out.
    pub paused: bool,
    /// Of a paused topic: by whom it was, and since when. `None` if that was not noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// The limit that keeps its ready jobs in line, as the last claim has found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<LimitReached>,
    /// Totals by name: `pushed`, `acked`, `retried`, `snoozed`, `released`, `expired`, `cancelled`, `duplicate`,
    /// `adopted`, `stray`, `discarded` (dead jobs over the limits of age or number), `dead-<reason>`.
    pub totals: BTreeMap<String, u64>,
}

impl TopicCounts {
    /// Those of a topic that never held a job.
    pub const fn none(topic: TopicId) -> Self {
        let totals = BTreeMap::new();
        Self {
            topic,
            ready: 0,
            waiting_for_key: 0,
            delayed: 0,
            waiting: 0,
            running: 0,
            dead: 0,
            oldest_ready: None,
            paused: false,
            pause: None,
            limited: None,
            totals,
        }
    }

    /// The jobs that wait, run or are dead.
    pub const fn jobs(&self) -> u64 {
        self.ready + self.delayed + self.running + self.dead
    }

    /// Adds the counts of the same topic in another store.
    pub(super) fn add(&mut self, more: Self) {
        self.ready += more.ready;
        self.waiting_for_key += more.waiting_for_key;
        self.delayed += more.delayed;
        self.waiting += more.waiting;
        self.running += more.running;
        self.dead += more.dead;
        self.oldest_ready = self.oldest_ready.into_iter().chain(more.oldest_ready).min();
        self.paused |= more.paused;
        self.pause = self.pause.take().into_iter().chain(more.pause).min_by_key(|pause| pause.since);
        self.limited = self.limited.or(more.limited);
        for (name, n) in more.totals {
            *self.totals.entry(name).or_default() += n;
        }
    }
}

/// Who paused a topic, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// Since when, by the store's clock, in milliseconds since 1970.
    #[serde(rename = "since_ms")]
    pub since: Timestamp,
    /// Who did: a token by its description and id, `operator` where no token was needed, or the user of the command line. `None`: that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A limit that holds for all claims of a topic, or of a tenant, together, and is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "limit", rename_all = "kebab-case")]
pub enum LimitReached {
    /// As many jobs run as may: one of them has to end.
    MaxRunning,
    /// As many jobs have started as may.
    Rate {
        /// When the next ones may start, in milliseconds since 1970.
        #[serde(rename = "until_ms")]
        until: Timestamp,
    },
    /// As many jobs of the tenant run as may: one of them has to end.
    TenantMaxRunning,
    /// As many jobs of the tenant have started today as may.
    JobsPerDay {
        /// What was used of it.
        used: u64,
        /// What may be used of it.
        budget: u64,
        /// When the next ones may start, in milliseconds since 1970.
        #[serde(rename = "until_ms")]
        until: Timestamp,
    },
    /// The jobs of the tenant have used as much fuel in this hour as they may.
    FuelPerHour {
        /// What was used of it.
        used: u64,
        /// What may be used of it.
        budget: u64,
        /// When the next ones may start, in milliseconds since 1970.
        #[serde(rename = "until_ms")]
        until: Timestamp,
    },
}

impl LimitReached {
    /// When jobs may start again. `None`: when one ends.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::MaxRunning | Self::TenantMaxRunning => None,
            Self::Rate { until } | Self::JobsPerDay { until, .. } | Self::FuelPerHour { until, .. } => Some(*until),
        }
    }
}
