use std::time::Duration;

use gristmill_guest::testing::{Host, Run, job};
use gristmill_guest::{Failure, Outcome};

use crate::act::play;
use crate::{Cause, Count, End, Enqueue, Report, Script, Step};

fn play_on(host: &Host, steps: impl IntoIterator<Item = Step>) -> Run {
    host.run(play, job("puppet").body(Script::new(steps).to_json()))
}

fn follow_up(count: Count) -> Enqueue {
    Enqueue { topic: "t".into(), data: "d".into(), count, ..Enqueue::default() }
}

#[test]
fn the_steps_are_carried_out_in_order_up_to_the_end() {
    let run = play_on(
        &Host::new(),
        [
            Step::Log("a".into()),
            Step::Burn(10),
            Step::Checkpoint("half".into()),
            Step::Progress(5_000, None),
            Step::Enqueue(follow_up(Count::Times(2))),
            Step::End(End::Text("done".into())),
            Step::Log("never".into()),
        ],
    );
    assert_eq!(run.text(), "done");
    assert_eq!(run.logs().iter().map(|line| line.message.as_str()).collect::<Vec<_>>(), ["a"]);
    assert_eq!((run.checkpoint(), run.progress().len(), run.enqueued().len()), (Some(&b"half"[..]), 1, 2));
}

#[test]
fn a_refused_follow_up_fails_stops_or_is_ignored() {
    let host = Host::new().follow_ups(3);
    let failed = play_on(&host, [Step::Enqueue(follow_up(Count::Forever))]);
    assert_eq!(failed.failure().map(Failure::code), Some("enqueue-failed"));
    let stopped = play_on(&host, [Step::EnqueueUntilRefused(follow_up(Count::Forever))]);
    assert_eq!((stopped.failure(), stopped.enqueued().len()), (None, 3));
    let ignored = play_on(&host, [Step::EnqueueIgnoringErrors(follow_up(Count::Times(9)))]);
    assert_eq!((ignored.failure(), ignored.enqueued().len()), (None, 3));
}

#[test]
fn endings_are_what_they_say() {
    let cause = Cause { code: "c".into(), message: "m".into(), context: Some("x".into()), after_ms: Some(7) };
    let retry = play_on(&Host::new(), [Step::End(End::Retry(cause.clone()))]);
    let expected = Failure::retry("c", "m").with_context("x").after(Duration::from_millis(7));
    assert_eq!(retry.failure(), Some(&expected));
    let reject = play_on(&Host::new(), [Step::End(End::Reject(cause))]);
    assert_eq!(reject.failure(), Some(&Failure::reject("c", "m").with_context("x")));
    let snoozed = play_on(&Host::new(), [Step::End(End::SnoozeMs(9))]);
    assert_eq!(snoozed.ending(), &Ok(Outcome::Snooze(9)));
    assert_eq!(play_on(&Host::new(), [Step::End(End::Version)]).text().as_bytes(), crate::MARKER);
}

#[test]
fn a_script_can_wait_for_an_attempt_or_a_checkpoint() {
    let until_third = Script::new([Step::RetryUntilAttempt { attempt: 3, after_ms: Some(1) }]).to_json();
    let at = |attempt| Host::new().run(play, job("puppet").attempt(attempt).body(until_third.clone()));
    assert!(at(2).failure().is_some() && at(3).failure().is_none());

    let until_saved = Script::new([Step::RetryUntilCheckpoint("s".into())]).to_json();
    let first = Host::new().run(play, job("puppet").body(until_saved.clone()));
    assert_eq!((first.checkpoint(), first.failure().is_some()), (Some(&b"s"[..]), true));
    let second = Host::new().run(play, job("puppet").checkpoint("s").body(until_saved));
    assert!(second.failure().is_none());
}

#[test]
fn the_report_shows_what_was_granted() {
    let host = Host::new().config("colour", "red").secret("key", "s3").cancelled().now(5);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let end = End::Report { config: names(&["colour", "size"]), secrets: names(&["key"]) };
    let report: Report = play_on(&host, [Step::WaitUntilCancelled, Step::End(end)]).json();
    assert_eq!((report.config["colour"].as_deref(), report.config["size"].as_deref()), (Some("red"), None));
    assert_eq!((report.secrets["key"].as_deref(), report.now, report.cancelled), (Some("s3"), 5, true));
}
