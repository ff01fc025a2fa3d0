//! Schedules: when a topic gets a job without a producer. Pure: no I/O and no clock.

mod hints;
mod record;
#[cfg(test)]
mod tests;
mod ticks;

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::{Name, Payload, TopicId};
use crate::json::{self, at_most, object};

pub use hints::nearest_timezone;
pub use record::{Firing, FiringResult, ManifestRecord, NewFiring, Offer, Origin, Record, Standing};
pub use ticks::{Due, Ticks};

/// Bytes of a schedule's body. It is stored once more for each job.
pub const BODY_BYTES: usize = 16 << 10;

/// Bytes of a schedule's metadata and media type together.
pub const HEADER_BYTES: usize = 16 << 10;

/// The most pairs of a schedule's metadata.
const PAIRS: usize = HEADER_BYTES / 2;

/// How many schedules a tenant may have.
pub const SCHEDULES_PER_TENANT: usize = 1000;

/// The shortest and the longest interval.
pub const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// See [`SHORTEST_INTERVAL`].
pub const LONGEST_INTERVAL: Duration = Duration::from_secs(366 * 24 * 3600);

/// The widest jitter.
pub const LONGEST_JITTER: Duration = Duration::from_secs(24 * 3600);

/// The name of a schedule, which is unique in its topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct ScheduleId {
    /// The topic that gets the jobs.
    #[serde(flatten)]
    pub topic: TopicId,
    /// The schedule's name.
    pub name: Name,
}

impl fmt::Display for ScheduleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.name, self.topic)
    }
}

/// What a schedule says: when, and with what. Valid if [`Schedule::ticks`] is `Ok`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ScheduleDefinition")]
pub struct Schedule {
    /// Five fields: minute, hour, day of the month, month, day of the week; or a nickname such as `@daily`. This or `every_ms`.
    #[serde(default)]
    pub cron: Option<String>,
    /// Where `cron` is read: a name of the IANA database such as `Europe/Berlin`. `UTC` if it is left out.
    #[serde(default)]
    pub timezone: Option<String>,
    /// The interval. Its multiples are counted from 1970-01-01T00:00:00Z: `900000` is at the full hour and each quarter after it.
    #[serde(rename = "every_ms", default, with = "json::OptionalWaitMs")]
    pub every: Option<Duration>,
    /// Each job is due so much after its tick at most: another wait for each schedule and tick, the same on every runner.
    #[serde(rename = "jitter_ms", default, with = "json::WaitMs")]
    pub jitter: Duration,
    /// What becomes of ticks that no runner was there for.
    #[serde(default)]
    pub missed: Missed,
    /// What becomes of a tick while the job of the one before waits or runs.
    #[serde(default)]
    pub overlap: Overlap,
    /// How long after it became due a job may still start. The topic's `ttl` if it is left out when the schedule is made.
    #[serde(rename = "ttl_ms", default, with = "json::OptionalWaitMs")]
    pub ttl: Option<Duration>,
    /// What the handler gets. At most 16 KiB.
    #[serde(default, deserialize_with = "object::one")]
    pub body: Payload,
    /// Headers of the job, in order; names may repeat.
    #[serde(default, deserialize_with = "at_most::list::<PAIRS, _, _>")]
    #[schemars(length(max = PAIRS))]
    pub metadata: Vec<(String, String)>,
}

/// What becomes of ticks that are more than a minute late.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::Display, strum::EnumString,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Missed {
    /// They get no job.
    Skip,
    /// The latest of them gets a job, unless a later tick gets one.
    #[default]
    One,
    /// Each of the latest thousand gets a job.
    All,
}

/// What becomes of a tick while the job of the one before waits or runs.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::Display, strum::EnumString,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Overlap {
    /// It gets no job.
    Skip,
    /// It gets a job like any other.
    #[default]
    Queue,
}

/// Why a schedule is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum BadSchedule {
    #[error("`cron` and `every` (`every_ms` over HTTP) exclude each other: a schedule has one of them")]
    Both,
    #[error(
        "a schedule needs `cron`, such as \"0 3 * * *\", or `every`, such as \"15m\" (`every_ms` over HTTP: 900000)"
    )]
    Neither,
    #[error(
        "`{cron}` is no cron expression: {problem}; its fields are minute, hour, day of the month, month, day of the week, as in \
         `0 3 * * *` or `@daily`"
    )]
    Cron { cron: String, problem: String },
    #[error("`{cron}` names no day that comes: no month has such a day")]
    Never { cron: String },
    #[error(
        "there is no time zone `{timezone}`{}",
        near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
    )]
    Timezone { timezone: String, near: Option<String> },
    #[error("`timezone` belongs to `cron`: an interval is the same everywhere")]
    TimezoneOfInterval,
    #[error("the interval is {} ms: it may be 1 second to 366 days", every.as_millis())]
    Interval { every: Duration },
    #[error("the jitter is {} ms: it may be up to a day", jitter.as_millis())]
    Jitter { jitter: Duration },
    #[error(
        "the body has {bytes} bytes; a schedule's body has at most {BODY_BYTES}: let the handler fetch what is large"
    )]
    Body { bytes: usize },
    #[error("metadata and media type have {bytes} bytes; at most {HEADER_BYTES} are taken")]
    Headers { bytes: usize },
}

impl Schedule {
    /// Reads when the schedule's ticks are, and checks everything else.
    ///
    /// # Errors
    /// It makes no sense, or is too large.
    pub fn ticks(&self) -> Result<Ticks, BadSchedule> {
        let ticks = match (&self.cron, self.every) {
            (Some(_), Some(_)) => return Err(BadSchedule::Both),
            (None, None) => return Err(BadSchedule::Neither),
            (None, Some(_)) if self.timezone.is_some() => return Err(BadSchedule::TimezoneOfInterval),
            (None, Some(every)) => Ticks::every(every)?,
            (Some(cron), None) => Ticks::cron(cron, self.timezone.as_deref())?,
        };
        if self.jitter > LONGEST_JITTER {
            return Err(BadSchedule::Jitter { jitter: self.jitter });
        }
        if self.body.data.len() > BODY_BYTES {
            return Err(BadSchedule::Body { bytes: self.body.data.len() });
        }
        let pairs: usize = self.metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        let bytes = pairs + self.body.content_type.as_ref().map_or(0, String::len);
        if bytes > HEADER_BYTES {
            return Err(BadSchedule::Headers { bytes });
        }
        Ok(ticks)
    }

    /// Whether two schedules have the same ticks.
    fn has_ticks_of(&self, other: &Self) -> bool {
        (&self.cron, &self.timezone, self.every) == (&other.cron, &other.timezone, other.every)
    }
}
