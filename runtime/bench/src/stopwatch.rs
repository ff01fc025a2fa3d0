//! What a stretch of work took.

use std::time::{Duration, Instant};

use super::figure::Figure;
use super::test_bed::TestBed;
use super::usage;

/// Time and CPU time from begin to end.
pub(super) struct Stopwatch {
    begun: Instant,
    own_cpu: Duration,
    store_cpu: Option<Duration>,
}

impl Stopwatch {
    pub(super) fn begin(bed: &TestBed) -> Self {
        Self { own_cpu: usage::own_cpu(), store_cpu: bed.store.cpu(), begun: Instant::now() }
    }

    pub(super) fn end(self, bed: &TestBed, scenario: &'static str, jobs: usize) -> Figure {
        let took = self.begun.elapsed();
        let own = usage::own_cpu().saturating_sub(self.own_cpu);
        let stores = bed.store.cpu().zip(self.store_cpu).map(|(after, before)| after.saturating_sub(before));
        let per_job = |time: Duration| time.as_secs_f64() * 1e6 / jobs as f64;
        Figure {
            jobs_per_second: Some(jobs as f64 / took.as_secs_f64()),
            runner_cpu_us_per_job: Some(per_job(own)),
            store_cpu_us_per_job: stores.map(per_job),
            ..figure(bed, scenario, jobs)
        }
    }
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
