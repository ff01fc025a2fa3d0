//! Which job gets the next free slot: every topic that has work gets one soon, and every tenant its part.

use std::collections::BTreeSet;
use std::time::Duration;

use gristmill::job::{Due, JobOptions, JobSpec, NewJob, TopicId};
use gristmill::runner::AttemptRecord;
use gristmill_tests::guests;
use gristmill_tests::test_runner::{TestRunner, spec};
use gristmill_tests::wait::{SOON, until};
use puppet::{End, Script, Step};

async fn push_to_each(runner: &TestRunner, topics: &[TopicId], jobs: usize, script: &Script) {
    let body = script.to_json();
    let job = |topic: &TopicId| NewJob {
        spec: JobSpec { options: JobOptions::default(), ..spec(&topic.to_string(), &body) },
        due: Due::Now,
    };
    let jobs: Vec<_> = topics.iter().flat_map(|topic| (0..jobs).map(move |_| job(topic))).collect();
    runner.store.push(&jobs).await.unwrap();
}

async fn records(runner: &TestRunner, count: usize) -> Vec<AttemptRecord> {
    let enough = || Some(runner.records()).filter(|records| records.len() >= count);
    until(format!("{count} attempts"), 4 * SOON, async || enough()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn more_hot_topics_than_slots_are_served_in_turn() {
    const TOPICS: usize = 300;
    const JOBS: usize = 12;
    const SLOTS: usize = 64;
    /// Jobs that a topic gets in one turn, at most: where all slots are free, sixteen topics share them.
    const TURN: usize = SLOTS / 16;
    let topics: Vec<TopicId> = (0..TOPICS).map(|number| format!("t{number:03}").parse().unwrap()).collect();
    let manifest: String = topics.iter().map(|topic| format!("[topics.{topic}]\nhandler = \"puppet\"\n")).collect();
    let runner = TestRunner::start(&(manifest + "[topics.z]\nhandler = \"echo\"\n"), &[("echo", guests::ECHO)]).await;
    push_to_each(&runner, &topics, JOBS, &Script::new([Step::SleepMs(5), Step::End(End::Complete)])).await;
    // All have been heard of once a job that came after theirs is done; then all may begin at once.
    runner.work("z", b"").await;
    runner.drop_in("puppet", &std::fs::read(guests::PUPPET).unwrap());

    let mut records = records(&runner, TOPICS * JOBS + 1).await;
    records.retain(|record| record.claim.lease.topic.topic.as_str() != "z");
    // In the order in which they were claimed, whichever thread took them up then.
    records.sort_by_key(|record| record.run.map(|run| run.started - run.queued));
    let early =
        records.iter().take(TOPICS * TURN + SLOTS).map(|record| &record.claim.lease.topic).collect::<BTreeSet<_>>();
    assert_eq!(early.len(), TOPICS, "topics that had a turn while others had little more than one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_of_concurrency_one_never_stalls() {
    const JOBS: usize = 2000;
    /// A machine may stand still now and then; an end that is missed now and then is missed more often.
    const PAUSES: usize = 3;
    let manifest = "[topics.alone]\nhandler = \"puppet\"\nconcurrency = 1\n";
    let runner = TestRunner::start(manifest, &[("puppet", guests::PUPPET)]).await;
    push_to_each(&runner, &["alone".parse().unwrap()], JOBS, &Script::end(End::Complete)).await;

    let records = records(&runner, JOBS).await;
    let mut runs: Vec<_> = records.into_iter().filter_map(|record| record.run).collect();
    runs.sort_by_key(|run| run.started);
    let gaps = runs.windows(2).filter_map(|pair| {
        let [before, after] = pair else { return None };
        Some(after.started.duration_since(before.started + before.duration))
    });
    // The slow look at the store would come to the rescue after 0.75 s at the soonest.
    let stalls = gaps.filter(|gap| *gap > Duration::from_millis(700)).count();
    assert!(stalls <= PAUSES, "{stalls} pauses between jobs that were all ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_with_a_hundred_topics_gets_no_more_than_one_with_one() {
    /// A machine that stands still while attempts run charges their tenant for it; it does not do so each time.
    const ROUNDS: usize = 3;
    let mut parts = Vec::new();
    while parts.len() < ROUNDS {
        let part = part_of_one_topic_beside_a_hundred().await;
        if (part - 0.5).abs() < 0.05 {
            return;
        }
        parts.push(part);
    }
    panic!("the parts of the tenant with one topic: {parts:?}");
}

/// Of the attempts that are made while both tenants have jobs left.
async fn part_of_one_topic_beside_a_hundred() -> f64 {
    const JOBS: usize = 3000;
    let many: Vec<TopicId> = (0..100).map(|number| format!("many/t{number:02}").parse().unwrap()).collect();
    let few: TopicId = "few/t".parse().unwrap();
    let section = |id: &TopicId| format!("[tenants.{}.topics.{}]\nhandler = \"puppet\"\n", id.tenant, id.topic);
    let manifest: String = many.iter().chain([&few]).map(section).collect();
    let runner = TestRunner::start(&(manifest + "[topics.z]\nhandler = \"echo\"\n"), &[("echo", guests::ECHO)]).await;
    let script = Script::end(End::Complete);
    push_to_each(&runner, &many, JOBS / many.len(), &script).await;
    push_to_each(&runner, std::slice::from_ref(&few), JOBS, &script).await;
    // All have been heard of once a job that came after theirs is done; then all may begin at once.
    runner.work("z", b"").await;
    runner.drop_in("puppet", &std::fs::read(guests::PUPPET).unwrap());

    let mut records = records(&runner, 2 * JOBS + 1).await;
    records.retain(|record| record.claim.lease.topic.topic.as_str() != "z");
    let of_few = records.iter().take(JOBS).filter(|record| record.claim.lease.topic == few).count();
    of_few as f64 / JOBS as f64
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_are_claimed_ahead_begin_no_more_at_once_than_their_topic_allows() {
    const CONCURRENCY: usize = 3;
    let manifest = format!("[topics.few]\nhandler = \"puppet\"\nconcurrency = {CONCURRENCY}\n");
    let runner = TestRunner::start(&manifest, &[("puppet", guests::PUPPET)]).await;
    let few = ["few".parse().unwrap()];
    // They end fast, so that more are claimed than may begin; then they do not.
    push_to_each(&runner, &few, 1000, &Script::end(End::Complete)).await;
    push_to_each(&runner, &few, 20, &Script::new([Step::SleepMs(20), Step::End(End::Complete)])).await;

    let runs: Vec<_> = records(&runner, 1020).await.into_iter().filter_map(|record| record.run).collect();
    let changes = runs.iter().flat_map(|run| [(run.started, 1), (run.started + run.waited + run.duration, -1)]);
    let mut changes: Vec<_> = changes.collect();
    // Of a start and an end at the same moment, the end was first.
    changes.sort();
    let (mut at_once, mut most) = (0, 0);
    for (_, change) in changes {
        at_once += change;
        most = most.max(at_once);
    }
    assert!(most <= CONCURRENCY as i32, "{most} at once");
}
