//! `kill -9` of runners whose jobs wait for each other: chains, and batches of some hundred members.
//!
//! Every job enqueues one follow-up that names it, for a topic without a worker. Follow-ups become visible with the ack, so they stand
//! in the order of the acks that counted.

use std::collections::BTreeMap;

use gristmill::job::{Due, JobId, JobOptions, JobSpec, NewJob, TopicId};
use gristmill::store::prelude::*;
use gristmill::store::{BatchSealed, Pushed, StateFilter, TopicCounts};
use gristmill_tests::guests;
use gristmill_tests::process::{Process, kills};
use gristmill_tests::random::seeded;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::test_runner::{spec, tenant};
use gristmill_tests::wait::{SOON, until};
use serde_json::Value;

const CHAINS: usize = 3;
const LINKS: usize = 40;
const BATCHES: usize = 2;
const MEMBERS: usize = 200;

/// More attempts than kills: a job that is unlucky each time must still not die.
const MANIFEST: &str = r#"
    [topics.order-timeout]
    attempts = 50
    [topics.notify]
    handler = "nobody"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn workflows_in_a_file_end_once_and_in_order_though_their_runner_is_killed() {
    let manifest = format!("[store]\nurl = \"sqlite:gristmill.db\"\ndurability = \"process\"\n{MANIFEST}");
    run(TestProject::new(&manifest, &[("order-timeout", guests::ORDER_TIMEOUT)]).await, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workflows_in_redis_end_once_and_in_order_though_their_runners_are_killed() {
    run(TestProject::on_redis(MANIFEST, &[("order-timeout", guests::ORDER_TIMEOUT)]).await, 2).await;
}

/// Kills the oldest of so many runners, several times.
async fn run(project: TestProject, runners: usize) {
    let (kills, mut random) = (kills(5), seeded());
    let jobs = orders();
    let all = jobs.len() as u64;
    push(&*project.store_at_rest().await, &jobs).await;
    let mut processes: Vec<Process> = (0..runners).map(|_| Process::run(&project.manifest())).collect();
    for kill in 1..=kills {
        // A random moment in the kill's share of the work.
        let share = all / (kills + 2);
        wait_for_acks(&project, (kill - 1) * share + random.u64(1..share)).await;
        processes.remove(0).kill();
        if kill == kills.div_ceil(2) {
            seal(&*project.store_at_rest().await).await;
        }
        processes.push(Process::run(&project.manifest()));
    }
    wait_for_acks(&project, all).await;
    processes.into_iter().for_each(Process::kill);
    let store = project.store_at_rest().await;
    assert_done_once_and_in_order(&*store, &jobs).await;
}

/// The jobs by name: `chain-1-2` comes after `chain-1-1`, `batch-1` after all `member-1-…`, and `last` after all chains and batches.
fn orders() -> Vec<NewJob> {
    let order = |name: &str, options: JobOptions| {
        let body = format!(r#"{{"order_id": "{name}", "customer": "c"}}"#);
        let spec = JobSpec { options, id: id(name), ..spec("order-timeout", body.as_bytes()) };
        NewJob { spec, due: Due::Now }
    };
    let mut jobs = Vec::new();
    for batch in 0..BATCHES {
        let name = format!("batch-{batch}");
        jobs.push(order(&name, JobOptions { open: true, ..JobOptions::default() }));
        for member in 0..MEMBERS {
            let links = JobOptions { batch: Some(id(&name)), ..JobOptions::default() };
            jobs.push(order(&format!("member-{batch}-{member}"), links));
        }
    }
    for chain in 0..CHAINS {
        for link in 0..LINKS {
            let before = (link > 0).then(|| id(&format!("chain-{chain}-{}", link - 1)));
            let links = JobOptions { after: before.into_iter().collect(), ..JobOptions::default() };
            jobs.push(order(&format!("chain-{chain}-{link}"), links));
        }
    }
    let ends = (0..CHAINS).map(|chain| format!("chain-{chain}-{}", LINKS - 1));
    let ends = ends.chain((0..BATCHES).map(|batch| format!("batch-{batch}"))).map(|name| id(&name));
    jobs.push(order("last", JobOptions { after: ends.collect(), ..JobOptions::default() }));
    jobs
}

fn id(name: &str) -> JobId {
    name.parse().unwrap()
}

/// Seals the first batch as well. The others are sealed while jobs run.
async fn push(store: &dyn Store, jobs: &[NewJob]) {
    let pushed = store.push(jobs).await.unwrap();
    assert!(pushed.iter().all(|pushed| *pushed == Pushed::Stored));
    assert_eq!(store.seal(&tenant(), &id("batch-0")).await.unwrap(), BatchSealed::Sealed);
}

async fn seal(store: &dyn Store) {
    for batch in 1..BATCHES {
        assert_eq!(store.seal(&tenant(), &id(&format!("batch-{batch}"))).await.unwrap(), BatchSealed::Sealed);
    }
}

async fn wait_for_acks(project: &TestProject, acks: u64) {
    until(format!("{acks} acks"), 4 * SOON, async || {
        let counts = project.store_in_use().await?.counts(&tenant()).await.ok()?;
        (total(&counts, "acked") >= acks).then_some(())
    })
    .await;
}

fn total(counts: &[TopicCounts], what: &str) -> u64 {
    let orders = counts.iter().find(|counts| counts.topic.topic.as_str() == "order-timeout");
    orders.and_then(|counts| counts.totals.get(what).copied()).unwrap_or_default()
}

async fn assert_done_once_and_in_order(store: &dyn Store, jobs: &[NewJob]) {
    assert_eq!(store.fsck().await.unwrap().findings, []);
    let counts = store.counts(&tenant()).await.unwrap();
    let orders = counts.iter().find(|counts| counts.topic.topic.as_str() == "order-timeout").unwrap();
    assert_eq!((orders.jobs(), total(&counts, "acked")), (0, jobs.len() as u64), "{orders:?}");
    println!("{} jobs, {} attempts made again", jobs.len(), total(&counts, "retried"));

    let notify: TopicId = "notify".parse().unwrap();
    let (mut done, mut after) = (Vec::new(), None);
    loop {
        let page = store.jobs(&notify, StateFilter::Ready, after.as_ref(), 1000).await.unwrap();
        done.extend(page.jobs.into_iter().filter_map(|view| view.job).map(|job| order_of(&job.spec)));
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    let place: BTreeMap<&JobId, usize> = done.iter().enumerate().map(|(place, id)| (id, place)).collect();
    assert_eq!((done.len(), place.len()), (jobs.len(), jobs.len()), "one follow-up an ack");
    for NewJob { spec, .. } in jobs {
        let batch = spec.options.batch.iter().map(|batch| (&spec.id, batch));
        for (first, second) in spec.options.after.iter().map(|before| (before, &spec.id)).chain(batch) {
            assert!(place[first] < place[second], "{second} was done before {first}");
        }
    }
}

/// Which job a notification is about.
fn order_of(notification: &JobSpec) -> JobId {
    let body: Value = serde_json::from_slice(&notification.body.data).unwrap();
    id(body["order_id"].as_str().unwrap())
}
