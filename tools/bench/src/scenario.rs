//! The main scenarios. Each leaves the store as empty as it found it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{MissedTickBehavior, interval};

use super::figure::{Figure, Spread};
use super::load::{fill, job};
use super::stopwatch::figure;
use super::test_bed::TestBed;
use gristmill_core::job::{Due, JobId, NewJob};
use gristmill_core::time::Timestamp;
use gristmill_runner::AttemptRecord;

/// A full queue is worked off: claim, run in a fresh sandbox, settle.
///
/// # Errors
/// If the store fails.
pub async fn throughput(bed: &TestBed, jobs: usize) -> anyhow::Result<Figure> {
    bed.settings.progress.begin(format!("throughput, {}", bed.settings.store), 2 * jobs);
    fill(bed, jobs).await?;
    bed.work_off("throughput", jobs).await
}

/// An idle runner gets one job at a time: from the call of push to the start of the handler.
///
/// # Errors
/// If the store fails.
pub async fn latency(bed: &TestBed, jobs: usize) -> anyhow::Result<Figure> {
    bed.settings.progress.begin("latency", jobs);
    let delay = one_by_one(bed, None, jobs).await?;
    Ok(Figure { delay, ..figure(bed, "latency", jobs).case("push to start, idle") })
}

/// Pushes one job after the other, each when the one before has ended and no more than one in a `period`: from push to
/// start, each.
pub(super) async fn one_by_one(bed: &TestBed, period: Option<Duration>, jobs: usize) -> anyhow::Result<Option<Spread>> {
    let (runner, mut records) = bed.run()?;
    let delay = push_to_start(bed, &mut records, Due::Now, period, jobs).await?;
    runner.end().await;
    Ok(delay)
}

/// The same on runners that run already. Of delayed jobs, from when each is due.
pub(super) async fn push_to_start(
    bed: &TestBed,
    records: &mut UnboundedReceiver<AttemptRecord>,
    due: Due,
    period: Option<Duration>,
    jobs: usize,
) -> anyhow::Result<Option<Spread>> {
    let wait = if let Due::After(wait) = due { wait } else { Duration::ZERO };
    let mut ticks = period.map(interval);
    if let Some(ticks) = &mut ticks {
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    let mut delays = Vec::with_capacity(jobs);
    while delays.len() < jobs {
        if let Some(ticks) = &mut ticks {
            ticks.tick().await;
        }
        let pushed = Instant::now();
        bed.store.store.push(&[job(bed, due)]).await?;
        // What other topics' attempts settle meanwhile is passed over.
        while let Some(record) = records.recv().await {
            if let (true, Some(run)) = (record.claim.lease.topic == bed.topic, record.run) {
                delays.push(run.started.saturating_duration_since(pushed + wait));
                break;
            }
        }
        bed.settings.progress.add(1);
    }
    Ok(Spread::of(delays))
}

/// Jobs due at points in time that are spread evenly: how long after its point each starts, and how many started early
/// (which is a fault of the queue). Runner and store must share a clock.
///
/// # Errors
/// If the store fails.
pub async fn lateness(bed: &TestBed, jobs: usize, over: Duration) -> anyhow::Result<(Figure, usize)> {
    /// Time to push them all before the first is due.
    const HEAD_START: Duration = Duration::from_secs(2);
    const PUSH: usize = 500;
    bed.settings.progress.begin("lateness", jobs);
    let (runner, mut records) = bed.run()?;
    let (now, begun) = both_clocks();
    let mut due: HashMap<JobId, Duration> = HashMap::with_capacity(jobs);
    for chunk in (0..jobs).step_by(PUSH) {
        let batch = (chunk..jobs.min(chunk + PUSH)).map(|index| {
            // Points in time have whole milliseconds.
            let wait = (HEAD_START + over.mul_f64(index as f64 / jobs as f64)).as_millis() as u64;
            let wait = Duration::from_millis(wait);
            let job = job(bed, Due::At(now.plus(wait)));
            due.insert(job.spec.id.clone(), wait);
            job
        });
        bed.store.store.push(&batch.collect::<Vec<NewJob>>()).await?;
    }
    let (mut delays, mut early) = (Vec::with_capacity(jobs), 0);
    for _ in 0..jobs {
        let Some(record) = records.recv().await else { break };
        let (Some(due), Some(run)) = (due.get(&record.claim.lease.job), record.run) else { continue };
        early += usize::from(run.started < begun + *due);
        delays.push(run.started.saturating_duration_since(begun + *due));
        bed.settings.progress.add(1);
    }
    runner.end().await;
    let case = format!("{jobs} due over {over:?}");
    Ok((Figure { delay: Spread::of(delays), ..figure(bed, "lateness", jobs).case(case) }, early))
}

/// One moment on both clocks: points in time are the store's, starts are measured by the other. The store's clock has
/// just begun a millisecond, so both mean the same to some microseconds.
pub(super) fn both_clocks() -> (Timestamp, Instant) {
    let before = Timestamp::now();
    loop {
        // In this order: an interruption between them makes jobs look later than they are, and none look early.
        let (begun, now) = (Instant::now(), Timestamp::now());
        if now != before {
            return (now, begun);
        }
        std::hint::spin_loop();
    }
}
