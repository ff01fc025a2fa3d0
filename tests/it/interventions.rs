//! What people do to jobs and topics while a runner works on them: cancel, pause, resume.

use std::time::Duration;

use gristmill::job::{Due, JobChange, JobId, JobOptions, Priority, TopicId};
use gristmill::store::{Cancelled, JobChanged, JobState, JobView, ResultView};
use gristmill_tests::guests;
use gristmill_tests::test_runner::{On, TestRunner, spec, spec_with, tenant};
use gristmill_tests::wait::{SOON, until};
use puppet::{Cause, End, Script, Step};

const MANIFEST: &str = r#"
    [topics.puppet]
    timeout = "60s"
    [topics.deaf]
    handler = "puppet"
    timeout = "1s"
    attempts = 1000
    backoff = "10ms"
    [topics.patient]
    handler = "puppet"
    timeout = "1h"
    [topics.single]
    handler = "puppet"
    concurrency = 1
"#;

async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, MANIFEST, &[("puppet", guests::PUPPET)]).await
}

on_both_stores! {
    a_waiting_job_is_gone_when_cancelled
    a_job_that_waits_for_hours_runs_now
    a_running_job_sees_that_it_is_cancelled_and_is_gone_if_it_gives_up
    a_running_job_that_completes_all_the_same_is_done
    a_job_that_never_asks_is_stopped_by_its_deadline_and_not_tried_again
    a_kill_ends_a_loop_and_a_host_call_long_before_the_deadline
    a_paused_topic_hands_out_nothing_until_it_is_resumed
    high_jobs_come_first_and_low_ones_all_the_same
}

async fn view(runner: &TestRunner, job: &JobId) -> JobView {
    runner.store.job(&tenant(), job).await.unwrap().expect("it is known")
}

async fn cancel(runner: &TestRunner, job: &JobId) -> Cancelled {
    runner.store.cancel(&tenant(), std::slice::from_ref(job)).await.unwrap()[0]
}

async fn total(runner: &TestRunner, topic: &str, what: &str) -> u64 {
    let (topic, counts) = (topic.parse::<TopicId>().unwrap(), runner.store.counts(&tenant()).await.unwrap());
    let counts = counts.into_iter().find(|counts| counts.topic == topic).unwrap();
    counts.totals.get(what).copied().unwrap_or_default()
}

async fn running(runner: &TestRunner, topic: &str, script: Script) -> JobId {
    let job = runner.push(topic, &script.to_json()).await;
    until("the job to run", SOON, async || {
        matches!(view(runner, &job).await.state, JobState::Running { .. }).then_some(())
    })
    .await;
    job
}

async fn finished(runner: &TestRunner, job: &JobId) -> Option<ResultView> {
    until("the end of the job", SOON, async || {
        let view = view(runner, job).await;
        (view.state == JobState::Finished).then_some(view.result)
    })
    .await
}

async fn a_waiting_job_is_gone_when_cancelled(runner: TestRunner) {
    let script = Script::end(End::Complete).to_json();
    let job = runner.push_job(spec("puppet", &script), Due::After(Duration::from_secs(3600))).await;
    assert_eq!(cancel(&runner, &job).await, Cancelled::Gone);
    assert_eq!(finished(&runner, &job).await, Some(ResultView::Cancelled));
    assert_eq!(cancel(&runner, &job).await, Cancelled::TooLate);
    assert_eq!(total(&runner, "puppet", "cancelled").await, 1);
}

async fn change(runner: &TestRunner, job: &JobId, due: Due) -> JobChanged {
    let change = JobChange { due: Some(due), priority: None };
    runner.store.change(&tenant(), std::slice::from_ref(job), &change).await.unwrap()[0]
}

async fn a_job_that_waits_for_hours_runs_now(runner: TestRunner) {
    let hour = || Due::After(Duration::from_secs(3600));
    let script = Script::end(End::Complete).to_json();
    for soon in [Due::Now, Due::After(Duration::from_millis(20))] {
        let job = runner.push_job(spec("puppet", &script), hour()).await;
        assert_eq!(change(&runner, &job, soon).await, JobChanged::Changed);
        assert_eq!(finished(&runner, &job).await, Some(ResultView::Complete(None)));
        assert_eq!(change(&runner, &job, soon).await, JobChanged::TooLate);
    }
}

async fn a_running_job_sees_that_it_is_cancelled_and_is_gone_if_it_gives_up(runner: TestRunner) {
    let give_up = End::Retry(Cause { code: "not-wanted".into(), ..Cause::default() });
    let job = running(&runner, "puppet", Script::new([Step::WaitUntilCancelled, Step::End(give_up)])).await;
    assert_eq!(cancel(&runner, &job).await, Cancelled::Stopping);
    assert_eq!(finished(&runner, &job).await, Some(ResultView::Cancelled));
    assert_eq!((total(&runner, "puppet", "cancelled").await, total(&runner, "puppet", "retried").await), (1, 0));
}

async fn a_running_job_that_completes_all_the_same_is_done(runner: TestRunner) {
    let end = Step::End(End::Text("half".into()));
    let job = running(&runner, "puppet", Script::new([Step::WaitUntilCancelled, end])).await;
    assert_eq!(cancel(&runner, &job).await, Cancelled::Stopping);
    let Some(ResultView::Complete(Some(result))) = finished(&runner, &job).await else { panic!("it is not complete") };
    assert_eq!(result.data, b"half");
    assert_eq!(total(&runner, "puppet", "cancelled").await, 0);
}

async fn a_job_that_never_asks_is_stopped_by_its_deadline_and_not_tried_again(runner: TestRunner) {
    // Between two attempts a job is gone at once: another one then.
    let job = until("a cancel in the midst of an attempt", 4 * SOON, async || {
        let job = running(&runner, "deaf", Script::new([Step::SleepMs(60_000)])).await;
        (cancel(&runner, &job).await == Cancelled::Stopping).then_some(job)
    })
    .await;
    assert_eq!(finished(&runner, &job).await, Some(ResultView::Cancelled));
}

async fn a_kill_ends_a_loop_and_a_host_call_long_before_the_deadline(runner: TestRunner) {
    for step in [Step::End(End::InfiniteLoop), Step::SleepMs(3_600_000)] {
        let job = running(&runner, "patient", Script::new([step])).await;
        let killed = runner.store.kill(&tenant(), std::slice::from_ref(&job)).await.unwrap();
        assert_eq!(killed, [Cancelled::Stopping]);
        assert_eq!(finished(&runner, &job).await, Some(ResultView::Cancelled));
    }
    assert_eq!(total(&runner, "patient", "cancelled").await, 2);
    runner.work("patient", &Script::end(End::Complete).to_json()).await;
}

async fn a_paused_topic_hands_out_nothing_until_it_is_resumed(runner: TestRunner) {
    let topic: TopicId = "puppet".parse().unwrap();
    assert!(runner.store.set_paused(&topic, true).await.unwrap());
    assert!(!runner.store.set_paused(&topic, true).await.unwrap(), "it was paused before");
    let script = Script::end(End::Complete).to_json();
    let job = runner.push("puppet", &script).await;
    // Another topic's job pushed later is done, so the runner was awake.
    runner.work("single", &script).await;
    assert_eq!(view(&runner, &job).await.state, JobState::Ready);
    assert!(runner.store.set_paused(&topic, false).await.unwrap());
    runner.end_of(&job).await;
}

async fn high_jobs_come_first_and_low_ones_all_the_same(runner: TestRunner) {
    let topic: TopicId = "single".parse().unwrap();
    runner.store.set_paused(&topic, true).await.unwrap();
    let script = Script::end(End::Complete).to_json();
    let mut jobs = Vec::new();
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        for _ in 0..8 {
            let job = spec_with("single", &script, JobOptions { priority, ..JobOptions::default() });
            jobs.push((runner.push_job(job, Due::Now).await, priority));
        }
    }
    runner.store.set_paused(&topic, false).await.unwrap();
    for (job, _) in &jobs {
        runner.end_of(job).await;
    }
    let order = runner.records().into_iter().filter_map(|record| {
        jobs.iter().find(|(job, _)| *job == record.claim.lease.job).map(|(_, priority)| *priority)
    });
    let first: Vec<Priority> = order.take(Priority::TURNS.len()).collect();
    assert_eq!(first, Priority::TURNS, "a topic of one at a time is served turn by turn");
}
