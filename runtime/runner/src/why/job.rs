//! Why a job is not running.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::forecast::{Expected, ExpectedBy};
use super::idle::{Idle, IdleReason, LimitCounts};
use super::limit::about_rate;
use super::served::{ProcessRole, Runners, Served};
use super::topic::idle;
use gristmill_config::units;
use gristmill_core::job::{Ended, JobId, Name, TopicId};
use gristmill_core::outcome::{Failure, Reason};
use gristmill_core::time::{Timestamp, whole_millis};
use gristmill_core::topic::{FleetLimits, Rate};
use gristmill_store::{
    AHEAD, BehindKey, ClockOffset, EndedAs, Inspect, JobState, JobView, ResultView, StoreError, TopicCounts, WaitsFor,
    look_up,
};

/// How often the store is asked again if the job changes its place between the questions.
const TRIES: usize = 3;

/// What is said of a job that is stored as ready, and that no claim finds.
pub const IN_NO_PLACE: &str =
    "it is not found in its line, so no runner finds it: `gristmill fsck` says what is damaged, and what to do";

/// Why a job is not running, as of one state of the job. What is counted besides may be some milliseconds older or younger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// The job.
    pub id: JobId,
    /// Its topic. `None` if only its result remains.
    pub topic: Option<TopicId>,
    /// For programs.
    pub reason: WhyReason,
    /// For people: one sentence, beginning with the job's state.
    pub detail: String,
    /// When it is due, or when its lease ends unless it is extended, in milliseconds since 1970.
    #[serde(rename = "until_ms")]
    pub until: Option<Timestamp>,
    /// How many ready jobs of the topic are claimed before it, by the turns of the priorities, if none comes meanwhile. `None` if it is not ready,
    /// or more than 10,000 are.
    pub ahead: Option<u64>,
    /// In how many milliseconds it is expected to begin. `None` if that cannot be said.
    #[serde(rename = "expected_in_ms")]
    pub expected_in: Option<u64>,
    /// What `expected_in_ms` follows from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_by: Option<ExpectedBy>,
    /// The rate of its key, if that holds it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitCounts>,
    /// The jobs of its key that it waits for. `None` if it waits for none.
    pub behind: Option<BehindKey>,
    /// The other jobs that it waits for: those that have not ended come first. `None` if it waits for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitsFor>,
    /// Why its topic begins no job at the moment, which holds for this one as soon as it is ready. `None` if the topic does.
    pub idle: Option<Idle>,
    /// The store's clock, by which `until_ms` is, if that is more than two seconds from the clock of the server that answers. `None` if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockOffset>,
}

/// Why a job is not running, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhyReason {
    /// It is running.
    Running,
    /// It is running, and has been cancelled.
    Stopping,
    /// It has ended.
    Finished,
    /// It was given up.
    Dead,
    /// An attempt failed; it waits for the next one.
    Retry,
    /// It is not due yet.
    Delayed,
    /// The rate of its key holds it back.
    RateOfKey,
    /// It waits for other jobs: `waits_for` says which.
    Waiting,
    /// Its topic begins no job: `idle` says why.
    TopicIdle,
    /// It waits for other jobs of its key: `behind` says which.
    BehindKey,
    /// It waits for those before it, or for a free runner.
    InLine,
    /// It is stored as a ready job and stands in no line of its topic, so that no runner finds it: the store is damaged.
    InNoPlace,
}

/// Asks the store why a job is not running. `pace` is how many jobs of the topic end in a second.
///
/// Returns `None` if the job is unknown.
///
/// # Errors
/// The store is unavailable.
pub async fn why(
    store: &(impl Inspect + ?Sized),
    tenant: &Name,
    id: &JobId,
    role: ProcessRole,
    served: impl Fn(&TopicId) -> Served,
    pace: impl Fn(&TopicCounts) -> Option<f64>,
) -> Result<Option<Why>, StoreError> {
    let mut found = look_up(store, tenant, id).await?;
    for tried in 1..=TRIES {
        let Some(view) = &found else { return Ok(None) };
        let Some(topic) = view.job.as_ref().map(|job| job.spec.topic.clone()) else { break };
        let (counts, served) = (store.counts(tenant).await?, served(&topic));
        let of_tenant = counts.iter().map(|counts| counts.running).sum();
        let counts = counts.into_iter().find(|counts| counts.topic == topic);
        let matters = counts.as_ref().is_some_and(|counts| served.depends_on_others(counts));
        let runners = Runners::of(store, role, matters).await?;
        let ahead = match view.state {
            JobState::Ready if view.behind.is_none() => store.jobs_ahead(&topic, id).await?,
            _ => None,
        };
        let holder = match view.behind.as_ref().and_then(|behind| behind.holders.first()) {
            Some(holder) => store.job(tenant, holder).await?,
            None => None,
        };
        let clock = ClockOffset::of(store.clock_time(tenant)).await?;
        let again = look_up(store, tenant, id).await?;
        let is_lost = has_no_place(view, ahead, counts.as_ref());
        let is_same = again.as_ref().is_some_and(|again| (&again.state, &again.behind) == (&view.state, &view.behind));
        // It may have been claimed and given back between the two looks, so one look does not do.
        if is_same && (!is_lost || tried == TRIES) {
            let pace = counts.as_ref().and_then(&pace);
            let unique = match unique_holder(store, view).await? {
                // It may only have held it last.
                Some((value, holder)) => {
                    store.job(tenant, &holder).await?.filter(is_on_its_way).map(|it| (value, it.id))
                }
                None => None,
            };
            let idle = counts.as_ref().and_then(|counts| idle(counts, of_tenant, &served, runners));
            let mut why = explain(view, topic, ahead, idle, &served.limits, pace, clock);
            if is_lost {
                return Ok(Some(in_no_place(why)));
            }
            if let Some((value, holder)) = unique {
                why.detail.push_str(&format!(", once job {holder} is over, which holds its unique value `{value}`"));
            }
            let key_rate = served.limits.per_key.rate;
            return Ok(Some(wait_for_key(why, view.behind.as_ref(), holder.as_ref(), key_rate, clock)));
        }
        found = again;
    }
    // It ended, or it changes its place faster than it can be looked at.
    Ok(found.map(|view| {
        let (reason, detail, until) = by_state(&view, None, Timestamp::now());
        let topic = view.topic().cloned();
        Why {
            id: view.id,
            topic,
            reason,
            detail,
            until,
            ahead: None,
            expected_in: None,
            expected_by: None,
            limit: None,
            behind: None,
            waits_for: None,
            idle: None,
            clock: None,
        }
    }))
}

/// Whether a job that is stored as ready stands in no line of its topic, so that no claim finds it.
///
/// # Errors
/// The store is unavailable.
pub async fn is_in_no_place(
    store: &(impl Inspect + ?Sized),
    tenant: &Name,
    view: &JobView,
) -> Result<bool, StoreError> {
    let Some(topic) = view.job.as_ref().map(|job| &job.spec.topic) else { return Ok(false) };
    for _ in 0..TRIES {
        let ahead =
            if view.state == JobState::Ready { store.jobs_ahead(topic, &view.id).await? } else { return Ok(false) };
        let counts = store.counts(tenant).await?.into_iter().find(|counts| counts.topic == *topic);
        let again = look_up(store, tenant, &view.id).await?;
        let is_same = again.is_some_and(|again| again.state == JobState::Ready && again.attempts == view.attempts);
        if !is_same || !has_no_place(view, ahead, counts.as_ref()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a job that is stored as ready stands in no line: there it would have a place, as there are not more jobs than are counted. `ahead`: what
/// [`Inspect::jobs_ahead`] says of it; `counts`: of its topic.
fn has_no_place(view: &JobView, ahead: Option<u64>, counts: Option<&TopicCounts>) -> bool {
    let is_in_line = view.state == JobState::Ready && view.behind.is_none();
    is_in_line && ahead.is_none() && counts.is_none_or(|counts| counts.ready <= AHEAD)
}

fn in_no_place(why: Why) -> Why {
    let detail = format!("ready: {IN_NO_PLACE}");
    Why { reason: WhyReason::InNoPlace, detail, expected_in: None, expected_by: None, idle: None, ..why }
}

fn is_on_its_way(view: &JobView) -> bool {
    !matches!(view.state, JobState::Dead { .. } | JobState::Finished)
}

/// The unique value of a dead job, and the other job that holds it, so that this one cannot be respawned, or held it last.
///
/// # Errors
/// The store is unavailable.
pub async fn unique_holder(
    store: &(impl Inspect + ?Sized),
    view: &JobView,
) -> Result<Option<(String, JobId)>, StoreError> {
    let unique = view.job.as_ref().and_then(|job| Some((&job.spec.topic, job.spec.options.unique.as_ref()?)));
    let is_dead = matches!(view.state, JobState::Dead { .. });
    let Some((topic, unique)) = unique.filter(|(_, unique)| is_dead && unique.window.is_none()) else {
        return Ok(None);
    };
    let holder = store.unique_holder(topic, &unique.value).await?.filter(|holder| *holder != view.id);
    Ok(holder.map(|holder| (unique.value.clone(), holder)))
}

/// The same of a job that waits for others of its key. `holder`: the first of these, if it is still there.
fn wait_for_key(
    why: Why,
    behind: Option<&BehindKey>,
    holder: Option<&JobView>,
    key_rate: Option<Rate>,
    clock: ClockOffset,
) -> Why {
    let Some(behind) = behind else { return why };
    let others = match behind.ahead {
        0 => "it is the next one of its key".into(),
        1 => "one job of its key stands before it".into(),
        ahead => format!("{ahead} jobs of its key stand before it"),
    };
    let holder = match holder {
        Some(view) => {
            let (reason, state, _) = by_state(view, key_rate, clock.store);
            let remedy = if reason == WhyReason::Dead { ", or delete it, and its key goes on" } else { "" };
            format!("{}, which has its key's slot, is {state}{remedy}", view.id)
        }
        None => "the job that had its key's slot has just ended".into(),
    };
    let detail = format!("ready: {others}, and {holder}");
    let behind = Some(behind.clone());
    Why { reason: WhyReason::BehindKey, detail, behind, expected_in: None, expected_by: None, idle: None, ..why }
}

fn explain(
    view: &JobView,
    topic: TopicId,
    ahead: Option<u64>,
    idle: Option<Idle>,
    limits: &FleetLimits,
    pace: Option<f64>,
    clock: ClockOffset,
) -> Why {
    let (key_rate, now) = (limits.per_key.rate, clock.store);
    let (mut reason, mut detail, until) = by_state(view, key_rate, now);
    let by_clock = clock.noticed().map(|clock| format!(", by the store's clock, which is {clock}")).unwrap_or_default();
    if matches!(reason, WhyReason::Retry | WhyReason::Delayed | WhyReason::RateOfKey) {
        detail.push_str(&by_clock);
    }
    if let (WhyReason::Running, Some(until)) = (reason, until) {
        // A worker that has died is still named.
        detail.push_str(&format!("; unless that extends its lease, the job is taken back {}", about_wait(until, now)));
    }
    // That no job is ready, or that all places are taken, keeps no job that is not due.
    let idle = idle.filter(|idle| idle.stops() || reason == WhyReason::InLine && idle.reason != IdleReason::Empty);
    let mut expected = None;
    if reason == WhyReason::InLine {
        if idle.as_ref().is_some_and(Idle::stops) {
            reason = WhyReason::TopicIdle;
        }
        expected = ahead.and_then(|ahead| Expected::of(idle.as_ref(), limits, ahead, pace, now));
        detail = in_line(ahead, idle.as_ref(), expected);
        if idle.as_ref().and_then(Idle::until).is_some() {
            detail.push_str(&by_clock);
        }
    } else if let Some(idle) = &idle
        && matches!(reason, WhyReason::Retry | WhyReason::Delayed | WhyReason::RateOfKey | WhyReason::Dead)
    {
        detail = format!("{detail}; then it waits on: {}", about_topic(idle));
    }
    Why {
        id: view.id.clone(),
        topic: Some(topic),
        reason,
        detail,
        until,
        ahead,
        expected_in: expected.map(|expected| whole_millis(expected.wait)),
        expected_by: expected.map(|expected| expected.by),
        limit: until.filter(|_| reason == WhyReason::RateOfKey).map(|until| LimitCounts::of_rate(key_rate, until)),
        behind: None,
        waits_for: view.waits_for.clone().filter(|_| reason == WhyReason::Waiting),
        idle,
        clock: clock.noticed(),
    }
}

/// What the state alone says. `key_rate`: of the topic, if it is known.
fn by_state(view: &JobView, key_rate: Option<Rate>, now: Timestamp) -> (WhyReason, String, Option<Timestamp>) {
    let failure = || view.last_failure.as_ref().map_or_else(|| "its reason is not known".into(), about_failure);
    match &view.state {
        JobState::Ready => (WhyReason::InLine, "ready".into(), None),
        JobState::Running { worker, cancelled: false, lease_until, .. } => {
            let detail = format!("running: attempt {} is with {worker}", view.attempts);
            (WhyReason::Running, detail, Some(*lease_until))
        }
        JobState::Running { worker, lease_until, .. } => {
            let detail = format!("running: it is cancelled, and {worker} has not ended it yet");
            (WhyReason::Stopping, detail, Some(*lease_until))
        }
        JobState::Delayed { until } if view.rate_of_key => {
            let rate = key_rate.map(|rate| format!(" ({})", about_rate(rate))).unwrap_or_default();
            let wait = about_wait(*until, now);
            let detail = format!("delayed: the rate of its key{rate} lets it start no sooner than {wait}");
            (WhyReason::RateOfKey, detail, Some(*until))
        }
        JobState::Delayed { until } if view.last_failure.is_some() => {
            let (wait, attempt) = (about_wait(*until, now), view.attempts);
            let detail = format!("delayed: attempt {attempt} failed ({}), and the next one is due {wait}", failure());
            (WhyReason::Retry, detail, Some(*until))
        }
        JobState::Delayed { until } => {
            (WhyReason::Delayed, format!("delayed: it is due {}", about_wait(*until, now)), Some(*until))
        }
        JobState::Waiting => (WhyReason::Waiting, waiting(view.waits_for.as_ref()), None),
        JobState::Dead { since } => {
            let (attempts, why) = (units::counted(view.attempts, "attempt", "attempts"), failure());
            let detail = format!("dead since {since}, after {attempts} ({why}): {}", remedy(view));
            (WhyReason::Dead, detail, None)
        }
        JobState::Finished => {
            let outcome = view.ended.as_ref().map(|ended| ended.outcome);
            let end = match (&view.result, outcome) {
                (Some(ResultView::Dead(failure)), _) => format!("it was given up ({})", about_failure(failure)),
                (Some(ResultView::Expired), _) | (None, Some(EndedAs::Expired)) => {
                    "it expired before it could start".into()
                }
                (Some(ResultView::Cancelled), _) | (None, Some(EndedAs::Cancelled)) => "it was cancelled".into(),
                (None, Some(EndedAs::Deleted)) => "it was dead, and was deleted".into(),
                (Some(ResultView::Complete(_)), _) | (None, Some(EndedAs::Complete) | None) => {
                    "it was completed".into()
                }
            };
            let at = view.ended.as_ref().map(|ended| format!(" at {}", ended.at)).unwrap_or_default();
            (WhyReason::Finished, format!("finished: {end}{at}"), None)
        }
    }
}

/// What to do about a dead job. One whose predecessor was not done dies anew for as long as that is so.
fn remedy(view: &JobView) -> String {
    let is_of_predecessor = |failure: &Failure| failure.reason == Reason::Predecessor;
    let died_of = view.last_failure.as_ref().filter(|failure| is_of_predecessor(failure));
    let before = died_of.and_then(|_| view.waits_for.as_ref()?.first_failed());
    let parked_by = view.last_failure.as_ref().and_then(|failure| failure.parked_by.as_deref());
    match before {
        None => match parked_by {
            Some(version) => {
                format!("it runs again by itself once another version of the handler than {version} serves")
            }
            None => match view.topic() {
                Some(topic) => format!("respawn it: `gristmill dead respawn {topic} {}`", view.id),
                None => "respawn it".into(),
            },
        },
        Some((job, Ended::Dead)) => format!(
            "respawn job {job} first, then this one; if that one is gone, `gristmill push --from-job {}` runs it without waiting",
            view.id
        ),
        Some((job, _)) => format!(
            "job {job} is gone, so to respawn it ends in the same way; `gristmill push --from-job {}` runs it without waiting",
            view.id
        ),
    }
}

/// Which jobs it waits for.
fn waiting(waits_for: Option<&WaitsFor>) -> String {
    let Some(WaitsFor { open, total, ended, failed, jobs }) = waits_for else {
        return "waiting: the last job that it waited for has just ended".into();
    };
    let open = if *open { "it is a batch that is not sealed; " } else { "" };
    let ids: Vec<&str> = jobs.iter().filter(|job| job.ended.is_none()).map(|job| job.id.as_str()).collect();
    let more = if total - ended > ids.len() as u64 { ", ..." } else { "" };
    let names = if ids.is_empty() { String::new() } else { format!(": it waits for {}{more}", ids.join(", ")) };
    let jobs = units::counted(*total, "job", "jobs");
    let failed = if *failed > 0 { format!(", {failed} of them not done") } else { String::new() };
    format!("waiting: {open}{ended} of {jobs} ended{failed}{names}")
}

fn in_line(ahead: Option<u64>, idle: Option<&Idle>, expected: Option<Expected>) -> String {
    let place = match ahead {
        Some(0) => "it is the first in line".into(),
        Some(1) => "one job of its topic stands before it".into(),
        Some(ahead) => format!("{ahead} jobs of its topic stand before it"),
        None => format!("more than {AHEAD} jobs of its topic stand before it"),
    };
    let waits = match idle {
        Some(idle) => about_topic(idle),
        None => "it begins as soon as a runner that serves its topic has a free slot".into(),
    };
    let expected = expected.map(|expected| format!("; {}", expected.in_words())).unwrap_or_default();
    format!("ready: {place}, and {waits}{expected}")
}

/// Why the topic begins no job, as a part of a sentence.
fn about_topic(idle: &Idle) -> String {
    if idle.other_runners.is_some() {
        return format!("its topic is not served here: {}", idle.detail);
    }
    match idle.reason {
        IdleReason::Paused => format!("its topic{}", idle.detail.trim_start_matches("it")),
        IdleReason::NoRunner => idle.detail.clone(),
        IdleReason::ConcurrencyReached => format!("its topic has no free slot: {}", idle.detail),
        IdleReason::MaxRunningReached
        | IdleReason::RateLimited
        | IdleReason::TenantMaxRunningReached
        | IdleReason::JobsPerDayUsedUp
        | IdleReason::FuelPerHourUsedUp => format!("a limit keeps it in line: {}", idle.detail),
        _ => format!("its topic has no handler: {}", idle.detail),
    }
}

fn about_failure(failure: &Failure) -> String {
    let message = failure.detail.message.lines().next().unwrap_or_default();
    if message.is_empty() { failure.reason.to_string() } else { format!("{}: {message}", failure.reason) }
}

fn about_wait(until: Timestamp, now: Timestamp) -> String {
    if until <= now {
        return "now: a runner makes it ready".into();
    }
    format!("at {until}, in {}", units::about_duration(until.since(now)))
}

#[cfg(test)]
#[path = "tests/job.rs"]
mod tests;
