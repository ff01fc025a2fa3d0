//! What it saves to keep instances between jobs.

use super::baseline::try_out;
use super::figure::Figure;
use super::load::fill;
use super::stopwatch::Stopwatch;
use super::test_bed::{BenchError, TestBed, TopicSetup, reach};

/// A full queue is worked off by a topic whose instances do so many jobs each.
///
/// # Errors
/// If the store fails, or the component does not complete the job.
pub async fn reuse(bed: &TestBed, jobs: usize, jobs_each: u32) -> Result<Figure, BenchError> {
    let case = if jobs_each == 1 { "a fresh instance a job".into() } else { format!("{jobs_each} jobs an instance") };
    bed.settings.progress.begin(format!("reuse: {case}"), 2 * jobs);
    try_out(bed).await?;
    bed.serve(vec![TopicSetup { reuse: jobs_each, ..bed.topic_setup(bed.topic.clone()) }]);
    fill(bed, jobs).await?;
    let stopwatch = Stopwatch::begin(bed);
    let (runner, done) = bed.run_counted()?;
    reach(&done, jobs, &bed.settings.progress).await;
    let figure = stopwatch.end(bed, "reuse", jobs).case(case);
    TestBed::end(runner).await;
    bed.serve(vec![bed.topic_setup(bed.topic.clone())]);
    Ok(figure)
}
