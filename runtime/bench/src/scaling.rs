//! Whether a runner is as fast when there is much of something.

use std::time::Duration;

use super::figure::Figure;
use super::load::{fill, fill_topics};
use super::rig::{Rig, RigError, reach, topic};
use super::watch::Watch;
use gristmill_core::job::{Due, TopicId};

/// Jobs that go in at once while a backlog is held.
const TOP_UP: usize = 500;

/// A runner works on a backlog of `waiting` jobs, which is held at that length while `jobs` are done: producers push as
/// fast as they end, so both cases carry the same cost of pushing.
///
/// # Errors
/// If the store fails.
pub async fn backlog(rig: &Rig, waiting: usize, jobs: usize) -> Result<Figure, RigError> {
    let progress = &rig.settings.progress;
    progress.begin(format!("backlog of {waiting}"), waiting + 2 * jobs + waiting);
    fill(rig, waiting).await?;
    let watch = Watch::begin(rig);
    let (runner, done) = rig.run_counted()?;
    for pushed in (0..jobs).step_by(TOP_UP) {
        reach(&done, pushed, progress).await;
        fill(rig, TOP_UP).await?;
    }
    reach(&done, jobs, progress).await;
    let figure = watch.end(rig, "scaling", jobs).case(format!("backlog of {waiting}"));
    Rig::end(runner).await;
    super::load::drain(rig, &rig.topic).await?;
    Ok(figure)
}

/// A full queue, dealt out to this many topics.
///
/// # Errors
/// If the store fails.
pub async fn topics(rig: &Rig, topics: usize, jobs: usize) -> Result<Figure, RigError> {
    let progress = &rig.settings.progress;
    progress.begin(format!("{topics} topics"), 2 * jobs);
    let names: Vec<TopicId> = (0..topics).map(|number| topic(&format!("bench-{number}"))).collect();
    rig.serve(names.iter().map(|name| rig.seating(name.clone())).collect());
    fill_topics(rig, &names, jobs, Due::Now).await?;
    let watch = Watch::begin(rig);
    let (runner, done) = rig.run_counted()?;
    reach(&done, jobs, progress).await;
    let figure = watch.end(rig, "scaling", jobs).case(format!("{topics} topics"));
    Rig::end(runner).await;
    rig.serve(vec![rig.seating(rig.topic.clone())]);
    Ok(figure)
}

/// A full queue beside this many delayed jobs of the same topic. They stay; the rig is used up.
///
/// # Errors
/// If the store fails.
pub async fn delayed(rig: &Rig, delayed: usize, jobs: usize) -> Result<Figure, RigError> {
    const FAR: Duration = Duration::from_secs(24 * 3600);
    let progress = &rig.settings.progress;
    progress.begin(format!("{delayed} delayed"), delayed + 2 * jobs);
    fill_topics(rig, std::slice::from_ref(&rig.topic), delayed, Due::After(FAR)).await?;
    fill(rig, jobs).await?;
    let watch = Watch::begin(rig);
    let (runner, done) = rig.run_counted()?;
    reach(&done, jobs, progress).await;
    let figure = watch.end(rig, "scaling", jobs).case(format!("{delayed} delayed"));
    Rig::end(runner).await;
    Ok(figure)
}
