//! The limits: what the parts cost with nothing around them. Other figures are given as shares of these.

use std::sync::Arc;
use std::time::Instant;

use anyhow::bail;
use redis::{Connection, Pipeline, RedisResult};

use super::figure::Figure;
use super::load::{attempt, complete};
use super::stopwatch::{Stopwatch, figure};
use super::test_bed::TestBed;
use super::usage;

/// Jobs in one pipeline.
const BATCH: usize = 50;

/// The primitives of a reliable queue on a bare Redis, from a pipelined client that does nothing with the jobs:
/// `RPOPLPUSH`, `ZADD`, `HGET`, then `LREM`, `ZREM`, `HDEL`.
///
/// # Errors
/// If the store is not a Redis, or fails.
pub async fn redis_floor(bed: &TestBed, jobs: usize) -> anyhow::Result<Figure> {
    let Some((url, _)) = bed.store.redis.clone() else {
        bail!("the floor of Redis needs a store on Redis");
    };
    bed.settings.progress.begin("floor: bare Redis", 2 * jobs);
    let (progress, payload) = (bed.settings.progress.clone(), Arc::clone(&bed.settings.body));
    let mut bare = Bare::connect(&url)?;
    let prepare = move || {
        for chunk in (0..jobs).step_by(BATCH) {
            bare.put(chunk..jobs.min(chunk + BATCH), &payload)?;
            progress.add(BATCH);
        }
        anyhow::Ok((bare, progress))
    };
    let (mut bare, progress) = off_the_runtime(prepare).await?;
    let stopwatch = Stopwatch::begin(bed, None);
    let work = move || {
        loop {
            let taken = bare.take()?;
            if taken.is_empty() {
                return anyhow::Ok(());
            }
            bare.done(&taken)?;
            progress.add(taken.len());
        }
    };
    off_the_runtime(work).await?;
    Ok(stopwatch.end(bed, "floor", jobs).case("bare Redis, batches of 50"))
}

/// A fresh instance and one call, again and again on one thread: what the sandbox costs by itself.
///
/// # Errors
/// If the handler fails.
pub async fn sandbox_floor(bed: &TestBed, jobs: usize) -> anyhow::Result<Figure> {
    /// Jobs before the clock runs: the pool's slots are warm then, as under load.
    const WARM_UP: usize = 500;
    bed.settings.progress.begin("floor: bare sandbox", jobs);
    let attempt = attempt(bed);
    let mut begun = (Instant::now(), usage::thread_cpu());
    // This future is not spawned, so it stays on one thread as long as nothing else is awaited.
    for round in 0..jobs + WARM_UP {
        if round == WARM_UP {
            begun = (Instant::now(), usage::thread_cpu());
        }
        complete(bed, attempt.clone()).await?;
        bed.settings.progress.add(usize::from(round % 1000 == 999) * 1000);
    }
    let cpu = usage::thread_cpu().saturating_sub(begun.1);
    Ok(Figure {
        jobs_per_second: Some(jobs as f64 / begun.0.elapsed().as_secs_f64()),
        runner_cpu_us_per_job: Some(cpu.as_secs_f64() * 1e6 / jobs as f64),
        store: String::new(),
        threads: 1,
        concurrency: 1,
        ..figure(bed, "floor", jobs).case("instantiate and call")
    })
}

async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await?
}

/// A plain client, and the keys of one queue.
struct Bare {
    connection: Connection,
    ready: String,
    processing: String,
    leases: String,
    jobs: String,
}

impl Bare {
    fn connect(url: &str) -> RedisResult<Self> {
        let key = |name: &str| format!("gm-bench-{}:{{floor}}:{name}", std::process::id());
        Ok(Self {
            connection: redis::Client::open(url)?.get_connection()?,
            ready: key("ready"),
            processing: key("processing"),
            leases: key("leases"),
            jobs: key("jobs"),
        })
    }

    fn put(&mut self, jobs: std::ops::Range<usize>, payload: &[u8]) -> RedisResult<()> {
        let mut pipeline = Pipeline::new();
        for job in jobs {
            // As long as the ids that we make.
            let id = format!("{job:026}");
            pipeline.lpush(&self.ready, &id).ignore().hset(&self.jobs, &id, payload).ignore();
        }
        pipeline.query(&mut self.connection)
    }

    fn take(&mut self) -> RedisResult<Vec<String>> {
        let mut pipeline = Pipeline::new();
        for _ in 0..BATCH {
            pipeline.rpoplpush(&self.ready, &self.processing);
        }
        let ids: Vec<Option<String>> = pipeline.query(&mut self.connection)?;
        let ids: Vec<String> = ids.into_iter().flatten().collect();
        if ids.is_empty() {
            return Ok(ids);
        }
        let mut pipeline = Pipeline::new();
        for id in &ids {
            pipeline.zadd(&self.leases, id, 1_795_176_245_006_u64).ignore().hget(&self.jobs, id);
        }
        let bodies: Vec<Vec<u8>> = pipeline.query(&mut self.connection)?;
        debug_assert_eq!(bodies.len(), ids.len());
        Ok(ids)
    }

    fn done(&mut self, ids: &[String]) -> RedisResult<()> {
        let mut pipeline = Pipeline::new();
        for id in ids {
            pipeline.lrem(&self.processing, -1, id).ignore().zrem(&self.leases, id).ignore();
            pipeline.hdel(&self.jobs, id).ignore();
        }
        pipeline.query(&mut self.connection)
    }
}
