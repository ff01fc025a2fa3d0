//! The store by itself, without a runner: what a push costs, and what a claim with its settle does.

use std::time::Duration;

use anyhow::ensure;

use super::figure::Figure;
use super::load::{drain, drain_with, fill, fill_with, job, job_with};
use super::stopwatch::Stopwatch;
use super::test_bed::{TestBed, topic};
use gristmill_core::job::{Claim, Due, JobOptions, Payload, Unique};
use gristmill_core::outcome::Verdict;
use gristmill_store::{BatchSealed, Settlement};

/// Producers that push one job at a time, side by side: what a web server does.
const PRODUCERS: usize = 64;

/// Pushes in batches of a thousand, one after the other.
///
/// # Errors
/// If the store fails.
pub async fn push(bed: &TestBed, jobs: usize) -> anyhow::Result<Figure> {
    bed.settings.progress.begin(format!("push, {}", bed.settings.store), 2 * jobs);
    let stopwatch = Stopwatch::begin(bed, None);
    fill(bed, jobs).await?;
    let figure = stopwatch.end(bed, "push", jobs).case("1,000 a call");
    drain(bed, &bed.topic).await?;
    Ok(figure)
}

/// Pushes one job a call, from 64 producers at once.
///
/// # Errors
/// If the store fails.
pub async fn push_singly(bed: &TestBed, jobs: usize) -> anyhow::Result<Figure> {
    bed.settings.progress.begin(format!("push one by one, {}", bed.settings.store), jobs);
    let stopwatch = Stopwatch::begin(bed, None);
    let mut producers = tokio::task::JoinSet::new();
    for producer in 0..PRODUCERS {
        let store = bed.store.store.clone();
        let own: Vec<_> = (producer..jobs).step_by(PRODUCERS).map(|_| job(bed, Due::Now)).collect();
        producers.spawn(async move {
            for job in own {
                store.push(std::slice::from_ref(&job)).await?;
            }
            anyhow::Ok(())
        });
    }
    producers.join_all().await.into_iter().collect::<anyhow::Result<()>>()?;
    let figure = stopwatch.end(bed, "push", jobs).case(format!("one a call, {PRODUCERS} at once"));
    drain(bed, &bed.topic).await?;
    Ok(figure)
}

/// Claims and acks in batches of 256, with nothing done in between.
///
/// # Errors
/// If the store fails.
pub async fn claim_and_settle(bed: &TestBed, jobs: usize) -> anyhow::Result<Figure> {
    bed.settings.progress.begin(format!("claim and settle, {}", bed.settings.store), 2 * jobs);
    fill(bed, jobs).await?;
    let stopwatch = Stopwatch::begin(bed, None);
    let done = drain(bed, &bed.topic).await?;
    Ok(stopwatch.end(bed, "claim and settle", done))
}

/// Claims and settles in batches of 256 jobs that each hold a unique value, keep a result of 40 bytes for a minute, and have a
/// follow-up job in another topic.
///
/// # Errors
/// If the store fails.
pub async fn mixed(bed: &TestBed, jobs: usize) -> anyhow::Result<Figure> {
    bed.settings.progress.begin(format!("claim and settle with more, {}", bed.settings.store), 3 * jobs);
    let unique = |number: usize| {
        let mut job = job(bed, Due::Now);
        job.spec.options.unique = Some(Unique { value: number.to_string(), window: None });
        job
    };
    fill_with(bed, jobs, (0..).map(unique)).await?;
    let next = topic("next");
    let follow_up = |claim: &Claim| job_with(&next, claim.job.spec.body.data.clone(), Due::Now);
    let settlement = |claim: &Claim| {
        let result = Payload { data: vec![b'r'; 40], content_type: None };
        Settlement {
            follow_ups: vec![follow_up(claim)],
            ..Settlement::of(claim, Verdict::Ack(Some(result)), Duration::from_secs(60))
        }
    };
    let stopwatch = Stopwatch::begin(bed, None);
    let done = drain_with(bed, &bed.topic, settlement).await?;
    let figure = stopwatch.end(bed, "mixed", done).case("with result, follow-up job and unique value");
    drain(bed, &next).await?;
    Ok(figure)
}

/// Pushes, claims and settles plain jobs, and then as many that are members of batches. The case of the second figure says by how much a member
/// costs more: of the store, or of this process where the store is in it.
///
/// # Errors
/// If the store fails, or a batch has not exactly one callback.
pub async fn batch(bed: &TestBed, members: usize, batches: usize) -> anyhow::Result<[Figure; 2]> {
    let jobs = members * batches;
    bed.settings.progress.begin(format!("batch, {}", bed.settings.store), 4 * jobs);
    let stopwatch = Stopwatch::begin(bed, None);
    for _ in 0..batches {
        fill(bed, members).await?;
        drain(bed, &bed.topic).await?;
    }
    let plain = stopwatch.end(bed, "batch", jobs).case("as many plain jobs");
    let callbacks = topic("callback");
    let stopwatch = Stopwatch::begin(bed, None);
    for _ in 0..batches {
        let mut callback = job_with(&callbacks, bed.settings.body.to_vec(), Due::Now);
        callback.spec.options.open = true;
        let (tenant, batch) = (callbacks.tenant.clone(), callback.spec.id.clone());
        bed.store.store.push(&[callback]).await?;
        let member = |_| {
            let mut job = job(bed, Due::Now);
            job.spec.options = JobOptions { batch: Some(batch.clone()), ..JobOptions::default() };
            job
        };
        fill_with(bed, members, (0..).map(member)).await?;
        let sealed = bed.store.store.seal(&tenant, &batch).await?;
        ensure!(sealed == BatchSealed::Sealed, "failed to seal a batch: {sealed:?}");
        let early = drain(bed, &callbacks).await?;
        let done = drain(bed, &bed.topic).await?;
        let called = drain(bed, &callbacks).await?;
        ensure!(
            (early, done, called) == (0, members, 1),
            "a batch of {members} jobs had {early} callbacks before and {called} after {done} of them were done: this is a fault of the queue"
        );
    }
    let batch = stopwatch.end(bed, "batch", jobs);
    let cpu = |figure: &Figure| figure.store_cpu_us_per_job.or(figure.runner_cpu_us_per_job).unwrap_or_default();
    let case = format!("batches of {members}: {:+.1} us of CPU a member, one callback each", cpu(&batch) - cpu(&plain));
    Ok([plain.clone(), batch.case(case).rate_of(&plain, "plain")])
}
