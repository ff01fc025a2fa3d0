//! What a stretch of work took.

use std::time::{Duration, Instant};

use super::figure::Figure;
use super::test_bed::TestBed;
use super::usage;

/// Time and CPU time from begin to end.
pub(super) struct Stopwatch {
    begun: Instant,
    /// The process that does the work, if it is not this one.
    server: Option<u32>,
    runner_cpu: Duration,
    store_cpu: Option<Duration>,
}

impl Stopwatch {
    pub(super) fn begin(bed: &TestBed, server: Option<u32>) -> Self {
        Self { server, runner_cpu: runner_cpu(server), store_cpu: bed.store.cpu(), begun: Instant::now() }
    }

    pub(super) fn end(self, bed: &TestBed, scenario: &'static str, jobs: usize) -> Figure {
        let took = self.begun.elapsed();
        let per_job =
            |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64() * 1e6 / jobs as f64;
        Figure {
            jobs_per_second: Some(jobs as f64 / took.as_secs_f64()),
            runner_cpu_us_per_job: Some(per_job(self.runner_cpu, runner_cpu(self.server))),
            store_cpu_us_per_job: self.store_cpu.zip(bed.store.cpu()).map(|(before, after)| per_job(before, after)),
            ..figure(bed, scenario, jobs)
        }
    }
}

fn runner_cpu(server: Option<u32>) -> Duration {
    server.map_or_else(usage::own_cpu, usage::cpu_of)
}

pub(super) fn figure(bed: &TestBed, scenario: &'static str, jobs: usize) -> Figure {
    Figure {
        scenario,
        store: bed.settings.store.to_string(),
        jobs,
        concurrency: bed.settings.concurrency,
        threads: bed.settings.threads,
        payload_bytes: bed.settings.body.len(),
        ..Figure::default()
    }
}
