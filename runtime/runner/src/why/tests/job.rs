//! Why a job is not running.

use gristmill_core::job::{Job, JobSpec, Payload};
use gristmill_core::outcome::FailureDetail;
use gristmill_core::topic::KeyLimits;

use std::time::Duration;

use super::*;
use gristmill_store::Predecessor;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const CLOCK: ClockOffset = ClockOffset { store: NOW, host: NOW };

fn view(state: JobState) -> JobView {
    let topic: TopicId = "acme/mail".parse().unwrap();
    let spec = JobSpec::new(topic, Payload::default());
    let id = spec.id.clone();
    let job = Job { spec, enqueued_at: NOW, due_at: NOW };
    JobView { state, job: Some(job), ..JobView::over(id, 0, None) }
}

fn paused() -> Option<Idle> {
    Some(Idle::new(IdleReason::Paused, "it is paused: `gristmill resume mail`"))
}

fn why(state: JobState, ahead: Option<u64>, idle: Option<Idle>, pace: Option<f64>) -> Why {
    explain(&view(state), "acme/mail".parse().unwrap(), ahead, idle, &FleetLimits::NONE, pace, CLOCK)
}

#[test]
fn a_ready_job_waits_for_its_topic_before_it_waits_in_line() {
    let stopped = why(JobState::Ready, Some(3), paused(), Some(1.0));
    assert_eq!((stopped.reason, stopped.expected_in), (WhyReason::TopicIdle, None), "nothing moves");
    assert_eq!(
        stopped.detail,
        "ready: 3 jobs of its topic stand before it, and its topic is paused: `gristmill resume mail`"
    );
    let waits = why(JobState::Ready, Some(3), None, Some(2.0));
    assert_eq!((waits.reason, waits.ahead, waits.expected_in), (WhyReason::InLine, Some(3), Some(2000)));
    let first = why(JobState::Ready, Some(0), None, Some(0.0));
    assert_eq!(first.expected_in, None, "a line that does not move has no forecast");
    assert!(why(JobState::Ready, None, None, Some(9.0)).detail.contains("more than 10000 jobs"));
}

#[test]
fn a_job_that_another_runner_may_serve_stands_in_line() {
    let elsewhere = Idle { other_runners: Some(2), ..Idle::new(IdleReason::NoHandlerHere, "2 other runners live") };
    let waits = why(JobState::Ready, Some(0), Some(elsewhere), Some(2.0));
    assert_eq!((waits.reason, waits.expected_by), (WhyReason::InLine, Some(ExpectedBy::Pace)));
    let said = "ready: it is the first in line, and its topic is not served here: 2 other runners live; at the pace of the last minutes in 500ms";
    assert_eq!(waits.detail, said);
}

#[test]
fn a_delayed_job_says_when_and_what_will_stop_it_then() {
    let until = Timestamp::from_millis(1_005_000);
    let delayed = why(JobState::Delayed { until }, None, paused(), None);
    assert_eq!((delayed.reason, delayed.until), (WhyReason::Delayed, Some(until)));
    assert!(
        delayed.detail.ends_with("in 5s; then it waits on: its topic is paused: `gristmill resume mail`"),
        "{}",
        delayed.detail
    );
    let empty = Idle::new(IdleReason::Empty, "no job is ready");
    let delayed = why(JobState::Delayed { until }, None, Some(empty), None);
    assert_eq!(delayed.idle, None, "a topic without ready jobs stops none");
}

#[test]
fn a_job_that_the_rate_of_its_key_holds_back_says_until_when() {
    let until = Timestamp::from_millis(1_003_000);
    let view = JobView { rate_of_key: true, ..view(JobState::Delayed { until }) };
    let rate = Rate { burst: 2, ..Rate::new(5, Duration::from_secs(60)) };
    let limits = FleetLimits { per_key: KeyLimits { rate: Some(rate), ..KeyLimits::DEFAULT }, ..FleetLimits::NONE };
    let why = explain(&view, "acme/mail".parse().unwrap(), None, None, &limits, None, CLOCK);
    assert_eq!((why.reason, why.until), (WhyReason::RateOfKey, Some(until)));
    assert_eq!(why.limit, Some(LimitCounts::of_rate(Some(rate), until)));
    let begin = "delayed: the rate of its key (5/m, 2 at once) lets it start no sooner than at ";
    assert!(why.detail.starts_with(begin) && why.detail.ends_with(", in 3s"), "{}", why.detail);
}

#[test]
fn a_job_that_waits_for_a_time_names_the_clock_of_a_store_that_is_off() {
    let off = |seconds: u64| ClockOffset { store: NOW, host: Timestamp::from_millis(1_000_000 + seconds * 1000) };
    let why = |state, idle, clock| {
        explain(&view(state), "acme/mail".parse().unwrap(), Some(0), idle, &FleetLimits::NONE, None, clock)
    };
    let delayed = || JobState::Delayed { until: Timestamp::from_millis(1_005_000) };
    let late = why(delayed(), paused(), off(3600));
    let said = ", in 5s, by the store's clock, which is 1h behind this host's; then it waits on: its topic is paused";
    assert!(late.detail.contains(said), "{}", late.detail);
    assert_eq!(late.clock, Some(off(3600)));
    let near = why(delayed(), None, off(1));
    assert!(near.detail.ends_with(", in 5s") && near.clock.is_none(), "{}", near.detail);
    let limit = LimitCounts::of_rate(None, Timestamp::from_millis(1_002_000));
    let limited = Idle { limit: Some(limit), ..Idle::new(IdleReason::RateLimited, "its `rate` says so") };
    let limited = why(JobState::Ready, Some(limited), off(3600)).detail;
    assert!(limited.ends_with(", by the store's clock, which is 1h behind this host's"), "{limited}");
    let ready = why(JobState::Ready, paused(), off(3600)).detail;
    assert!(!ready.contains("clock"), "no time ends that: {ready}");
}

#[test]
fn a_job_that_failed_says_how_and_when_it_is_tried_again() {
    let detail = FailureDetail { code: "busy".into(), message: "try later\nstack".into(), context: None };
    let last_failure = Some(Failure::new(Reason::Failed, detail));
    let until = Timestamp::from_millis(1_002_000);
    let view = JobView { attempts: 2, last_failure, ..view(JobState::Delayed { until }) };
    let why = explain(&view, "acme/mail".parse().unwrap(), None, None, &FleetLimits::NONE, None, CLOCK);
    assert_eq!((why.reason, why.until), (WhyReason::Retry, Some(until)));
    assert!(why.detail.contains("attempt 2 failed (failed: try later)"), "{}", why.detail);
}

#[test]
fn a_job_that_waits_for_its_key_says_for_which_job_and_where_that_is() {
    let holder = JobView { attempts: 1, ..view(JobState::Dead { since: NOW }) };
    let behind = BehindKey { holders: vec![holder.id.clone()], ahead: 2 };
    let waits = wait_for_key(why(JobState::Ready, None, paused(), None), Some(&behind), Some(&holder), None, CLOCK);
    assert_eq!((waits.reason, waits.behind.as_ref(), waits.idle), (WhyReason::BehindKey, Some(&behind), None));
    let begin =
        format!("ready: 2 jobs of its key stand before it, and {}, which has its key's slot, is dead", holder.id);
    assert!(waits.detail.starts_with(&begin), "{}", waits.detail);
    let end =
        format!("respawn it: `gristmill dead respawn acme/mail {}`, or delete it, and its key goes on", holder.id);
    assert!(waits.detail.ends_with(&end), "{}", waits.detail);
    let running = JobState::Running { worker: "w".into(), delivery: 1, lease_until: NOW, cancelled: false };
    let behind = BehindKey { ahead: 0, ..behind };
    let waits = wait_for_key(why(JobState::Ready, None, None, None), Some(&behind), Some(&view(running)), None, CLOCK);
    assert!(waits.detail.starts_with("ready: it is the next one of its key, and "), "{}", waits.detail);
    assert!(waits.detail.ends_with("is running: attempt 0 is with w"), "{}", waits.detail);
}

#[test]
fn a_job_that_died_of_its_predecessor_says_what_runs_it() {
    let remedy = |reason, ended| {
        let before = Predecessor { id: "before".parse().unwrap(), ended: Some(ended) };
        let waits_for = Some(WaitsFor { total: 1, ended: 1, failed: 1, jobs: vec![before], ..WaitsFor::default() });
        let last_failure = Some(Failure::new(reason, FailureDetail::default()));
        remedy(&JobView { waits_for, last_failure, ..view(JobState::Dead { since: NOW }) })
    };
    let run = remedy(Reason::Trap, Ended::Cancelled);
    assert!(run.starts_with("respawn it: `gristmill dead respawn acme/mail "), "it has run: {run}");
    let gone = remedy(Reason::Predecessor, Ended::Cancelled);
    assert!(gone.starts_with("job before is gone, ") && gone.contains("push --from-job "), "{gone}");
    let dead = remedy(Reason::Predecessor, Ended::Dead);
    assert!(dead.starts_with("respawn job before first, ") && dead.contains("push --from-job "), "{dead}");
}

#[test]
fn a_parked_job_says_what_runs_it() {
    let failure = Failure::new(Reason::Trap, FailureDetail::default());
    let last_failure = Some(Failure { parked_by: Some("0a1b".into()), ..failure });
    let remedy = remedy(&JobView { last_failure, ..view(JobState::Dead { since: NOW }) });
    assert_eq!(remedy, "it runs again by itself once another version of the handler than 0a1b serves");
}

#[test]
fn a_job_that_is_not_waiting_says_so() {
    let lease_until = NOW;
    let running = |cancelled| JobState::Running { worker: "host-1".into(), delivery: 1, lease_until, cancelled };
    let runs = why(running(false), None, None, None);
    assert_eq!(runs.reason, WhyReason::Running);
    let end = "is with host-1; unless that extends its lease, the job is taken back ";
    assert!(runs.detail.contains(end), "{}", runs.detail);
    assert_eq!(why(running(true), None, None, None).reason, WhyReason::Stopping);
    assert_eq!(why(JobState::Dead { since: NOW }, None, None, None).reason, WhyReason::Dead);
}

#[test]
fn a_ready_job_without_a_place_is_lost_unless_the_line_is_too_long_to_tell() {
    let counts = |ready| TopicCounts { ready, ..TopicCounts::none("acme/mail".parse().unwrap()) };
    let is_lost = |view: &JobView, ahead, ready| has_no_place(view, ahead, Some(&counts(ready)));
    let ready = view(JobState::Ready);
    assert!(is_lost(&ready, None, 0) && is_lost(&ready, None, AHEAD) && has_no_place(&ready, None, None));
    assert!(!is_lost(&ready, None, AHEAD + 1) && !is_lost(&ready, Some(0), 1));
    let behind = Some(BehindKey { holders: Vec::new(), ahead: 0 });
    assert!(!is_lost(&JobView { behind, ..ready }, None, 1));
    assert!(!is_lost(&view(JobState::Dead { since: NOW }), None, 0));
    let why = in_no_place(why(JobState::Ready, None, paused(), Some(9.0)));
    assert_eq!((why.reason, why.idle, why.ahead), (WhyReason::InNoPlace, None, None));
    assert!(why.detail.starts_with("ready: it is not found in its line"), "{}", why.detail);
}
