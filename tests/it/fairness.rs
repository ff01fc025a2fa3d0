//! Who gets the next free slot: every topic that has work, and soon.

use std::collections::BTreeSet;
use std::time::Duration;

use gristmill::job::{Due, JobSpec, NewJob, TopicId};
use gristmill::runner::AttemptRecord;
use gristmill_tests::guests;
use gristmill_tests::mill::{Mill, spec};
use gristmill_tests::wait::{SOON, until};
use puppet::{End, Script, Step};

async fn push_to_each(mill: &Mill, topics: &[TopicId], jobs: usize, script: &Script) {
    let body = script.to_json();
    let job = |topic: &TopicId| NewJob {
        spec: JobSpec { keep_result: None, ..spec(&topic.to_string(), &body) },
        due: Due::Now,
    };
    let jobs: Vec<_> = topics.iter().flat_map(|topic| (0..jobs).map(move |_| job(topic))).collect();
    mill.store.push(&jobs).await.unwrap();
}

async fn records(mill: &Mill, count: usize) -> Vec<AttemptRecord> {
    let enough = || Some(mill.records()).filter(|records| records.len() >= count);
    let mut records = until(format!("{count} attempts"), 4 * SOON, async || enough()).await;
    records.sort_by_key(|record| record.started);
    records
}

#[tokio::test(flavor = "multi_thread")]
async fn more_hot_topics_than_slots_are_served_in_turn() {
    const TOPICS: usize = 300;
    const JOBS: usize = 8;
    let topics: Vec<TopicId> = (0..TOPICS).map(|number| format!("t{number:03}").parse().unwrap()).collect();
    let manifest: String = topics.iter().map(|topic| format!("[topics.{topic}]\nhandler = \"puppet\"\n")).collect();
    let mill = Mill::start(&manifest, &[("puppet", guests::PUPPET)]).await;
    push_to_each(&mill, &topics, JOBS, &Script::new([Step::SleepMs(5), Step::End(End::Complete)])).await;

    let records = records(&mill, TOPICS * JOBS).await;
    let early: BTreeSet<&TopicId> = records.iter().take(TOPICS * 3).map(|record| &record.topic).collect();
    assert_eq!(early.len(), TOPICS, "topics that had a turn while others had three");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_of_concurrency_one_never_stalls() {
    const JOBS: usize = 2000;
    let manifest = "[topics.alone]\nhandler = \"puppet\"\nconcurrency = 1\n";
    let mill = Mill::start(manifest, &[("puppet", guests::PUPPET)]).await;
    push_to_each(&mill, &["alone".parse().unwrap()], JOBS, &Script::end(End::Complete)).await;

    let records = records(&mill, JOBS).await;
    let gaps = records.windows(2).filter_map(|pair| {
        let [before, after] = pair else { return None };
        Some(after.started.duration_since(before.started + before.duration))
    });
    // The slow look at the store would come to the rescue after 0.75 s at the soonest.
    let stalls = gaps.filter(|gap| *gap > Duration::from_millis(700)).count();
    assert_eq!(stalls, 0, "pauses between jobs that were all ready");
}
