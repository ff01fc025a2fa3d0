//! How long the store takes to answer, by operation and result.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use strum::{IntoStaticStr, VariantArray};

use super::histogram::{Histogram, Scale};

/// How the store answered. In kebab case it is the label `result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum CallResult {
    /// The store did it.
    Ok,
    /// The store did not answer.
    Unavailable,
    /// The store answered that it did not do it.
    Refused,
    /// The store did it, and did not confirm in time that it outlives a failover.
    Unconfirmed,
}

/// One histogram for each operation and result.
#[derive(Debug, Default)]
pub(super) struct Calls(RwLock<BTreeMap<&'static str, Results>>);

type Results = Arc<[Histogram; CallResult::VARIANTS.len()]>;

impl Calls {
    pub(super) fn observe(&self, operation: &'static str, result: CallResult, took: Duration) {
        if let Some(histogram) = self.results(operation).get(result as usize) {
            histogram.observe_time(took);
        }
    }

    fn results(&self, operation: &'static str) -> Results {
        if let Some(known) = self.0.read().get(operation) {
            return Arc::clone(known);
        }
        let new = || Arc::new(std::array::from_fn(|_| Histogram::new(&Scale::CALL_TIMES)));
        Arc::clone(self.0.write().entry(operation).or_insert_with(new))
    }

    /// Calls `read` with the labels `operation` and `result` of each histogram.
    pub(super) fn for_each(&self, mut read: impl FnMut(&'static str, &'static str, &Histogram)) {
        for (operation, histograms) in &*self.0.read() {
            for (result, histogram) in CallResult::VARIANTS.iter().zip(&**histograms) {
                read(operation, result.into(), histogram);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_and_result_has_its_own_histogram() {
        let calls = Calls::default();
        calls.observe("push", CallResult::Ok, Duration::from_millis(1));
        calls.observe("push", CallResult::Refused, Duration::from_millis(1));
        calls.observe("claim", CallResult::Ok, Duration::from_millis(1));
        calls.observe("claim", CallResult::Ok, Duration::from_millis(1));
        let mut seen = Vec::new();
        calls.for_each(|operation, result, histogram| seen.push((operation, result, histogram.count())));
        seen.retain(|(.., count)| *count > 0);
        assert_eq!(seen, [("claim", "ok", 2), ("push", "ok", 1), ("push", "refused", 1)]);
    }
}
