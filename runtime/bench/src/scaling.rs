//! Whether a runner is as fast when there is much of something.

use std::time::Duration;

use super::figure::Figure;
use super::load::{fill, fill_topics};
use super::stopwatch::Stopwatch;
use super::test_bed::{BenchError, TestBed, reach, topic};
use gristmill_core::job::{Due, TopicId};

/// Jobs that go in at once while a backlog is held.
const TOP_UP: usize = 500;

/// A runner works on a backlog of `waiting` jobs, which is held at that length while `jobs` are done: producers push as
/// fast as they end, so both cases carry the same cost of pushing.
///
/// # Errors
/// If the store fails.
pub async fn backlog(bed: &TestBed, waiting: usize, jobs: usize) -> Result<Figure, BenchError> {
    let progress = &bed.settings.progress;
    progress.begin(format!("backlog of {waiting}"), waiting + 2 * jobs + waiting);
    fill(bed, waiting).await?;
    let stopwatch = Stopwatch::begin(bed);
    let (runner, done) = bed.run_counted()?;
    for pushed in (0..jobs).step_by(TOP_UP) {
        reach(&done, pushed, progress).await;
        fill(bed, TOP_UP).await?;
    }
    reach(&done, jobs, progress).await;
    let figure = stopwatch.end(bed, "scaling", jobs).case(format!("backlog of {waiting}"));
    TestBed::end(runner).await;
    super::load::drain(bed, &bed.topic).await?;
    Ok(figure)
}

/// A full queue, dealt out to this many topics.
///
/// # Errors
/// If the store fails.
pub async fn topics(bed: &TestBed, topics: usize, jobs: usize) -> Result<Figure, BenchError> {
    let progress = &bed.settings.progress;
    progress.begin(format!("{topics} topics"), 2 * jobs);
    let names: Vec<TopicId> = (0..topics).map(|number| topic(&format!("bench-{number}"))).collect();
    bed.serve(names.iter().map(|name| bed.topic_setup(name.clone())).collect());
    fill_topics(bed, &names, jobs, Due::Now).await?;
    let stopwatch = Stopwatch::begin(bed);
    let (runner, done) = bed.run_counted()?;
    reach(&done, jobs, progress).await;
    let figure = stopwatch.end(bed, "scaling", jobs).case(format!("{topics} topics"));
    TestBed::end(runner).await;
    bed.serve(vec![bed.topic_setup(bed.topic.clone())]);
    Ok(figure)
}

/// A full queue beside this many delayed jobs of the same topic. They stay; the bed is used up.
///
/// # Errors
/// If the store fails.
pub async fn delayed(bed: &TestBed, delayed: usize, jobs: usize) -> Result<Figure, BenchError> {
    const FAR: Duration = Duration::from_secs(24 * 3600);
    let progress = &bed.settings.progress;
    progress.begin(format!("{delayed} delayed"), delayed + 2 * jobs);
    fill_topics(bed, std::slice::from_ref(&bed.topic), delayed, Due::After(FAR)).await?;
    fill(bed, jobs).await?;
    let stopwatch = Stopwatch::begin(bed);
    let (runner, done) = bed.run_counted()?;
    reach(&done, jobs, progress).await;
    let figure = stopwatch.end(bed, "scaling", jobs).case(format!("{delayed} delayed"));
    TestBed::end(runner).await;
    Ok(figure)
}
