//! Topics that keep instances for later jobs: what a job finds of the one before, and where that ends.

use gristmill::job::{Due, JobId, JobOptions, TopicId};
use gristmill::outcome::Verdict;
use gristmill::runner::AttemptRecord;
use gristmill::store::{JobState, ResultView};
use gristmill_tests::guests;
use gristmill_tests::test_runner::{TestRunner, spec, spec_with};
use gristmill_tests::wait::{SOON, until};
use puppet::{Cause, Count, End, Enqueue, MARKER, Script, Step};

fn is_ack(record: &AttemptRecord) -> bool {
    matches!(record.verdict, Verdict::Ack(_))
}

const MANIFEST: &str = r#"
    [handlers]
    rescan = "1h"
    [defaults]
    clock = true
    memory = "16MiB"
    fuel = "100M"
    backoff = "1ms"
    [topics.fresh]
    handler = "puppet"
    [topics.kept]
    handler = "puppet"
    reuse = 1000000
    [topics.beside]
    handler = "puppet"
    reuse = 1000000
    [topics.twice]
    handler = "puppet"
    reuse = 2
    [topics.hasty]
    handler = "puppet"
    reuse = 1000000
    timeout = "500ms"
    fuel = "1T"
    attempts = 1
    [topics.sink]
    handler = "nobody"
    [tenants.acme.topics.kept]
    handler = "puppet"
    reuse = 1000000
"#;

async fn runner() -> TestRunner {
    TestRunner::start(MANIFEST, &[("puppet", guests::PUPPET)]).await
}

/// The result of a job of any tenant.
async fn result_of(runner: &TestRunner, topic: &str, job: &JobId) -> String {
    let topic: TopicId = topic.parse().unwrap();
    until(format!("the result of {job}"), SOON, async || {
        let view = runner.store.job(&topic.tenant, job).await.unwrap()?;
        match view.result {
            Some(ResultView::Complete(Some(payload))) => Some(String::from_utf8(payload.data).unwrap()),
            _ => None,
        }
    })
    .await
}

async fn run(runner: &TestRunner, topic: &str, script: Script) -> String {
    let job = runner.push_job(spec(topic, &script.to_json()), Due::Now).await;
    result_of(runner, topic, &job).await
}

/// How many jobs the instance has done that did this one.
async fn count(runner: &TestRunner, topic: &str) -> u32 {
    run(runner, topic, Script::end(End::JobCount)).await.parse().unwrap()
}

/// The same by a job that is tried again if a machine that stands still made it late: an attempt that was stopped for that
/// leaves nothing to the next one either.
async fn count_in_the_end(runner: &TestRunner, topic: &str) -> u32 {
    let job = spec_with(
        topic,
        &Script::end(End::JobCount).to_json(),
        JobOptions { max_attempts: Some(100), ..JobOptions::default() },
    );
    let job = runner.push_job(job, Due::Now).await;
    result_of(runner, topic, &job).await.parse().unwrap()
}

/// Waits until the topic's jobs find what they should: what is reloaded takes a moment.
async fn comes_to(runner: &TestRunner, topic: &str, jobs: u32) {
    until(format!("{jobs} jobs on an instance of {topic}"), SOON, async || {
        (count(runner, topic).await == jobs).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_find_what_earlier_ones_left_where_a_topic_wants_it_so() {
    let runner = runner().await;
    for jobs in 1..=3 {
        assert_eq!(count(&runner, "fresh").await, 1);
        assert_eq!(count(&runner, "kept").await, jobs);
    }
    for jobs in [1, 2, 1, 2, 1] {
        assert_eq!(count(&runner, "twice").await, jobs);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_and_tenants_share_no_instance() {
    let runner = runner().await;
    for jobs in 1..=2 {
        for topic in ["kept", "beside", "acme/kept"] {
            assert_eq!(count(&runner, topic).await, jobs, "{topic}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_is_stopped_takes_its_instance_with_it() {
    let runner = runner().await;
    for end in [End::InfiniteLoop, End::Unreachable, End::MemoryBomb] {
        assert_eq!(count_in_the_end(&runner, "hasty").await, 1, "before {end:?}");
        let view = runner.work("hasty", &Script::end(end.clone()).to_json()).await;
        assert!(matches!(view.state, JobState::Dead { .. }), "{end:?}: {view:?}");
    }
    assert_eq!(count_in_the_end(&runner, "hasty").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_used_instance_that_traps_costs_its_job_no_attempt() {
    let runner = runner().await;
    assert_eq!(count(&runner, "kept").await, 1);
    let job = runner.push("kept", &Script::new([Step::TrapIfUsed, Step::End(End::JobCount)]).to_json()).await;
    assert_eq!(result_of(&runner, "kept", &job).await, "1");
    runner.end_of(&job).await;
    let attempts = runner.attempts_at(&job);
    let verdicts: Vec<_> = attempts.iter().map(|record| (record.claim.attempt, record.verdict.name())).collect();
    assert_eq!(verdicts, [(1, "ack")]);
    assert_eq!(count(&runner, "kept").await, 2, "the fresh one took its place");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leaking_instance_is_replaced_before_a_job_fails() {
    let runner = runner().await;
    let leak = Script::new([Step::Leak(3 << 20), Step::End(End::JobCount)]);
    // Of the 16 MiB that the topic has, an instance must leave half to the next job.
    for jobs in [1, 2, 3, 1, 2, 3] {
        assert_eq!(run(&runner, "kept", leak.clone()).await, jobs.to_string());
    }
    assert!(runner.records().iter().all(|record| is_ack(record) && record.run.unwrap().memory_peak <= 12 << 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn follow_ups_and_figures_are_those_of_their_job() {
    let runner = runner().await;
    let enqueue =
        |times| Step::Enqueue(Enqueue { topic: "sink".into(), count: Count::Times(times), ..Enqueue::default() });
    let gives_up = End::Reject(Cause { code: "no".into(), ..Cause::default() });
    for script in [
        Script::new([enqueue(2), Step::End(End::Complete)]),
        Script::new([enqueue(5), Step::End(gives_up)]),
        Script::end(End::Complete),
    ] {
        runner.work("kept", &script.to_json()).await;
    }
    let records: Vec<_> = runner.records().into_iter().map(|record| record.run.unwrap()).collect();
    assert_eq!(records.iter().map(|run| run.follow_ups).collect::<Vec<_>>(), [2, 0, 0]);
    let (first, last) = (&records[0], &records[2]);
    assert!(last.fuel > 0 && last.fuel < first.fuel, "{} after {}", last.fuel, first.fuel);
    assert!(last.memory_peak > 0 && last.memory_peak <= first.memory_peak + (1 << 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_is_in_use_at_once() {
    let runner = runner().await;
    assert_eq!(count(&runner, "kept").await, 1);
    assert_eq!(count(&runner, "kept").await, 2);
    let mut component = std::fs::read(guests::PUPPET).unwrap();
    let at = component.windows(15).position(|window| window == &MARKER[..15]).expect("the marker is there");
    component[at + 15..at + 25].copy_from_slice(b"0000000001");
    runner.drop_in("puppet", &component);
    comes_to(&runner, "kept", 1).await;
    let version = run(&runner, "kept", Script::end(End::Version)).await;
    assert!(version.ends_with("0000000001"), "{version}");
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_stay_until_their_own_topics_settings_change() {
    let runner = runner().await;
    assert_eq!((count(&runner, "kept").await, count(&runner, "beside").await), (1, 1));
    runner.rewrite(&MANIFEST.replacen("reuse = 2", "reuse = 3", 1));
    // Once a topic shows that the manifest was read, the others have it too.
    until("three jobs on an instance", SOON, async || (count(&runner, "twice").await == 3).then_some(())).await;
    assert_eq!((count(&runner, "kept").await, count(&runner, "beside").await), (2, 2));
    runner.rewrite(&MANIFEST.replacen("reuse = 1000000", "reuse = 999999", 1));
    comes_to(&runner, "kept", 1).await;
    assert!(count(&runner, "beside").await > 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_topics_with_idle_instances_leave_room_for_others() {
    let topics: Vec<String> = (0..200).map(|number| format!("t{number}")).collect();
    let sections = topics.iter().map(|topic| format!("[topics.{topic}]\nhandler = \"puppet\"\nreuse = 100\n"));
    let manifest = format!("[defaults]\nmemory = \"16MiB\"\n{}", sections.collect::<String>());
    let runner = TestRunner::start(&manifest, &[("puppet", guests::PUPPET)]).await;
    let mut jobs = Vec::new();
    for topic in &topics {
        jobs.push(runner.push(topic, &Script::end(End::JobCount).to_json()).await);
    }
    for job in &jobs {
        runner.end_of(job).await;
    }
    let records = runner.records();
    assert_eq!(records.len(), topics.len());
    assert!(records.iter().all(is_ack), "nobody found the pool full");
}
