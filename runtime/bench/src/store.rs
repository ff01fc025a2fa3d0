//! The store by itself, without a runner: what a push costs, and what a claim with its settle does.

use super::figure::Figure;
use super::load::{drain, fill, job};
use super::rig::{Rig, RigError};
use super::watch::Watch;
use gristmill_core::job::Due;

/// Producers that push one job at a time, side by side: what a web server does.
const PRODUCERS: usize = 64;

/// Pushes in batches of a thousand, one after the other.
///
/// # Errors
/// If the store fails.
pub async fn push(rig: &Rig, jobs: usize) -> Result<Figure, RigError> {
    rig.settings.progress.begin(format!("push, {}", rig.settings.store), 2 * jobs);
    let watch = Watch::begin(rig);
    fill(rig, jobs).await?;
    let figure = watch.end(rig, "push", jobs).case("1,000 a call");
    drain(rig, &rig.topic).await?;
    Ok(figure)
}

/// Pushes one job a call, from 64 producers at once.
///
/// # Errors
/// If the store fails.
pub async fn push_singly(rig: &Rig, jobs: usize) -> Result<Figure, RigError> {
    rig.settings.progress.begin(format!("push one by one, {}", rig.settings.store), jobs);
    let watch = Watch::begin(rig);
    let mut producers = tokio::task::JoinSet::new();
    for producer in 0..PRODUCERS {
        let store = rig.place.store.clone();
        let own: Vec<_> = (producer..jobs).step_by(PRODUCERS).map(|_| job(rig, Due::Now)).collect();
        producers.spawn(async move {
            for job in own {
                store.push(std::slice::from_ref(&job)).await?;
            }
            Ok::<_, RigError>(())
        });
    }
    producers.join_all().await.into_iter().collect::<Result<(), RigError>>()?;
    let figure = watch.end(rig, "push", jobs).case(format!("one a call, {PRODUCERS} at once"));
    drain(rig, &rig.topic).await?;
    Ok(figure)
}

/// Claims and acks in batches of 256, with nothing done in between.
///
/// # Errors
/// If the store fails.
pub async fn claim_and_settle(rig: &Rig, jobs: usize) -> Result<Figure, RigError> {
    rig.settings.progress.begin(format!("claim and settle, {}", rig.settings.store), 2 * jobs);
    fill(rig, jobs).await?;
    let watch = Watch::begin(rig);
    let done = drain(rig, &rig.topic).await?;
    Ok(watch.end(rig, "claim and settle", done))
}
