//! Why a topic begins no job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::handlers::{HandlerRegistry, TopicHandler};
use gristmill_config::units::COUNT;
use gristmill_core::job::{Name, TopicId};
use gristmill_core::topic::Capability;
use gristmill_store::{LimitReached, Query, StoreError, TopicCounts};

/// Who does a topic's jobs, as far as this process knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serving {
    /// Nothing is known yet: the handlers are being read.
    Starting,
    /// Neither the manifest nor a component makes it a topic.
    Unknown,
    /// Pull workers, which claim its jobs when they like.
    PullWorkers,
    /// A handler, with at most so many jobs at once in one runner.
    Handler {
        /// So many.
        concurrency: u32,
    },
    /// There is no component of this name.
    Missing(Name),
    /// The component waits to be compiled, or is being compiled.
    Uncompiled(Name),
    /// The component was refused, and there is no version before it.
    Refused {
        /// Its name.
        handler: Name,
        /// Why.
        reason: String,
    },
    /// The component imports what the topic does not grant, and there is no version before it.
    LacksGrants {
        /// Its name.
        handler: Name,
        /// What is not granted.
        lacking: Vec<Capability>,
    },
}

/// Why no further job of a topic is begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Idle {
    /// For programs.
    pub reason: IdleReason,
    /// For people.
    pub detail: String,
}

/// Why no further job of a topic is begun, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum IdleReason {
    /// The handlers are being read.
    Starting,
    /// The topic is paused.
    Paused,
    /// Nothing makes it a topic, or there is no component for it.
    NoHandler,
    /// Its component waits to be compiled, or is being compiled.
    Compiling,
    /// Its component was refused.
    Refused,
    /// Its component imports what the topic does not grant.
    LacksGrants,
    /// No job is ready, and none runs.
    Empty,
    /// As many run as the topic's `concurrency` allows.
    ConcurrencyReached,
    /// As many run in all runners as the topic's `max-running` allows.
    MaxRunningReached,
    /// As many have started in all runners as the topic's `rate` allows.
    RateLimited,
    /// As many jobs of the tenant run in all runners as its `max-running` allows.
    TenantMaxRunningReached,
    /// As many jobs of the tenant have started in all runners as its `jobs-per-day` allows.
    JobsPerDayUsedUp,
    /// The tenant's jobs have used as much fuel in all runners as its `fuel-per-hour` allows.
    FuelPerHourUsedUp,
}

/// Whether a topic begins jobs, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopicWhy {
    /// The topic.
    #[serde(flatten)]
    pub topic: TopicId,
    /// For people: one sentence.
    pub detail: String,
    /// Why it begins no job. `None` if it does.
    pub idle: Option<Idle>,
}

/// Asks the store why a topic begins no job. A topic that the store does not know has none.
///
/// # Errors
/// The store is unavailable.
pub async fn topic_why(
    store: &(impl Query + ?Sized),
    topic: TopicId,
    serving: &Serving,
) -> Result<TopicWhy, StoreError> {
    let counts = store.counts(&topic.tenant).await?.into_iter().find(|counts| counts.topic == topic);
    let counts = counts.unwrap_or_else(|| TopicCounts::none(topic.clone()));
    let idle = idle(&counts, serving);
    let TopicCounts { ready, delayed, running, .. } = counts;
    let why = match &idle {
        Some(idle) => format!("begins no job: {}", idle.detail),
        None => "begins jobs".into(),
    };
    let detail = format!("`{topic}` {why} ({ready} ready, {delayed} delayed, {running} running)");
    Ok(TopicWhy { topic, detail, idle })
}

impl Idle {
    fn new(reason: IdleReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

impl Serving {
    /// What the registry says of a topic; `None` for a registry that is not made yet.
    pub fn of(registry: Option<&HandlerRegistry>, topic: &TopicId) -> Self {
        let Some(registry) = registry else { return Self::Starting };
        registry.get(topic).map_or(Self::Unknown, |entry| Self::by(registry, entry))
    }

    fn by(registry: &HandlerRegistry, entry: &TopicHandler) -> Self {
        let handler = || entry.topic.handler.clone();
        if entry.topic.external {
            return Self::PullWorkers;
        }
        if entry.handler.is_some() {
            return Self::Handler { concurrency: entry.topic.concurrency };
        }
        if !entry.lacking.is_empty() {
            return Self::LacksGrants { handler: handler(), lacking: entry.lacking.clone() };
        }
        match registry.refused(&entry.topic.handler) {
            Some(reason) => Self::Refused { handler: handler(), reason: reason.to_owned() },
            None if registry.is_uncompiled(&entry.topic.handler) => Self::Uncompiled(handler()),
            None => Self::Missing(handler()),
        }
    }

    /// Why nobody does the topic's jobs; `None` if they are done.
    fn idle(&self) -> Option<Idle> {
        Some(match self {
            Self::PullWorkers | Self::Handler { .. } => return None,
            Self::Starting => Idle::new(IdleReason::Starting, "the handlers are being read"),
            Self::Unknown => {
                Idle::new(IdleReason::NoHandler, "neither the manifest nor a component makes this a topic")
            }
            Self::Missing(name) => {
                Idle::new(IdleReason::NoHandler, format!("there is no {name}.wasm in the handlers folder"))
            }
            Self::Uncompiled(name) => {
                Idle::new(IdleReason::Compiling, format!("{name}.wasm is being compiled, or waits for it"))
            }
            Self::Refused { handler, reason } => {
                Idle::new(IdleReason::Refused, format!("{handler}.wasm was refused: {reason}"))
            }
            Self::LacksGrants { handler, lacking } => {
                let names: Vec<_> = lacking.iter().map(|lacking| format!("`{lacking}`")).collect();
                let detail = format!("`{handler}` needs what the topic does not grant: {}", names.join(", "));
                Idle::new(IdleReason::LacksGrants, detail)
            }
        })
    }
}

/// Why no further job of the topic is begun; `None` if jobs are.
pub fn idle(counts: &TopicCounts, serving: &Serving) -> Option<Idle> {
    if counts.paused {
        return Some(Idle::new(IdleReason::Paused, "it is paused: resume it"));
    }
    if let Some(idle) = serving.idle() {
        return Some(idle);
    }
    if counts.ready == 0 {
        return (counts.running == 0).then(|| Idle::new(IdleReason::Empty, "no job is ready"));
    }
    if counts.ready == counts.waiting_for_key {
        return (counts.running == 0)
            .then(|| Idle::new(IdleReason::Empty, "all ready jobs wait for others of their key"));
    }
    if let Some(limit) = counts.limited {
        return Some(limited(limit, &counts.topic, counts.running));
    }
    match serving {
        Serving::Handler { concurrency } if counts.running >= u64::from(*concurrency) => {
            let detail = format!("{concurrency} at once are allowed in one runner");
            Some(Idle::new(IdleReason::ConcurrencyReached, detail))
        }
        _ => None,
    }
}

fn limited(limit: LimitReached, topic: &TopicId, running: u64) -> Idle {
    let tenant = &topic.tenant;
    match limit {
        LimitReached::TenantMaxRunning => {
            let detail = format!(
                "as many jobs of the tenant `{tenant}` run as its `max-running` allows in all runners together"
            );
            Idle::new(IdleReason::TenantMaxRunningReached, detail)
        }
        LimitReached::JobsPerDay { used, budget, until } => {
            let [used, budget] = [used, budget].map(|jobs| COUNT.show(jobs));
            let detail = format!(
                "`jobs-per-day` of the tenant `{tenant}` is used up: {used} of {budget} have started, and the next ones may at {until}"
            );
            Idle::new(IdleReason::JobsPerDayUsedUp, detail)
        }
        LimitReached::FuelPerHour { used, budget, until } => {
            let [used, budget] = [used, budget].map(|fuel| COUNT.about(fuel));
            let detail = format!(
                "`fuel-per-hour` of the tenant `{tenant}` is used up: {used} of {budget}, and the next jobs may start at {until}"
            );
            Idle::new(IdleReason::FuelPerHourUsedUp, detail)
        }
        LimitReached::MaxRunning => {
            let detail =
                format!("{running} of its jobs run, as many as its `max-running` allows in all runners together");
            Idle::new(IdleReason::MaxRunningReached, detail)
        }
        LimitReached::Rate { until } => {
            let detail = format!("its `rate` allows all runners together to start the next job at {until}");
            Idle::new(IdleReason::RateLimited, detail)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_core::time::Timestamp;

    fn counts(ready: u64, running: u64, paused: bool) -> TopicCounts {
        TopicCounts { ready, running, paused, ..TopicCounts::none("acme/mail".parse().unwrap()) }
    }

    #[test]
    fn what_a_person_has_to_do_is_named_first() {
        let reason = |counts: TopicCounts, serving: &Serving| idle(&counts, serving).map(|idle| idle.reason);
        let (serves, missing) = (Serving::Handler { concurrency: 2 }, Serving::Missing("mail".parse().unwrap()));
        assert_eq!(reason(counts(5, 2, true), &missing), Some(IdleReason::Paused));
        assert_eq!(reason(counts(0, 0, false), &missing), Some(IdleReason::NoHandler));
        assert_eq!(reason(counts(0, 0, false), &serves), Some(IdleReason::Empty));
        assert_eq!(reason(counts(0, 1, false), &serves), None);
        assert_eq!(reason(counts(5, 1, false), &serves), None);
        assert_eq!(reason(counts(5, 2, false), &serves), Some(IdleReason::ConcurrencyReached));
        assert_eq!(reason(counts(5, 2, false), &Serving::PullWorkers), None);
    }

    #[test]
    fn a_limit_that_is_reached_is_named_with_its_count() {
        let limited = |limited, serving: &Serving| {
            let counts = TopicCounts { limited: Some(limited), ..counts(5, 2, false) };
            idle(&counts, serving).map(|idle| (idle.reason, idle.detail)).unwrap()
        };
        let (reason, detail) = limited(LimitReached::MaxRunning, &Serving::Handler { concurrency: 2 });
        assert_eq!((reason, detail.starts_with("2 of its jobs run")), (IdleReason::MaxRunningReached, true));
        let until = Timestamp::from_millis(1_800_000_000_000);
        let (reason, detail) = limited(LimitReached::Rate { until }, &Serving::PullWorkers);
        assert_eq!((reason, detail.ends_with("2027-01-15T08:00:00.000Z")), (IdleReason::RateLimited, true), "{detail}");
        let (reason, detail) = limited(LimitReached::TenantMaxRunning, &Serving::PullWorkers);
        assert_eq!((reason, detail.contains("tenant `acme`")), (IdleReason::TenantMaxRunningReached, true), "{detail}");
        let jobs = LimitReached::JobsPerDay { used: 100_000, budget: 100_000, until };
        let (reason, detail) = limited(jobs, &Serving::PullWorkers);
        let said = "`jobs-per-day` of the tenant `acme` is used up: 100k of 100k have started, and the next ones may at 2027-01-15T08:00:00.000Z";
        assert_eq!((reason, detail.as_str()), (IdleReason::JobsPerDayUsedUp, said));
        let fuel = LimitReached::FuelPerHour { used: 5_200_000_000_001, budget: 5_000_000_000_000, until };
        let (reason, detail) = limited(fuel, &Serving::PullWorkers);
        let said = "`fuel-per-hour` of the tenant `acme` is used up: 5.2T of 5T, and the next jobs may start at 2027-01-15T08:00:00.000Z";
        assert_eq!((reason, detail.as_str()), (IdleReason::FuelPerHourUsedUp, said));
    }
}
