//! How long attempts of a topic run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long the latest attempts of a topic ran, those that failed among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunTimes {
    /// How many attempts these are.
    pub attempts: usize,
    /// Half of them were this fast, in microseconds.
    pub p50_us: u64,
    /// 99 of 100 were this fast.
    pub p99_us: u64,
}

impl RunTimes {
    /// `None` without attempts.
    pub(super) fn of(mut times: Vec<u64>) -> Option<Self> {
        times.sort_unstable();
        let at_most =
            |hundredths: usize| times.get((times.len() * hundredths).div_ceil(100).saturating_sub(1)).copied();
        Some(Self { attempts: times.len(), p50_us: at_most(50)?, p99_us: at_most(99)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_times_are_those_of_the_attempts_in_the_middle_and_near_the_end() {
        let times = |attempts, p50_us, p99_us| Some(RunTimes { attempts, p50_us, p99_us });
        assert_eq!(RunTimes::of(Vec::new()), None);
        assert_eq!(RunTimes::of(vec![7]), times(1, 7, 7));
        assert_eq!(RunTimes::of((1..=200).rev().collect()), times(200, 100, 198));
    }
}
