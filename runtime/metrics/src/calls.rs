//! How long the store takes to answer, by operation and result.

use std::time::Duration;

use strum::{IntoStaticStr, VariantArray};

use super::histogram::{Histogram, Scale};

/// What a store is asked to do, one by one the methods of its traits. In kebab case it is the label `operation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Operation {
    Push,
    Signals,
    Claim,
    Settle,
    Migrate,
    Extend,
    Checkpoint,
    Heartbeat,
    Retire,
    Overdue,
    #[strum(serialize = "held")]
    ClaimsOf,
    #[strum(serialize = "wanted")]
    PollWork,
    Sweep,
    Counts,
    Job,
    List,
    Dead,
    Respawn,
    DeleteDead,
    Cancel,
    Pause,
    ForgetTopic,
    Tenants,
    /// Everything about tokens.
    Token,
}

/// How the store answered. In kebab case it is the label `result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum CallResult {
    Ok,
    /// The store did not answer.
    #[strum(serialize = "away")]
    Unavailable,
    /// The store answered that it did not do it.
    Refused,
}

/// One histogram for each operation and result.
#[derive(Debug)]
pub(super) struct Calls(Box<[[Histogram; CallResult::VARIANTS.len()]]>);

impl Default for Calls {
    fn default() -> Self {
        let results = || std::array::from_fn(|_| Histogram::new(&Scale::CALL_TIMES));
        Self(Operation::VARIANTS.iter().map(|_| results()).collect())
    }
}

impl Calls {
    pub(super) fn observe(&self, operation: Operation, result: CallResult, took: Duration) {
        let results = self.0.get(operation as usize);
        if let Some(histogram) = results.and_then(|results| results.get(result as usize)) {
            histogram.observe_time(took);
        }
    }

    /// Labels `operation` and `result` with their histograms.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, &Histogram)> {
        Operation::VARIANTS.iter().zip(&self.0).flat_map(|(operation, histograms)| {
            let results = CallResult::VARIANTS.iter().zip(histograms);
            results.map(move |(result, histogram)| (operation.into(), result.into(), histogram))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_and_result_has_its_own_histogram() {
        let calls = Calls::default();
        for operation in Operation::VARIANTS {
            for result in CallResult::VARIANTS {
                calls.observe(*operation, *result, Duration::from_millis(1));
                let seen: Vec<_> =
                    calls.all().filter(|(.., histogram)| histogram.count() == 1).map(|(a, b, _)| (a, b)).collect();
                assert_eq!(seen.last(), Some(&(operation.into(), result.into())));
            }
        }
        assert!(calls.all().all(|(.., histogram)| histogram.count() == 1));
    }
}
