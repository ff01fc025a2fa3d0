//! Every row of the outcome table, with a real guest on a real Redis. The hostile ones share a runner, which must go on
//! doing honest work.

use std::time::Duration;

use gristmill::job::{Due, JobId, JobOptions, JobSpec};
use gristmill::outcome::Reason;
use gristmill::store::{JobState, JobView, ResultView};
use gristmill_tests::guests;
use gristmill_tests::test_runner::{On, TestRunner, spec, spec_with, tenant};
use gristmill_tests::wait::{SOON, until};
use puppet::{Cause, Count, End, Enqueue, Report, Script, Step};

/// Short waits, small limits, each of them different, so that a mix-up shows.
const MANIFEST: &str = r#"
    [defaults]
    fuel = "200M"
    memory = "16MiB"
    timeout = "20s"
    attempts = 3
    backoff = "10ms"
    output-limit = "4KiB"
    log-limit = "2KiB"
    host-calls = 5000
    follow-ups = 7
    checkpoint-limit = "1KiB"

    [topics.puppet]

    [topics.hasty]
    handler = "puppet"
    timeout = "300ms"
    fuel = "1T"

    [topics.small]
    handler = "puppet"
    payload-limit = "256B"

    [topics.granted]
    handler = "puppet"
    enqueue = ["sink"]
    [topics.granted.config]
    colour = "green"

    # Nobody works here: what is enqueued stays to be counted.
    [topics.sink]
    handler = "nobody"
    payload-limit = "100B"
"#;

async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, MANIFEST, &[("puppet", guests::PUPPET)]).await
}

// What becomes of a job does not depend on where it waited.
on_both_stores! {
    complete_acks_and_keeps_the_result
    a_guest_sees_its_job_and_nothing_of_the_host
    snooze_runs_again_later_and_uses_no_attempt
    retry_backs_off_until_the_attempts_are_used_up
    a_retry_may_name_its_wait_and_succeed
    reject_is_dead_at_once
    a_payload_that_does_not_parse_is_rejected_saying_where
    every_hostile_guest_gets_its_verdict_and_honest_work_goes_on
    a_panic_leaves_its_message_and_a_readable_backtrace
    memory_that_was_denied_is_named_with_its_peak
    output_and_payload_are_held_to_their_limits_exactly
    floods_of_log_lines_are_cut_and_the_guest_runs_on
    follow_ups_appear_with_the_ack_or_not_at_all
    follow_ups_are_held_to_what_the_topics_allow
    a_unique_follow_up_is_there_once_however_often_it_is_enqueued
    a_checkpoint_is_there_for_the_next_attempt
    a_topic_without_handler_keeps_its_jobs_until_one_is_dropped_in
    a_job_past_its_time_to_live_is_counted_and_gone
    a_delayed_job_is_never_early
}

async fn work(runner: &TestRunner, topic: &str, script: Script) -> JobView {
    runner.work(topic, &script.to_json()).await
}

fn result(view: &JobView) -> &[u8] {
    match &view.result {
        Some(ResultView::Complete(Some(payload))) => &payload.data,
        other => panic!("no result but {other:?}"),
    }
}

/// The reason that the job is dead, and the text that goes with it.
fn death(view: &JobView) -> (Reason, String) {
    assert!(matches!(view.state, JobState::Dead { .. }), "not dead: {view:?}");
    let failure = view.last_failure.clone().expect("a dead job has a reason");
    (failure.reason, failure.detail.message)
}

async fn ready(runner: &TestRunner, topic: &str) -> u64 {
    let counts = runner.store.counts(&tenant()).await.unwrap();
    counts.iter().find(|counts| counts.topic.to_string() == topic).map_or(0, |counts| counts.ready)
}

fn sink(count: Count) -> Enqueue {
    Enqueue { topic: "sink".into(), data: "x".into(), count, ..Enqueue::default() }
}

async fn complete_acks_and_keeps_the_result(runner: TestRunner) {
    let view = work(&runner, "puppet", Script::end(End::Text("flour".into()))).await;
    assert_eq!((view.state.clone(), result(&view)), (JobState::Finished, b"flour".as_slice()));
    let view = work(&runner, "puppet", Script::end(End::Complete)).await;
    assert_eq!(view.result, Some(ResultView::Complete(None)));
}

async fn a_guest_sees_its_job_and_nothing_of_the_host(runner: TestRunner) {
    let end = End::Report { config: vec!["colour".into(), "shape".into()], secrets: vec![] };
    let options = JobOptions { key: Some("k".into()), max_attempts: Some(9), ..JobOptions::default() };
    let job = JobSpec {
        metadata: vec![("a".into(), "1".into()), ("a".into(), "2".into())],
        ..spec_with("granted", &Script::end(end).to_json(), options)
    };
    let id = runner.push_job(job, Due::Now).await;
    let report: Report = serde_json::from_slice(result(&runner.end_of(&id).await)).unwrap();
    assert_eq!(
        (report.id.as_str(), report.tenant.as_str(), report.topic.as_str()),
        (id.as_str(), "default", "granted")
    );
    assert_eq!((report.attempt, report.max_attempts, report.key.as_deref()), (1, 9, Some("k")));
    assert_eq!(report.metadata, [("a".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())]);
    assert_eq!(report.enqueued_at, report.due_at);
    assert!(report.now <= report.deadline && report.deadline <= report.now + 20_000);
    assert!(report.fuel_remaining > 0 && report.fuel_remaining < 200_000_000);
    assert_eq!(report.config["colour"].as_deref(), Some("green"));
    assert_eq!(report.config["shape"], None);
    assert!(report.environment.is_empty() && report.arguments.is_empty() && !report.sees_files);
}

async fn snooze_runs_again_later_and_uses_no_attempt(runner: TestRunner) {
    let job = runner.push("puppet", &Script::end(End::SnoozeMs(5)).to_json()).await;
    until("more deliveries than attempts allowed", SOON, async || (runner.attempts_at(&job).len() > 4).then_some(()))
        .await;
    assert!(
        runner.attempts_at(&job).iter().all(|record| (record.claim.attempt, record.verdict.name()) == (1, "snooze"))
    );
}

async fn retry_backs_off_until_the_attempts_are_used_up(runner: TestRunner) {
    let cause = Cause { code: "busy".into(), message: "try later".into(), ..Cause::default() };
    let view = work(&runner, "puppet", Script::end(End::Retry(cause))).await;
    assert_eq!(death(&view), (Reason::Failed, "try later".into()));
    assert_eq!(view.attempts, 3);
    let waits: Vec<_> = runner.attempts_at(&view.id).iter().map(|record| record.verdict.again_in()).collect();
    let pause = Some(Duration::from_millis(10));
    assert_eq!(waits, [pause, pause, None]);
}

async fn a_retry_may_name_its_wait_and_succeed(runner: TestRunner) {
    let retry = Step::RetryUntilAttempt { attempt: 3, after_ms: Some(1) };
    let view = work(&runner, "puppet", Script::new([retry, Step::End(End::Text("third".into()))])).await;
    assert_eq!(result(&view), b"third");
    let records = runner.attempts_at(&view.id);
    assert_eq!(records.iter().map(|record| record.claim.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(records[0].verdict.again_in(), Some(Duration::from_millis(1)));
}

async fn reject_is_dead_at_once(runner: TestRunner) {
    let cause = Cause { code: "bad".into(), message: "no such order".into(), ..Cause::default() };
    let view = work(&runner, "puppet", Script::end(End::Reject(cause))).await;
    assert_eq!((death(&view), view.attempts), ((Reason::Rejected, "no such order".into()), 1));
}

async fn a_payload_that_does_not_parse_is_rejected_saying_where(runner: TestRunner) {
    let (reason, message) = death(&runner.work("puppet", b"{\"do\": 7}").await);
    assert_eq!(reason, Reason::Rejected);
    assert!(message.contains("line 1"), "{message}");
}

async fn every_hostile_guest_gets_its_verdict_and_honest_work_goes_on(runner: TestRunner) {
    let hostile = [
        ("puppet", Script::end(End::InfiniteLoop), Reason::FuelExhausted, 1),
        ("puppet", Script::end(End::MemoryBomb), Reason::MemoryExceeded, 1),
        ("puppet", Script::end(End::StackOverflow), Reason::Trap, 2),
        ("puppet", Script::end(End::Panic("the runner is on fire".into())), Reason::Trap, 2),
        ("puppet", Script::end(End::Unreachable), Reason::Trap, 2),
        ("puppet", Script::end(End::Exit(3)), Reason::Trap, 2),
        ("puppet", Script::end(End::Bytes(1 << 20)), Reason::Limit, 1),
        ("puppet", Script::end(End::Bytes((4 << 10) + 1)), Reason::Limit, 1),
        ("puppet", Script::new([Step::HostCalls(u64::MAX)]), Reason::Limit, 1),
        ("puppet", Script::new([Step::LogFlood { lines: u64::MAX, bytes: 100 }]), Reason::Limit, 1),
        ("puppet", Script::new([Step::EnqueueIgnoringErrors(sink(Count::Forever))]), Reason::Limit, 1),
        ("puppet", Script::new([Step::StdoutFlood { lines: u64::MAX, bytes: 100 }]), Reason::Limit, 1),
        ("hasty", Script::end(End::InfiniteLoop), Reason::Timeout, 3),
        ("hasty", Script::new([Step::SleepMs(3_600_000)]), Reason::Timeout, 3),
    ];
    let jobs: Vec<JobId> = {
        let mut jobs = Vec::new();
        for (topic, script, ..) in &hostile {
            jobs.push(runner.push(topic, &script.to_json()).await);
        }
        jobs
    };
    for ((topic, script, reason, attempts), job) in hostile.into_iter().zip(jobs) {
        let view = runner.end_of(&job).await;
        assert_eq!((death(&view).0, view.attempts), (reason, attempts), "{topic} {script:?}: {view:?}");
        // Beside them and after each of them.
        let honest = work(&runner, "puppet", Script::end(End::Text("honest".into()))).await;
        assert_eq!(result(&honest), b"honest");
    }
    assert_eq!(ready(&runner, "sink").await, 0, "nothing that a failed attempt enqueued may appear");
}

async fn a_panic_leaves_its_message_and_a_readable_backtrace(runner: TestRunner) {
    let view = work(&runner, "puppet", Script::end(End::Panic("the runner is on fire".into()))).await;
    let failure = view.last_failure.unwrap();
    assert!(failure.detail.message.contains("the runner is on fire"), "{failure:?}");
    assert!(failure.backtrace.unwrap().contains("puppet"), "names survive the build");
}

async fn memory_that_was_denied_is_named_with_its_peak(runner: TestRunner) {
    let (_, message) = death(&work(&runner, "puppet", Script::end(End::MemoryBomb)).await);
    assert!(message.contains("more than its 16MiB of memory"), "{message}");
    let view = work(&runner, "puppet", Script::new([Step::Allocate(8 << 20), Step::End(End::Complete)])).await;
    let peak = runner.attempts_at(&view.id)[0].run.unwrap().memory_peak;
    assert!((8 << 20..16 << 20).contains(&peak), "{peak}");
}

async fn output_and_payload_are_held_to_their_limits_exactly(runner: TestRunner) {
    let view = work(&runner, "puppet", Script::end(End::Bytes(4 << 10))).await;
    assert_eq!(result(&view).len(), 4 << 10);

    let script = |pad: usize| Script::new([Step::Log("x".repeat(pad)), Step::End(End::Complete)]).to_json();
    let pad = 256 - script(0).len();
    let (fits, over) = (script(pad), script(pad + 1));
    assert_eq!((fits.len(), over.len()), (256, 257));
    assert_eq!(runner.work("small", &fits).await.state, JobState::Finished);
    let (reason, message) = death(&runner.work("small", &over).await);
    assert_eq!(reason, Reason::Limit);
    assert!(message.contains("payload") && message.contains("256"), "{message}");
}

async fn floods_of_log_lines_are_cut_and_the_guest_runs_on(runner: TestRunner) {
    let flood = [Step::LogFlood { lines: 1000, bytes: 100 }, Step::StdoutFlood { lines: 1000, bytes: 100 }];
    let script = Script::new(flood.into_iter().chain([Step::End(End::Text("still here".into()))]));
    assert_eq!(result(&work(&runner, "puppet", script).await), b"still here");
}

async fn follow_ups_appear_with_the_ack_or_not_at_all(runner: TestRunner) {
    let three = || Step::Enqueue(sink(Count::Times(3)));
    let reject = End::Reject(Cause::default());
    work(&runner, "puppet", Script::new([three(), Step::End(reject)])).await;
    work(&runner, "puppet", Script::new([three(), Step::End(End::Unreachable)])).await;
    assert_eq!(ready(&runner, "sink").await, 0);
    // Tried twice, enqueued once.
    let retried = [three(), Step::RetryUntilAttempt { attempt: 2, after_ms: Some(1) }];
    work(&runner, "puppet", Script::new(retried)).await;
    assert_eq!(ready(&runner, "sink").await, 3);
}

async fn follow_ups_are_held_to_what_the_topics_allow(runner: TestRunner) {
    // As many as allowed, then told so.
    work(&runner, "puppet", Script::new([Step::EnqueueUntilRefused(sink(Count::Forever))])).await;
    assert_eq!(ready(&runner, "sink").await, 7);

    let refused =
        async |topic: &str, to: Enqueue| death(&work(&runner, topic, Script::new([Step::Enqueue(to)])).await).1;
    let unknown = Enqueue { topic: "nowhere".into(), ..Enqueue::default() };
    let too_large = Enqueue { data: "x".repeat(101), ..sink(Count::Once) };
    let denied = Enqueue { topic: "puppet".into(), ..Enqueue::default() };
    for (message, expected) in [
        (refused("puppet", unknown).await, "no topic `nowhere`"),
        (refused("puppet", too_large).await, "100"),
        (refused("granted", denied).await, "may not enqueue"),
    ] {
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(ready(&runner, "sink").await, 7);
}

async fn a_unique_follow_up_is_there_once_however_often_it_is_enqueued(runner: TestRunner) {
    let unique = || Enqueue { unique: Some("order-7".into()), ..sink(Count::Once) };
    for _ in 0..3 {
        work(&runner, "puppet", Script::new([Step::Enqueue(unique())])).await;
    }
    assert_eq!(ready(&runner, "sink").await, 1);
}

async fn a_checkpoint_is_there_for_the_next_attempt(runner: TestRunner) {
    let report = End::Report { config: vec![], secrets: vec![] };
    let script = Script::new([Step::RetryUntilCheckpoint("half way".into()), Step::End(report)]);
    let report: Report = serde_json::from_slice(result(&work(&runner, "puppet", script).await)).unwrap();
    assert_eq!((report.attempt, report.checkpoint.as_deref()), (2, Some("half way")));
}

async fn a_topic_without_handler_keeps_its_jobs_until_one_is_dropped_in(runner: TestRunner) {
    let job = runner.push("sink", &Script::end(End::Text("served".into())).to_json()).await;
    work(&runner, "puppet", Script::end(End::Complete)).await;
    assert_eq!(runner.store.job(&tenant(), &job).await.unwrap().unwrap().state, JobState::Ready);
    runner.drop_in("nobody", &std::fs::read(guests::PUPPET).unwrap());
    let view = runner.end_of(&job).await;
    assert_eq!((result(&view), view.attempts), (b"served".as_slice(), 1));
}

async fn a_job_past_its_time_to_live_is_counted_and_gone(runner: TestRunner) {
    let late = spec_with("sink", b"{}", JobOptions { ttl: Some(Duration::from_millis(1)), ..JobOptions::default() });
    let job = runner.push_job(late, Due::Now).await;
    until("the time to live to pass", SOON, async || {
        let job = runner.store.job(&tenant(), &job).await.unwrap().unwrap().job.unwrap();
        let probe = runner.push("sink", b"{}").await;
        let now = runner.store.job(&tenant(), &probe).await.unwrap().unwrap().job.unwrap().enqueued_at;
        (now > job.expires_at().unwrap()).then_some(())
    })
    .await;
    runner.drop_in("nobody", &std::fs::read(guests::ECHO).unwrap());
    assert_eq!(runner.end_of(&job).await.result, Some(ResultView::Expired));
}

async fn a_delayed_job_is_never_early(runner: TestRunner) {
    let job = spec("puppet", &Script::end(End::Report { config: vec![], secrets: vec![] }).to_json());
    let id = runner.push_job(job, Due::After(Duration::from_millis(200))).await;
    let report: Report = serde_json::from_slice(result(&runner.end_of(&id).await)).unwrap();
    // Redis counts microseconds; what is not a whole millisecond is rounded towards later.
    assert!((200..=201).contains(&(report.due_at - report.enqueued_at)));
    assert!(report.now >= report.due_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn follow_ups_have_a_limit_in_bytes_together() {
    let manifest = "[topics.puppet]\n[topics.sink]\nhandler = \"nobody\"\n";
    let runner = TestRunner::start(manifest, &[("puppet", guests::PUPPET)]).await;
    let large = Enqueue { data: "x".repeat(400_000), ..sink(Count::Forever) };
    let view = work(&runner, "puppet", Script::new([Step::EnqueueUntilRefused(large)])).await;
    assert_eq!(view.state, JobState::Finished);
    assert_eq!(ready(&runner, "sink").await, (16 << 20) / 400_000);
}
