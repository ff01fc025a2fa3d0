//! Why a topic begins no job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::idle::{Idle, IdleReason, LimitCounts};
use super::limit::limited;
use super::served::{ProcessRole, Runners, Served};
use super::serving::Serving;
use crate::deployments::trap_streaks::pausing_version;
use gristmill_config::units::{about_duration, counted};
use gristmill_core::deployment::{Other, show_share};
use gristmill_core::job::TopicId;
use gristmill_core::time::Timestamp;
use gristmill_store::{Pause, Query, StoreError, TopicCounts};

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
    let tried = match (&served.serving, &served.trial) {
        (Serving::Handler { .. }, Some(Other { version, share, .. })) => {
            format!(", and tries {version} on {} of the jobs", show_share(*share))
        }
        _ => String::new(),
    };
    let detail = format!("`{topic}` {why} ({ready} ready, {delayed} delayed, {running} running){tried}");
    Ok(TopicWhy { topic, detail, idle })
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
    let allowed = counted(concurrency, "at once is allowed", "at once are allowed");
    let detail = match runners.alive {
        1 => format!("{allowed} in one runner"),
        alive => format!("{} run, and {allowed} in each of {alive} runners", counts.running),
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

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_core::topic::FleetLimits;

    fn counts(ready: u64, running: u64, paused: bool) -> TopicCounts {
        TopicCounts { ready, running, paused, ..TopicCounts::none("acme/mail".parse().unwrap()) }
    }

    fn served(serving: Serving) -> Served {
        Served { serving, limits: FleetLimits::NONE, trial: None }
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
        let one = idle(&counts(5, 1, false), 1, &served(Serving::Handler { concurrency: 1 }), runners(1)).unwrap();
        assert_eq!(one.detail, "1 at once is allowed in one runner");
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
}
