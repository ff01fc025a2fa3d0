//! `kill -9` of runners whose jobs have keys, states, rates, limits of tenants and budgets.

use std::collections::BTreeMap;
use std::fs;

use gristmill::bill::{BillLine, Day};
use gristmill::job::{Due, JobOptions, JobSpec, Name, NewJob, TopicId};
use gristmill::store::prelude::*;
use gristmill::store::{Pushed, TopicCounts};
use gristmill::time::Timestamp;
use gristmill_tests::guests;
use gristmill_tests::process::{Process, kills};
use gristmill_tests::random::seeded;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::test_runner::spec;
use gristmill_tests::wait::{SOON, until};
use rustix::process::Signal;
use serde_json::Value;

use crate::fleet_limits::assert_starts;

/// More attempts than kills: a job that is unlucky each time must still not die.
const MANIFEST: &str = r#"
    [journal]
    path = "journal.jsonl"
    [defaults]
    attempts = 50
    backoff = "1ms"
    [topics.cart]
    handler = "keeper"
    state = true
    [topics.mail]
    handler = "echo"
    rate = "100/s"
    burst = 5
    [topics.webhook]
    handler = "echo"
    per-key = { rate = "50/s", burst = 2 }
    [tenants.narrow.limits]
    max-running = 3
    [tenants.narrow.topics.work]
    handler = "simulate"
    [tenants.spent.limits]
    jobs-per-day = 30
    [tenants.spent.topics.work]
    handler = "simulate"
"#;
const KEYS: usize = 4;
const PER_KEY: usize = 40;
const JOBS: usize = 120;
/// Of the tenant `narrow`: jobs at once.
const AT_ONCE: u64 = 3;
/// Of the tenant `spent`: attempts in a day.
const BUDGET: u64 = 30;

#[tokio::test(flavor = "multi_thread")]
async fn limits_in_a_file_hold_though_their_runner_is_killed() {
    let manifest = format!("[store]\nurl = \"sqlite:gristmill.db\"\ndurability = \"process\"\n{MANIFEST}");
    run(TestProject::new(&manifest, &handlers()).await, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_in_redis_hold_though_their_runners_are_killed() {
    run(TestProject::on_redis(MANIFEST, &handlers()).await, 2).await;
}

fn handlers() -> [(&'static str, &'static str); 3] {
    [("keeper", guests::KEEPER), ("echo", guests::ECHO), ("simulate", guests::SIMULATE)]
}

/// Kills the oldest of so many runners, several times; those that are left stop as runners do.
async fn run(project: TestProject, runners: usize) {
    let (kills, mut random) = (kills(3), seeded());
    let (jobs, begun) = (jobs(), Day::of(Timestamp::now()));
    let all = jobs.iter().filter(|job| job.spec.topic.tenant.as_str() != "spent").count() as u64;
    let pushed = project.store_at_rest().await.push(&jobs).await.unwrap();
    assert!(pushed.iter().all(|pushed| *pushed == Pushed::Stored));
    let mut processes: Vec<Process> = (0..runners).map(|_| Process::run(&project.manifest())).collect();
    let mut billed = 0;
    for kill in 1..=kills {
        // A random moment in the kill's share of the work.
        let share = all / (kills + 2);
        let acks = (kill - 1) * share + random.u64(1..share);
        until_done(&project, format!("{acks} acks"), |seen| seen.acked >= acks).await;
        billed = billed.max(until("the bill", SOON, async || bill(&project).await).await);
        processes.remove(0).kill();
        processes.push(Process::run(&project.manifest()));
    }
    until_done(&project, format!("{all} acks"), |seen| seen.acked >= all).await;
    // Should a day end now, the tenant may spend as much again.
    until_done(&project, "the budget to be used up".into(), |seen| seen.spent >= BUDGET || !is_today(begun)).await;
    for process in &processes {
        process.signal(Signal::TERM);
    }
    for mut process in processes {
        let status = until("the runner to end", SOON, async || process.ended()).await;
        assert!(status.success(), "{status}: {}", process.log());
    }

    let store = project.store_at_rest().await;
    assert_eq!(store.fsck().await.unwrap().findings, []);
    assert_states(&*store).await;
    let counts = [counts(&*store, "default").await, counts(&*store, "narrow").await, counts(&*store, "spent").await];
    let settled: u64 = counts.iter().flatten().map(|counts| total(counts, "acked") + total(counts, "retried")).sum();
    let acked: u64 = counts[..2].iter().flatten().map(|counts| total(counts, "acked")).sum();
    assert_eq!(acked, all, "each job is done once: {counts:?}");
    let in_bill = bill_of(&*store).await;
    assert!(
        billed <= in_bill && in_bill <= settled,
        "{billed} attempts were in the bill, {in_bill} are, {settled} ended"
    );
    assert_rates(&project, &jobs);
    println!("{} jobs, {} attempts, {in_bill} of them in the bill", jobs.len(), settled);
}

/// In turns, so that all of it goes on while runners are killed.
fn jobs() -> Vec<NewJob> {
    let job = |topic: &str, key: Option<String>, body: &str| {
        let spec = JobSpec { options: JobOptions { key, ..JobOptions::default() }, ..spec(topic, body.as_bytes()) };
        NewJob { spec, due: Due::Now }
    };
    let key = |number: usize| Some(format!("k{}", number % KEYS));
    let mut jobs: Vec<NewJob> =
        (0..KEYS * PER_KEY).map(|number| job("cart", key(number), &format!("add {},", number / KEYS))).collect();
    for number in 0..JOBS {
        jobs.push(job("mail", None, "x"));
        jobs.push(job("webhook", key(number), "x"));
        jobs.push(job("narrow/work", None, r#"{"wait-ms": 20}"#));
        jobs.push(job("spent/work", None, r#"{"wait-ms": 1}"#));
    }
    jobs
}

/// What was seen of all tenants.
struct Seen {
    acked: u64,
    /// Attempts of the tenant with a budget.
    spent: u64,
}

/// Waits until so much is done. Whenever it looks, no tenant is over its limits.
async fn until_done(project: &TestProject, what: String, is_enough: impl Fn(&Seen) -> bool) {
    let begun = Day::of(Timestamp::now());
    until(what, 4 * SOON, async || {
        let store = project.store_in_use().await?;
        let counts = async |tenant: &str| store.counts(&tenant.parse().unwrap()).await.ok();
        let (default, narrow, spent) = (counts("default").await?, counts("narrow").await?, counts("spent").await?);
        let running: u64 = narrow.iter().map(|counts| counts.running).sum();
        assert!(running <= AT_ONCE, "{running} jobs of a tenant run at once: {narrow:?}");
        let started = |counts: &TopicCounts| total(counts, "acked") + total(counts, "retried") + counts.running;
        let started: u64 = spent.iter().map(started).sum();
        assert!(started <= BUDGET || !is_today(begun), "{started} attempts in a day: {spent:?}");
        let acked = default.iter().chain(&narrow).map(|counts| total(counts, "acked")).sum();
        let ended = spent.iter().map(|counts| total(counts, "acked") + total(counts, "retried")).sum();
        is_enough(&Seen { acked, spent: ended }).then_some(())
    })
    .await;
}

fn is_today(day: Day) -> bool {
    Day::of(Timestamp::now()) == day
}

async fn counts(store: &(impl Inspect + ?Sized), tenant: &str) -> Vec<TopicCounts> {
    store.counts(&tenant.parse().unwrap()).await.unwrap()
}

fn total(counts: &TopicCounts, what: &str) -> u64 {
    counts.totals.get(what).copied().unwrap_or_default()
}

/// Attempts in the bills of all tenants; `None` while the store does not answer.
async fn bill(project: &TestProject) -> Option<u64> {
    let store = project.store_in_use().await?;
    let mut attempts = 0;
    for tenant in tenants() {
        attempts += attempts_in(&store.bill(&tenant, &days()).await.ok()?);
    }
    Some(attempts)
}

async fn bill_of(store: &dyn Store) -> u64 {
    let mut attempts = 0;
    for tenant in tenants() {
        attempts += attempts_in(&store.bill(&tenant, &days()).await.unwrap());
    }
    attempts
}

fn attempts_in(bill: &[BillLine]) -> u64 {
    bill.iter().map(|line| line.cost.attempts).sum()
}

fn tenants() -> [Name; 3] {
    ["default", "narrow", "spent"].map(|tenant| tenant.parse().unwrap())
}

/// The test may see the end of a day.
fn days() -> std::ops::RangeInclusive<Day> {
    let now = Timestamp::now().as_millis();
    let day = |at| Day::of(Timestamp::from_millis(at));
    day(now - 86_400_000)..=day(now)
}

/// Every job of a key has set its state once, and in their order.
async fn assert_states(store: &dyn Store) {
    let topic: TopicId = "cart".parse().unwrap();
    let whole: String = (0..PER_KEY).map(|number| format!("{number},")).collect();
    for key in 0..KEYS {
        let state = store.state(&topic, &format!("k{key}")).await.unwrap().unwrap();
        assert_eq!(String::from_utf8(state.value).unwrap(), whole, "of key {key}");
    }
}

/// In no span of time more attempts started than a burst and what the rate gives. A kill may cost the journal some lines.
fn assert_rates(project: &TestProject, jobs: &[NewJob]) {
    let specs: BTreeMap<&str, &JobSpec> = jobs.iter().map(|job| (job.spec.id.as_str(), &job.spec)).collect();
    let mut starts: BTreeMap<(String, Option<&str>), Vec<u64>> = BTreeMap::new();
    let journal = fs::read_to_string(project.manifest().with_file_name("journal.jsonl")).unwrap();
    // A kill may have cut off a line.
    for line in journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let Some(spec) = line["job"].as_str().and_then(|job| specs.get(job)) else { continue };
        if line["started_us"].is_u64() {
            let key = spec.options.key.as_deref().filter(|_| spec.topic.topic.as_str() == "webhook");
            let claimed_ms = line["claimed_us"].as_u64().unwrap() / 1000;
            starts.entry((spec.topic.to_string(), key)).or_default().push(claimed_ms);
        }
    }
    assert_eq!(starts.keys().filter(|(topic, _)| topic.contains("webhook")).count(), KEYS, "{:?}", starts.keys());
    for ((topic, _), mut starts) in starts {
        starts.sort_unstable();
        match topic.rsplit('/').next().unwrap() {
            "mail" => assert_starts(&starts, 5, 10),
            "webhook" => assert_starts(&starts, 2, 20),
            _ => {}
        }
    }
}
