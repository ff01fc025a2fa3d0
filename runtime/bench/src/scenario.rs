//! The main scenarios. Each leaves the store as empty as it found it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::figure::{Figure, Spread};
use super::load::{fill, job};
use super::stopwatch::{Stopwatch, figure};
use super::test_bed::{BenchError, TestBed, reach};
use gristmill_core::job::{Due, JobId, NewJob};
use gristmill_core::time::Timestamp;

/// A full queue is worked off: claim, run in a fresh sandbox, settle.
///
/// # Errors
/// If the store fails.
pub async fn throughput(bed: &TestBed, jobs: usize) -> Result<Figure, BenchError> {
    bed.settings.progress.begin(format!("throughput, {}", bed.settings.store), 2 * jobs);
    fill(bed, jobs).await?;
    let stopwatch = Stopwatch::begin(bed);
    let (runner, done) = bed.run_counted()?;
    reach(&done, jobs, &bed.settings.progress).await;
    let figure = stopwatch.end(bed, "throughput", jobs);
    TestBed::end(runner).await;
    Ok(figure)
}

/// An idle runner gets one job at a time: from the call of push to the start of the handler.
///
/// # Errors
/// If the store fails.
pub async fn latency(bed: &TestBed, jobs: usize) -> Result<Figure, BenchError> {
    bed.settings.progress.begin("latency", jobs);
    let (runner, mut records) = bed.run()?;
    let mut delays = Vec::with_capacity(jobs);
    for _ in 0..jobs {
        let pushed = Instant::now();
        bed.store.store.push(&[job(bed, Due::Now)]).await?;
        if let Some(record) = records.recv().await {
            delays.push(record.started.saturating_duration_since(pushed));
        }
        bed.settings.progress.add(1);
    }
    TestBed::end(runner).await;
    Ok(Figure { delay: Spread::of(delays), ..figure(bed, "latency", jobs).case("push to start, idle") })
}

/// Jobs due at points in time that are spread evenly: how long after its point each starts, and how many started early
/// (which is a fault of the queue). Runner and store must share a clock.
///
/// # Errors
/// If the store fails.
pub async fn lateness(bed: &TestBed, jobs: usize, over: Duration) -> Result<(Figure, usize), BenchError> {
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
        let Some(due) = due.get(&record.job) else { continue };
        early += usize::from(record.started < begun + *due);
        delays.push(record.started.saturating_duration_since(begun + *due));
        bed.settings.progress.add(1);
    }
    TestBed::end(runner).await;
    let case = format!("{jobs} due over {over:?}");
    Ok((Figure { delay: Spread::of(delays), ..figure(bed, "lateness", jobs).case(case) }, early))
}

/// One moment on both clocks: points in time are the store's, starts are measured by the other. The store's clock has
/// just begun a millisecond, so both mean the same to some microseconds.
fn both_clocks() -> (Timestamp, Instant) {
    let before = Timestamp::now();
    loop {
        // In this order: who is interrupted between them calls jobs later than they are, and none early that is not.
        let (begun, now) = (Instant::now(), Timestamp::now());
        if now != before {
            return (now, begun);
        }
        std::hint::spin_loop();
    }
}
