//! Counts by size, of atomics alone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The most bounds of a scale.
const MOST: usize = 15;

/// The upper bounds of a histogram's buckets, ascending, and how many base units make one of what is shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scale {
    bounds: &'static [u64],
    unit: u64,
}

impl Scale {
    /// What a job may take: 50 µs to an hour. Microseconds, shown in seconds.
    pub(super) const JOB_TIMES: Self = Self {
        bounds: &[
            50,
            200,
            1_000,
            5_000,
            20_000,
            100_000,
            500_000,
            1_000_000,
            2_500_000,
            5_000_000,
            30_000_000,
            120_000_000,
            600_000_000,
            3_600_000_000,
        ],
        unit: 1_000_000,
    };
    /// What a call or a request may take: 50 µs to 20 s.
    pub(super) const CALL_TIMES: Self = Self {
        bounds: &[
            50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000,
            20_000_000,
        ],
        unit: 1_000_000,
    };
    pub(super) const FUEL: Self = Self {
        bounds: &[10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000],
        unit: 1,
    };
    pub(super) const BYTES: Self =
        Self { bounds: &[256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30, 4 << 30], unit: 1 };
}

/// How often which sizes were seen, since the process began.
#[derive(Debug)]
pub struct Histogram {
    scale: &'static Scale,
    /// By bucket, the one above all bounds last; not cumulative, so that an observation is one addition.
    counts: [AtomicU64; MOST + 1],
    /// Base units. Wraps after half a million years of microseconds.
    sum: AtomicU64,
}

impl Histogram {
    pub(super) fn new(scale: &'static Scale) -> Self {
        Self { scale, counts: Default::default(), sum: AtomicU64::new(0) }
    }

    /// Two additions; neither waits.
    pub(super) fn observe(&self, value: u64) {
        let bucket = self.scale.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// On a scale of times.
    pub(super) fn observe_time(&self, time: Duration) {
        self.observe(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Upper bounds with how many were at most so large, as shown: the last one, above all bounds, is how many in all.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (Option<f64>, u64)> {
        let bounds = self.scale.bounds.iter().map(|bound| Some(self.shown(*bound))).chain([None]);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        bounds.zip(counts).scan(0, |below, (bound, count)| {
            *below += count;
            Some((bound, *below))
        })
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> u64 {
        self.buckets().last().map_or(0, |(_, count)| count)
    }

    /// Base units.
    pub(super) fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }

    /// As shown.
    pub(super) fn total(&self) -> f64 {
        self.shown(self.sum())
    }

    fn shown(&self, value: u64) -> f64 {
        value as f64 / self.scale.unit as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket_and_one_more_to_the_next() {
        let histogram = Histogram::new(&Scale::BYTES);
        [0, 256 << 10, (256 << 10) + 1, u64::from(u32::MAX) + 2].into_iter().for_each(|bytes| histogram.observe(bytes));
        let counts: Vec<u64> = histogram.buckets().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 3, 3, 3, 3, 3, 3, 3, 4]);
        assert_eq!(histogram.buckets().last(), Some((None, 4)));
        assert_eq!(histogram.count(), 4);
    }

    #[test]
    fn times_are_shown_in_seconds() {
        let histogram = Histogram::new(&Scale::JOB_TIMES);
        histogram.observe_time(Duration::from_millis(1500));
        assert_eq!(histogram.total(), 1.5);
        assert!(histogram.buckets().any(|bucket| bucket == (Some(1.0), 0)));
        assert!(histogram.buckets().any(|bucket| bucket == (Some(2.5), 1)));
    }

    #[test]
    fn every_scale_fits_and_ascends() {
        for scale in [&Scale::JOB_TIMES, &Scale::CALL_TIMES, &Scale::FUEL, &Scale::BYTES] {
            assert!(scale.bounds.len() <= MOST && scale.bounds.is_sorted_by(|a, b| a < b), "{scale:?}");
        }
    }
}
