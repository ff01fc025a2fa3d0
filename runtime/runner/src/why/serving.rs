//! Why a topic begins no job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::served::{ProcessRole, Runners, Served};
use crate::deployments::trap_streaks::pausing_version;
use crate::handlers::{HandlerRegistry, TopicHandler};
use gristmill_config::Manifest;
use gristmill_config::units::{COUNT, about_duration};
use gristmill_core::admission::makes_none;
use gristmill_core::job::{DEFAULT_TENANT, Name, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::{Capability, FleetLimits, Rate};
use gristmill_store::{LimitReached, Pause, Query, StoreError, TopicCounts};

/// Who does a topic's jobs, as far as this process knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serving {
    /// Nothing is known yet: the handlers are being read.
    Starting,
    /// Neither the manifest nor a component makes it a topic.
    Unknown {
        /// The topic whose section names the component of its name.
        used_by: Option<TopicId>,
    },
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
    /// The limit that is reached, with its counts. `None` if it is none, or the process that was asked does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitCounts>,
    /// How many other runners live, which may serve the topic, although the process that was asked does not. `None` if it does, or there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_runners: Option<u64>,
}

/// A limit, and how far it is used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitCounts {
    /// What is used of it: jobs that run or have started, or fuel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// How much may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<u64>,
    /// A rate, such as `100/s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// How many jobs may start at once by the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// When the next job may start, in milliseconds since 1970.
    #[serde(rename = "until_ms", default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
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
    /// No runner lives.
    NoRunner,
    /// Nothing makes it a topic, or there is no component for it.
    NoHandler,
    /// The same in the process that was asked; other runners live, which may serve it.
    NoHandlerHere,
    /// Its component waits to be compiled, or is being compiled.
    Compiling,
    /// Its component was refused.
    Refused,
    /// Its component imports what the topic does not grant.
    LacksGrants,
    /// No job is ready, and none runs.
    Empty,
    /// As many run as the topic's `concurrency` allows in all runners that live.
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
    role: ProcessRole,
    served: &Served,
) -> Result<TopicWhy, StoreError> {
    let all = store.counts(&topic.tenant).await?;
    let of_tenant = all.iter().map(|counts| counts.running).sum();
    let counts = all.into_iter().find(|counts| counts.topic == topic);
    let counts = counts.unwrap_or_else(|| TopicCounts::none(topic.clone()));
    let runners = Runners::of(store, role, served.depends_on_others(&counts)).await?;
    let idle = idle(&counts, of_tenant, served, runners);
    let TopicCounts { ready, delayed, running, .. } = counts;
    let why = match &idle {
        Some(idle) if idle.other_runners.is_some() => format!("is not served here: {}", idle.detail),
        Some(idle) => format!("begins no job: {}", idle.detail),
        None => "begins jobs".into(),
    };
    let detail = format!("`{topic}` {why} ({ready} ready, {delayed} delayed, {running} running)");
    Ok(TopicWhy { topic, detail, idle })
}

impl Idle {
    pub(super) fn new(reason: IdleReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), limit: None, other_runners: None }
    }

    fn with(self, limit: LimitCounts) -> Self {
        Self { limit: (limit != LimitCounts::default()).then_some(limit), ..self }
    }

    /// When the limit that it is lets the next job start.
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.limit.as_ref()?.until
    }

    /// Whether it keeps a job that is first in line. Another runner may serve the topic, and a place that is taken becomes free.
    pub(super) fn stops(&self) -> bool {
        let passes = matches!(self.reason, IdleReason::Empty | IdleReason::ConcurrencyReached);
        !passes && self.other_runners.is_none()
    }

    /// The same, if other runners live.
    fn beside(self, others: u64) -> Self {
        if others == 0 {
            return self;
        }
        let reason = if self.reason == IdleReason::NoHandler { IdleReason::NoHandlerHere } else { self.reason };
        let others_live =
            if others == 1 { "another runner lives".into() } else { format!("{others} other runners live") };
        let detail = format!("{}; {others_live}, and may have a handler for it", self.detail);
        Self { reason, detail, other_runners: Some(others), ..self }
    }
}

impl Serving {
    /// What the registry says of a topic; `None` for a registry that is not made yet.
    pub fn of(registry: Option<&HandlerRegistry>, topic: &TopicId) -> Self {
        let Some(registry) = registry else { return Self::Starting };
        let unknown = || Self::Unknown { used_by: registry.known_topics().used_by(topic).cloned() };
        registry.get(topic).map_or_else(unknown, |entry| Self::by(registry, entry))
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
        match registry.refused_for(entry) {
            Some(reason) => Self::Refused { handler: handler(), reason: reason.to_owned() },
            None if registry.is_uncompiled(&entry.topic.handler) => Self::Uncompiled(handler()),
            None => Self::Missing(handler()),
        }
    }

    /// Why no handler or pull worker does the topic's jobs; `None` if one does.
    fn idle(&self, topic: &TopicId) -> Option<Idle> {
        Some(match self {
            Self::PullWorkers | Self::Handler { .. } => return None,
            Self::Starting => Idle::new(IdleReason::Starting, "the handlers are being read"),
            Self::Unknown { used_by: Some(used_by) } => {
                Idle::new(IdleReason::NoHandler, makes_none(&topic.topic, used_by))
            }
            Self::Unknown { used_by: None } => {
                let file = match topic.tenant.as_str() {
                    DEFAULT_TENANT => format!("put {}.wasm into the handlers folder, or ", topic.topic),
                    _ => String::new(),
                };
                let detail = format!(
                    "neither the manifest nor a component makes this a topic: {file}name its `handler` in {}",
                    Manifest::section_of(topic)
                );
                Idle::new(IdleReason::NoHandler, detail)
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
                let names = lacking.iter().map(|lacking| format!("`{lacking}`")).collect::<Vec<_>>().join(", ");
                let lines = Manifest::grant_in_words(topic, lacking);
                let detail = if lacking.iter().all(|lacking| lacking.called_by().is_some()) {
                    format!("the topic cannot call `{handler}`: {lines}")
                } else {
                    format!("`{handler}` needs what the topic does not grant: {names}; if it may have that, {lines}")
                };
                Idle::new(IdleReason::LacksGrants, detail)
            }
        })
    }
}

/// Why no further job of the topic is begun; `None` if jobs are. `of_tenant`: how many jobs of its tenant run.
pub fn idle(counts: &TopicCounts, of_tenant: u64, served: &Served, runners: Runners) -> Option<Idle> {
    if counts.paused {
        return Some(Idle::new(IdleReason::Paused, about_pause(counts, Timestamp::now())));
    }
    let unserved = served.serving.idle(&counts.topic);
    if runners.alive == 0 {
        let also = unserved.map(|unserved| format!("; and {}", unserved.detail)).unwrap_or_default();
        let detail = format!("no runner is alive: `gristmill run` starts one{also}");
        return Some(Idle::new(IdleReason::NoRunner, detail));
    }
    if let Some(unserved) = unserved {
        return Some(unserved.beside(runners.others));
    }
    if counts.ready == 0 {
        return (counts.running == 0).then(|| Idle::new(IdleReason::Empty, "no job is ready"));
    }
    if counts.ready == counts.waiting_for_key {
        return (counts.running == 0)
            .then(|| Idle::new(IdleReason::Empty, "all ready jobs wait for others of their key"));
    }
    if let Some(limit) = counts.limited {
        return Some(limited(limit, counts, of_tenant, &served.limits));
    }
    let Serving::Handler { concurrency } = served.serving else { return None };
    let most = u64::from(concurrency) * runners.alive;
    let detail = match runners.alive {
        1 => format!("{concurrency} at once are allowed in one runner"),
        alive => format!("{} run, and {concurrency} at once are allowed in each of {alive} runners", counts.running),
    };
    (counts.running >= most).then(|| {
        let limit = LimitCounts { used: Some(counts.running), most: Some(most), ..LimitCounts::default() };
        Idle::new(IdleReason::ConcurrencyReached, detail).with(limit)
    })
}

/// Who paused the topic, how long ago, and what to do.
fn about_pause(counts: &TopicCounts, now: Timestamp) -> String {
    let resume = format!("`gristmill resume {}`", counts.topic);
    let Some(Pause { since, by }) = &counts.pause else { return format!("it is paused: {resume}") };
    let remedy = match by.as_deref().and_then(pausing_version) {
        Some(_) => format!("another version of its handler resumes it, or {resume}"),
        None => resume,
    };
    let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    format!("it was paused{by} {} ago: {remedy}", about_duration(now.since(*since)))
}

/// A rate in words, such as `100/s, 10 at once`.
pub(super) fn about_rate(rate: Rate) -> String {
    format!("{rate}, {} at once", rate.burst)
}

fn limited(limit: LimitReached, counts: &TopicCounts, of_tenant: u64, limits: &FleetLimits) -> Idle {
    let tenant = &counts.topic.tenant;
    match limit {
        LimitReached::TenantMaxRunning => {
            let most = limits.tenant.max_running.map(u64::from);
            let detail = match most {
                Some(most) => format!(
                    "{of_tenant} jobs of the tenant `{tenant}` run, and its `max-running` allows {most} in all runners together"
                ),
                None => format!(
                    "as many jobs of the tenant `{tenant}` run as its `max-running` allows in all runners together"
                ),
            };
            let limit = LimitCounts { used: Some(of_tenant), most, ..LimitCounts::default() };
            Idle::new(IdleReason::TenantMaxRunningReached, detail).with(limit)
        }
        LimitReached::JobsPerDay { used, budget, until } => {
            let limit =
                LimitCounts { used: Some(used), most: Some(budget), until: Some(until), ..LimitCounts::default() };
            let [used, budget] = [used, budget].map(|jobs| COUNT.show(jobs));
            let detail = format!(
                "`jobs-per-day` of the tenant `{tenant}` is used up: {used} of {budget} have started, and the next ones may at {until}"
            );
            Idle::new(IdleReason::JobsPerDayUsedUp, detail).with(limit)
        }
        LimitReached::FuelPerHour { used, budget, until } => {
            let limit =
                LimitCounts { used: Some(used), most: Some(budget), until: Some(until), ..LimitCounts::default() };
            let [used, budget] = [used, budget].map(|fuel| COUNT.about(fuel));
            let detail = format!(
                "`fuel-per-hour` of the tenant `{tenant}` is used up: {used} of {budget}, and the next jobs may start at {until}"
            );
            Idle::new(IdleReason::FuelPerHourUsedUp, detail).with(limit)
        }
        LimitReached::MaxRunning => {
            let (running, most) = (counts.running, limits.max_running.map(u64::from));
            let allows = most.map_or_else(
                || "as many as its `max-running` allows".into(),
                |most| format!("and its `max-running` allows {most}"),
            );
            let detail = format!("{running} of its jobs run, {allows} in all runners together");
            let limit = LimitCounts { used: Some(running), most, ..LimitCounts::default() };
            Idle::new(IdleReason::MaxRunningReached, detail).with(limit)
        }
        LimitReached::Rate { until } => {
            let rate = limits.rate;
            let said = rate.map(|rate| format!(" ({})", about_rate(rate))).unwrap_or_default();
            let detail = format!("its `rate`{said} allows all runners together to start the next job at {until}");
            Idle::new(IdleReason::RateLimited, detail).with(LimitCounts::of_rate(rate, until))
        }
    }
}

impl LimitCounts {
    /// A rate that lets the next job start at a time.
    pub(super) fn of_rate(rate: Option<Rate>, until: Timestamp) -> Self {
        let (burst, rate) = (rate.map(|rate| rate.burst), rate.map(|rate| rate.to_string()));
        Self { rate, burst, until: Some(until), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gristmill_core::topic::TenantFleetLimits;

    fn counts(ready: u64, running: u64, paused: bool) -> TopicCounts {
        TopicCounts { ready, running, paused, ..TopicCounts::none("acme/mail".parse().unwrap()) }
    }

    fn served(serving: Serving) -> Served {
        Served { serving, limits: FleetLimits::NONE }
    }

    const fn runners(alive: u64) -> Runners {
        Runners { alive, others: alive.saturating_sub(1) }
    }

    #[test]
    fn what_a_person_has_to_do_is_named_first() {
        let reason = |counts: TopicCounts, serving: &Serving| {
            idle(&counts, 9, &served(serving.clone()), runners(1)).map(|idle| idle.reason)
        };
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
    fn a_paused_topic_says_by_whom_and_since_when_as_far_as_that_is_known() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let since = Timestamp::from_millis(now.as_millis() - 185_000);
        let about = |pause| about_pause(&TopicCounts { pause, ..counts(5, 0, true) }, now);
        let by = Some("deploys (k3f9)".to_owned());
        let said = "it was paused by deploys (k3f9) 3m5s ago: `gristmill resume acme/mail`";
        assert_eq!(about(Some(Pause { since, by })), said);
        let by = Some("version 9f2c61aa03be, of which 5 jobs in a row ended as trap".to_owned());
        let said = "it was paused by version 9f2c61aa03be, of which 5 jobs in a row ended as trap 3m5s ago: another version of its handler resumes \
                    it, or `gristmill resume acme/mail`";
        assert_eq!(about(Some(Pause { since, by })), said);
        assert_eq!(about(Some(Pause { since, by: None })), "it was paused 3m5s ago: `gristmill resume acme/mail`");
        assert_eq!(about(None), "it is paused: `gristmill resume acme/mail`");
    }

    #[test]
    fn concurrency_is_of_each_runner_that_lives() {
        let serves = served(Serving::Handler { concurrency: 2 });
        assert_eq!(idle(&counts(5, 5, false), 5, &serves, runners(3)), None);
        let full = idle(&counts(5, 6, false), 6, &serves, runners(3)).unwrap();
        let limit = LimitCounts { used: Some(6), most: Some(6), ..LimitCounts::default() };
        assert_eq!((full.reason, full.limit), (IdleReason::ConcurrencyReached, Some(limit)));
        assert_eq!(full.detail, "6 run, and 2 at once are allowed in each of 3 runners");
    }

    #[test]
    fn without_a_runner_that_lives_no_job_begins_whatever_the_manifest_says() {
        let (serves, missing) = (Serving::Handler { concurrency: 2 }, Serving::Missing("mail".parse().unwrap()));
        let none = |serving| idle(&counts(5, 0, false), 0, &served(serving), runners(0)).unwrap();
        assert_eq!(
            (none(serves).reason, none(Serving::PullWorkers).reason),
            (IdleReason::NoRunner, IdleReason::NoRunner)
        );
        let said = "no runner is alive: `gristmill run` starts one; and there is no mail.wasm in the handlers folder";
        assert_eq!(none(missing).detail, said);
    }

    #[test]
    fn another_runner_may_serve_what_this_one_does_not() {
        let missing = served(Serving::Missing("mail".parse().unwrap()));
        let found = idle(&counts(5, 0, false), 0, &missing, runners(3)).unwrap();
        assert_eq!((found.reason, found.other_runners, found.stops()), (IdleReason::NoHandlerHere, Some(2), false));
        let said = "there is no mail.wasm in the handlers folder; 2 other runners live, and may have a handler for it";
        assert_eq!(found.detail, said);
        let alone = idle(&counts(5, 0, false), 0, &missing, runners(1)).unwrap();
        assert_eq!((alone.reason, alone.other_runners, alone.stops()), (IdleReason::NoHandler, None, true));
    }

    #[test]
    fn a_limit_that_is_reached_is_named_with_its_count() {
        let until = Timestamp::from_millis(1_800_000_000_000);
        let limits = FleetLimits {
            max_running: Some(2),
            rate: Some(Rate { burst: 7, ..Rate::new(100, Duration::from_secs(1)) }),
            tenant: TenantFleetLimits { max_running: Some(9), ..TenantFleetLimits::NONE },
            ..FleetLimits::NONE
        };
        let limited = |limited, limits| {
            let counts = TopicCounts { limited: Some(limited), ..counts(5, 2, false) };
            idle(&counts, 9, &Served { serving: Serving::PullWorkers, limits }, runners(1)).unwrap()
        };
        let used = |used, most| LimitCounts { used: Some(used), most, ..LimitCounts::default() };
        let found = limited(LimitReached::MaxRunning, limits);
        let said = "2 of its jobs run, and its `max-running` allows 2 in all runners together";
        assert_eq!((found.reason, found.detail.as_str()), (IdleReason::MaxRunningReached, said));
        assert_eq!(found.limit, Some(used(2, Some(2))));
        let found = limited(LimitReached::MaxRunning, FleetLimits::NONE);
        assert!(found.detail.starts_with("2 of its jobs run, as many as its `max-running` allows"), "another's limit");
        assert_eq!(found.limit, Some(used(2, None)));
        let found = limited(LimitReached::Rate { until }, limits);
        let said = "its `rate` (100/s, 7 at once) allows all runners together to start the next job at 2027-01-15T08:00:00.000Z";
        assert_eq!((found.reason, found.detail.as_str()), (IdleReason::RateLimited, said));
        assert_eq!(found.limit, Some(LimitCounts::of_rate(limits.rate, until)));
        let found = limited(LimitReached::TenantMaxRunning, limits);
        let said = "9 jobs of the tenant `acme` run, and its `max-running` allows 9 in all runners together";
        assert_eq!((found.reason, found.detail.as_str()), (IdleReason::TenantMaxRunningReached, said));
        assert_eq!(found.limit, Some(used(9, Some(9))));
        let found = limited(LimitReached::JobsPerDay { used: 100_000, budget: 100_000, until }, limits);
        let said = "`jobs-per-day` of the tenant `acme` is used up: 100k of 100k have started, and the next ones may at 2027-01-15T08:00:00.000Z";
        assert_eq!((found.reason, found.detail.as_str()), (IdleReason::JobsPerDayUsedUp, said));
        let fuel = LimitReached::FuelPerHour { used: 5_200_000_000_001, budget: 5_000_000_000_000, until };
        let found = limited(fuel, limits);
        let said = "`fuel-per-hour` of the tenant `acme` is used up: 5.2T of 5T, and the next jobs may start at 2027-01-15T08:00:00.000Z";
        assert_eq!((found.reason, found.detail.as_str()), (IdleReason::FuelPerHourUsedUp, said));
        assert_eq!(found.limit.unwrap().until, Some(until));
    }
}
