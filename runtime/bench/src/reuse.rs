//! What it saves to keep instances between jobs.

use super::figure::Figure;
use super::floor::try_out;
use super::load::fill;
use super::rig::{Rig, RigError, Seating, reach};
use super::watch::Watch;

/// A full queue is worked off by a topic whose instances do so many jobs each.
///
/// # Errors
/// If the store fails, or the component does not complete the job.
pub async fn reuse(rig: &Rig, jobs: usize, jobs_each: u32) -> Result<Figure, RigError> {
    let case = if jobs_each == 1 { "a fresh instance a job".into() } else { format!("{jobs_each} jobs an instance") };
    rig.settings.progress.begin(format!("reuse: {case}"), 2 * jobs);
    try_out(rig).await?;
    rig.serve(vec![Seating { reuse: jobs_each, ..rig.seating(rig.topic.clone()) }]);
    fill(rig, jobs).await?;
    let watch = Watch::begin(rig);
    let (runner, done) = rig.run_counted()?;
    reach(&done, jobs, &rig.settings.progress).await;
    let figure = watch.end(rig, "reuse", jobs).case(case);
    Rig::end(runner).await;
    rig.serve(vec![rig.seating(rig.topic.clone())]);
    Ok(figure)
}
