//! Schedules in real runners, which are killed while they fire.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gristmill::job::TopicId;
use gristmill::store::prelude::*;
use gristmill::store::{Cursor, StateFilter};
use gristmill_tests::process::{Process, kills, run_command};
use gristmill_tests::random::seeded;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::wait::{SOON, until};

/// How many runners and schedules there are, unless the environment names other numbers.
fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

const MANIFEST: &str = r#"
[topics.ticks]
handler = "external"
[topics.ticks.schedule.yearly]
cron = "@yearly"
"#;

/// For each schedule, its ticks in seconds, each with how late its job was stored, ms.
type Ticks = BTreeMap<String, Vec<(u64, u64)>>;

/// `None`: the store does not answer.
async fn jobs(store: &(impl ListJobs + ?Sized), topic: &TopicId) -> Option<Ticks> {
    let (mut ticks, mut after): (Ticks, Option<Cursor>) = (Ticks::new(), None);
    loop {
        let page = store.jobs(topic, StateFilter::Ready, after.as_ref(), 1000).await.ok()?;
        for job in page.jobs.into_iter().map(|view| view.job.unwrap()) {
            let id = job.spec.id.as_str();
            let (schedule, tick) = id.rsplit_once('-').expect("an id of a schedule's job");
            let tick: u64 = tick.parse().unwrap();
            let late = job.enqueued_at.as_millis().checked_sub(tick).unwrap_or_else(|| panic!("{id} came early"));
            ticks.entry(schedule.to_owned()).or_default().push((tick / 1000, late));
        }
        after = page.next;
        if after.is_none() {
            return Some(ticks);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tick_has_one_job_however_many_runners_there_are_and_whenever_they_are_killed() {
    kill_while_they_fire(TestProject::on_redis(MANIFEST, &[]).await, number("GRISTMILL_TEST_RUNNERS", 3)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tick_has_one_job_in_a_file_whose_runner_is_killed() {
    kill_while_they_fire(TestProject::new(MANIFEST, &[]).await, 1).await;
}

async fn kill_while_they_fire(project: TestProject, runners: usize) {
    let schedules = number("GRISTMILL_TEST_SCHEDULES", 3);
    let topic: TopicId = "ticks".parse().unwrap();
    for n in 0..schedules {
        let said = project.run(&["schedule", "set", "ticks", &format!("s{n}"), "--every", "1s", "--missed", "all"]);
        assert_eq!(said.code, 0, "{}", said.err);
    }
    let run = || Process::start(run_command(&project.manifest(), &[]), &project.manifest());
    let mut running: Vec<Process> = (0..runners).map(|_| run()).collect();
    let mut random = seeded();
    let count = async || {
        let ticks = jobs(&*project.store_in_use().await?, &topic).await?;
        Some(ticks.values().map(Vec::len).sum::<usize>())
    };
    for _ in 0..kills(4) {
        let victim = random.usize(..runners);
        running.swap_remove(victim).kill();
        running.push(run());
        let enough = until("a runner", SOON, async || count().await).await + schedules * random.usize(1..3);
        until("more ticks", SOON, async || (count().await? >= enough).then_some(())).await;
    }
    until("the manifest's schedule", SOON, async || {
        let listed = project.run(&["schedule", "list"]);
        String::from_utf8(listed.out).unwrap().contains("made by a manifest").then_some(())
    })
    .await;
    for n in 0..schedules {
        assert_eq!(project.run(&["schedule", "pause", "ticks", &format!("s{n}")]).code, 0);
    }
    drop(running);

    let ticks = jobs(&*project.store_at_rest().await, &topic).await.unwrap();
    assert_eq!(ticks.len(), schedules);
    let mut late = Vec::new();
    for (schedule, ticks) in &ticks {
        let seconds: BTreeSet<u64> = ticks.iter().map(|(second, _)| *second).collect();
        assert_eq!(seconds.len(), ticks.len(), "a tick of {schedule} has two jobs");
        let (first, last) = (seconds.first().unwrap(), seconds.last().unwrap());
        assert_eq!(last - first + 1, seconds.len() as u64, "a tick of {schedule} has no job");
        late.extend(ticks.iter().map(|(_, late)| *late));
    }
    late.sort_unstable();
    let percentile = |per_cent: usize| Duration::from_millis(late[(late.len() - 1) * per_cent / 100]);
    println!("{} ticks: late by {:?} (median), {:?} (p99)", late.len(), percentile(50), percentile(99));
}
