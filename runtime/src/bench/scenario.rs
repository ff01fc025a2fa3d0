//! The scenarios. Each leaves the store as empty as it found it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::figure::{Figure, Spread};
use super::load::{fill, job};
use super::rig::{Rig, RigError};
use super::watch::{Watch, figure};
use crate::job::{Due, JobId, NewJob};

/// A full queue is worked off: claim, run in a fresh sandbox, settle.
///
/// # Errors
/// If the store fails.
pub async fn throughput(rig: &Rig, jobs: usize) -> Result<Figure, RigError> {
    fill(rig, jobs).await?;
    let watch = Watch::begin(rig);
    let (runner, mut records) = rig.run()?;
    for _ in 0..jobs {
        records.recv().await;
    }
    let figure = watch.end(rig, "throughput", jobs);
    Rig::end(runner).await;
    Ok(figure)
}

/// An idle runner gets one job at a time: from the call of push to the start of the handler.
///
/// # Errors
/// If the store fails.
pub async fn latency(rig: &Rig, jobs: usize) -> Result<Figure, RigError> {
    let (runner, mut records) = rig.run()?;
    let mut delays = Vec::with_capacity(jobs);
    for _ in 0..jobs {
        let pushed = Instant::now();
        rig.place.store.push(&[job(rig, Due::Now)]).await?;
        if let Some(record) = records.recv().await {
            delays.push(record.started.saturating_duration_since(pushed));
        }
    }
    Rig::end(runner).await;
    Ok(Figure { delay: Spread::of(delays), ..figure(rig, "push-to-start", jobs) })
}

/// Delayed jobs, spread evenly over a time: how long after its due time each starts, and how many started early (which is
/// a fault of the queue).
///
/// # Errors
/// If the store fails.
pub async fn lateness(rig: &Rig, jobs: usize, over: Duration) -> Result<(Figure, usize), RigError> {
    /// Time to push them all before the first is due.
    const HEAD_START: Duration = Duration::from_secs(2);
    /// Few at a time: the store's clock reads up to one push later than ours, which counts as lateness.
    const CHUNK: usize = 20;
    let (runner, mut records) = rig.run()?;
    let begun = Instant::now();
    let mut due: HashMap<JobId, Instant> = HashMap::with_capacity(jobs);
    for chunk in (0..jobs).step_by(CHUNK) {
        // Taken before the push: the store's clock starts a delay later than this, never sooner.
        let now = Instant::now();
        let batch: Vec<NewJob> = (chunk..jobs.min(chunk + CHUNK))
            .map(|index| {
                let at = begun + HEAD_START + over.mul_f64(index as f64 / jobs as f64);
                // The store counts whole milliseconds and never starts early: ask for what it can keep.
                let wait = Duration::from_millis(at.saturating_duration_since(now).as_millis() as u64);
                let job = job(rig, Due::After(wait));
                due.insert(job.spec.id.clone(), now + wait);
                job
            })
            .collect();
        rig.place.store.push(&batch).await?;
    }
    let (mut delays, mut early) = (Vec::with_capacity(jobs), 0);
    for _ in 0..jobs {
        let Some(record) = records.recv().await else { break };
        let Some(due) = due.get(&record.job) else { continue };
        early += usize::from(record.started < *due);
        delays.push(record.started.saturating_duration_since(*due));
    }
    Rig::end(runner).await;
    Ok((Figure { delay: Spread::of(delays), ..figure(rig, "due-to-start", jobs) }, early))
}
