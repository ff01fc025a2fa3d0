//! What a scenario found.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// One result, as printed with `--json`: one line each. Durations are in microseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    pub scenario: &'static str,
    pub store: String,
    pub jobs: usize,
    pub concurrency: usize,
    pub payload_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_cpu_us_per_job: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_cpu_us_per_job: Option<f64>,
    /// Push to start, or due to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Spread>,
}

/// How durations were spread.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Spread {
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
}

impl Spread {
    /// None of nothing. Three significant digits, up to an hour.
    pub(super) fn of(durations: impl IntoIterator<Item = Duration>) -> Option<Self> {
        let mut histogram = Histogram::<u64>::new_with_max(3_600_000_000, 3).ok()?;
        for duration in durations {
            histogram.saturating_record(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
        }
        (!histogram.is_empty()).then(|| Self {
            p50_us: histogram.value_at_quantile(0.5),
            p99_us: histogram.value_at_quantile(0.99),
            max_us: histogram.max(),
        })
    }
}
