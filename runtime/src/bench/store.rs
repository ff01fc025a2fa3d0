//! The store by itself, without a runner: what a push costs, and what a claim with its settle does.

use std::time::Duration;

use super::figure::Figure;
use super::load::{fill, job};
use super::rig::{Rig, RigError};
use super::watch::Watch;
use crate::job::{Due, WorkerId};
use crate::outcome::Verdict;
use crate::store::{ClaimFrom, Settlement};

/// Producers that push one job at a time, side by side: what a web server does.
const PRODUCERS: usize = 64;
/// Jobs in one claim and in one settle: what a runner does under load.
const BATCH: usize = 256;

/// Pushes in batches of a thousand, one after the other.
///
/// # Errors
/// If the store fails.
pub async fn push(rig: &Rig, jobs: usize) -> Result<Figure, RigError> {
    let watch = Watch::begin(rig);
    fill(rig, jobs).await?;
    let figure = watch.end(rig, "push, by the thousand", jobs);
    drain(rig).await?;
    Ok(figure)
}

/// Pushes one job a call, from 64 producers at once.
///
/// # Errors
/// If the store fails.
pub async fn push_singly(rig: &Rig, jobs: usize) -> Result<Figure, RigError> {
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
    let figure = watch.end(rig, "push, one by one", jobs);
    drain(rig).await?;
    Ok(figure)
}

/// Claims and acks in batches of 256, with nothing done in between.
///
/// # Errors
/// If the store fails.
pub async fn claim_and_settle(rig: &Rig, jobs: usize) -> Result<Figure, RigError> {
    fill(rig, jobs).await?;
    let watch = Watch::begin(rig);
    let done = drain(rig).await?;
    Ok(watch.end(rig, "claim and settle", done))
}

/// Claims and acks until nothing is ready; tells how many jobs that were.
async fn drain(rig: &Rig) -> Result<usize, RigError> {
    let worker = WorkerId::new("bench-drain");
    let from = [ClaimFrom { topic: rig.topic.clone(), max: BATCH, lease: Duration::from_secs(60) }];
    let mut done = 0;
    loop {
        let claims = rig.place.store.claim(&worker, &from).await?.claims;
        if claims.is_empty() {
            return Ok(done);
        }
        done += claims.len();
        let acks: Vec<Settlement> =
            claims.into_iter().map(|claim| Settlement::new(claim.lease, Verdict::Ack(None))).collect();
        rig.place.store.settle(&acks).await?;
    }
}
