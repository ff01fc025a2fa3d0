//! What a scenario found.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// One result, as printed with `--json`: one line each. Durations are in microseconds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Figure {
    /// The name of the question that was measured.
    pub scenario: &'static str,
    /// Which of the scenario's cases, in words; empty if there is only one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub case: String,
    /// Empty: no store has to do with it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub store: String,
    /// Jobs, reloads or starts that were measured.
    pub jobs: usize,
    /// Jobs at once.
    pub concurrency: usize,
    /// Threads that run guests.
    pub threads: usize,
    /// Bytes of each job's body.
    pub payload_bytes: usize,
    /// Jobs in a second, where that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs_per_second: Option<f64>,
    /// All threads of this process, which is the runner's; over HTTP, of the server's process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_cpu_us_per_job: Option<f64>,
    /// CPU time of the store for each job, in microseconds, where the store is a process of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_cpu_us_per_job: Option<f64>,
    /// Commands that the store carried out for each job, those of its scripts included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_commands_per_job: Option<f64>,
    /// The same in a second for each runner, while nothing is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_commands_per_second: Option<f64>,
    /// From push, due or rename to the start of the handler; the case says which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Spread>,
    /// Resident, or stored; the case says of what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Files that are open for what was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Mappings of memory for what was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mappings: Option<u64>,
    /// The comparison with something else in the same run, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Ratio>,
}

/// How a figure compares with another of the same run.
#[derive(Debug, Clone, Serialize)]
pub struct Ratio {
    /// This figure divided by the other.
    pub value: f64,
    /// Of what.
    pub of: String,
}

/// How durations were spread.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Spread {
    /// Half of all were at most this long; microseconds.
    pub p50_us: u64,
    /// 95 of 100 were at most this long; microseconds.
    pub p95_us: u64,
    /// 99 of 100 were at most this long; microseconds.
    pub p99_us: u64,
    /// The longest; microseconds.
    pub max_us: u64,
}

impl Figure {
    /// The same scenario's other case.
    #[must_use]
    pub(super) fn case(self, case: impl Into<String>) -> Self {
        Self { case: case.into(), ..self }
    }

    /// Of several runs the one with the median rate, with the median ratio.
    pub(super) fn median(mut runs: Vec<Self>) -> Option<Self> {
        let ratio = |figure: &Self| figure.ratio.as_ref().map_or(0.0, |ratio| ratio.value);
        let middle = runs.len() / 2;
        runs.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        let ratio = runs.get(middle)?.ratio.clone();
        runs.sort_by(|a, b| a.jobs_per_second.partial_cmp(&b.jobs_per_second).unwrap_or(std::cmp::Ordering::Equal));
        Some(Self { ratio, ..runs.swap_remove(middle) })
    }

    /// This rate as a share of another's.
    #[must_use]
    pub fn rate_of(self, other: &Self, of: &str) -> Self {
        let ratio = self.jobs_per_second.zip(other.jobs_per_second).map(|(own, others)| own / others);
        self.with_ratio(ratio, of)
    }

    /// This 99th percentile as a multiple of another's.
    #[must_use]
    pub fn p99_of(self, other: &Self, of: &str) -> Self {
        let p99 = |figure: &Self| figure.delay.map(|delay| delay.p99_us as f64);
        let ratio = p99(&self).zip(p99(other)).map(|(own, others)| own / others);
        self.with_ratio(ratio, of)
    }

    /// This CPU time of the store as a multiple of another's.
    #[must_use]
    pub fn store_cpu_of(self, other: &Self, of: &str) -> Self {
        let ratio = self.store_cpu_us_per_job.zip(other.store_cpu_us_per_job).map(|(own, others)| own / others);
        self.with_ratio(ratio, of)
    }

    /// This CPU time of runner and store as a multiple of another's.
    #[must_use]
    pub fn cpu_of(self, other: &Self, of: &str) -> Self {
        let cpu = |figure: &Self| {
            figure.runner_cpu_us_per_job.zip(figure.store_cpu_us_per_job).map(|(runner, store)| runner + store)
        };
        let ratio = cpu(&self).zip(cpu(other)).map(|(own, others)| own / others);
        self.with_ratio(ratio, of)
    }

    fn with_ratio(self, value: Option<f64>, of: &str) -> Self {
        Self { ratio: value.map(|value| Ratio { value, of: of.to_owned() }), ..self }
    }
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
            p95_us: histogram.value_at_quantile(0.95),
            p99_us: histogram.value_at_quantile(0.99),
            max_us: histogram.max(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_compared_by_what_both_have() {
        let rate = |rate| Figure { jobs_per_second: Some(rate), ..Figure::default() };
        let ratio = rate(30.0).rate_of(&rate(60.0), "floor").ratio.unwrap();
        assert_eq!((ratio.value, ratio.of.as_str()), (0.5, "floor"));
        assert!(rate(30.0).rate_of(&Figure::default(), "floor").ratio.is_none());

        let runs = [90.0, 50.0, 95.0].map(|run| rate(run).rate_of(&rate(100.0), "off"));
        let median = Figure::median(runs.to_vec()).unwrap();
        assert_eq!((median.jobs_per_second, median.ratio.unwrap().value), (Some(90.0), 0.9));

        let delays = |ms: u64| Figure { delay: Spread::of([Duration::from_millis(ms)]), ..Figure::default() };
        let ratio = delays(30).p99_of(&delays(20), "alone").ratio.unwrap();
        assert!((ratio.value - 1.5).abs() < 0.01, "{}", ratio.value);
    }
}
