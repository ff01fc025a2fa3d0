//! Whether a runner is as fast when there is much of something, and faster when instances are kept between jobs.

use std::time::Duration;

use super::figure::Figure;
use super::load::{drain, fill, fill_topics, try_out};
use super::stopwatch::Stopwatch;
use super::test_bed::{TestBed, TopicSetup, reach, topic};
use gristmill_core::job::{Due, TopicId};

/// Jobs that go in at once while a backlog is held.
const TOP_UP: usize = 500;

/// A runner works on a backlog of `waiting` jobs, which is held at that length while `jobs` are done: producers push as
/// fast as they end, so both cases carry the same cost of pushing.
///
/// # Errors
/// If the store fails.
pub async fn backlog(bed: &TestBed, waiting: usize, jobs: usize) -> anyhow::Result<Figure> {
    let progress = &bed.settings.progress;
    progress.begin(format!("backlog of {waiting}"), waiting + 2 * jobs + waiting);
    fill(bed, waiting).await?;
    let stopwatch = Stopwatch::begin(bed, None);
    let (runner, done) = bed.run_counted()?;
    for pushed in (0..jobs).step_by(TOP_UP) {
        reach(&done, pushed, progress).await;
        fill(bed, TOP_UP).await?;
    }
    reach(&done, jobs, progress).await;
    let figure = stopwatch.end(bed, "scaling", jobs).case(format!("backlog of {waiting}"));
    runner.end().await;
    drain(bed, &bed.topic).await?;
    Ok(figure)
}

/// A full queue, dealt out to this many topics.
///
/// # Errors
/// If the store fails.
pub async fn topics(bed: &TestBed, topics: usize, jobs: usize) -> anyhow::Result<Figure> {
    let names = (0..topics).map(|number| topic(&format!("bench-{number}"))).collect();
    Ok(dealt_out(bed, "scaling", names, jobs).await?.case(format!("{topics} topics")))
}

/// A full queue, dealt out to this many tenants.
///
/// # Errors
/// If the store fails.
pub async fn tenants(bed: &TestBed, tenants: usize, jobs: usize) -> anyhow::Result<Figure> {
    let of_tenant = |number| TopicId { tenant: topic(&format!("tenant-{number}")).topic, ..bed.topic.clone() };
    let names = (0..tenants).map(of_tenant).collect();
    Ok(dealt_out(bed, "cluster", names, jobs).await?.case(format!("{tenants} tenants")))
}

async fn dealt_out(bed: &TestBed, scenario: &'static str, names: Vec<TopicId>, jobs: usize) -> anyhow::Result<Figure> {
    bed.settings.progress.begin(format!("{scenario}, {} topics", names.len()), 2 * jobs);
    bed.serve(names.iter().map(|name| bed.topic_setup(name.clone())).collect());
    fill_topics(bed, &names, jobs, Due::Now).await?;
    bed.work_off(scenario, jobs).await
}

/// A full queue beside this many delayed jobs of the same topic. They stay; the bed is used up.
///
/// # Errors
/// If the store fails.
pub async fn delayed(bed: &TestBed, delayed: usize, jobs: usize) -> anyhow::Result<Figure> {
    const FAR: Duration = Duration::from_secs(24 * 3600);
    let progress = &bed.settings.progress;
    progress.begin(format!("{delayed} delayed"), delayed + 2 * jobs);
    fill_topics(bed, std::slice::from_ref(&bed.topic), delayed, Due::After(FAR)).await?;
    fill(bed, jobs).await?;
    Ok(bed.work_off("scaling", jobs).await?.case(format!("{delayed} delayed")))
}

/// A full queue is worked off by a topic whose instances do so many jobs each.
///
/// # Errors
/// If the store fails, or the component does not complete the job.
pub async fn reuse(bed: &TestBed, jobs: usize, jobs_each: u32) -> anyhow::Result<Figure> {
    let case = if jobs_each == 1 { "a fresh instance a job".into() } else { format!("{jobs_each} jobs an instance") };
    bed.settings.progress.begin(format!("reuse: {case}"), 2 * jobs);
    try_out(bed).await?;
    bed.serve(vec![TopicSetup { reuse: jobs_each, ..bed.topic_setup(bed.topic.clone()) }]);
    fill(bed, jobs).await?;
    Ok(bed.work_off("reuse", jobs).await?.case(case))
}
