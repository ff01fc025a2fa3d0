//! How long the store takes to answer, by what it was asked.

use std::time::Duration;

use super::histogram::{Histogram, Scale};

/// What a store is asked to do, one by one the methods of its traits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    Held,
    Wanted,
    Sweep,
    Counts,
    Job,
    List,
    Dead,
    Respawn,
    DeleteDead,
    Cancel,
    Pause,
    Tenants,
    /// Whatever concerns tokens.
    Token,
}

/// What it said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallResult {
    Ok,
    /// It did not answer.
    Unavailable,
    /// Anything else that is not what was asked for.
    Refused,
}

const OPERATIONS: [(Operation, &str); 23] = [
    (Operation::Push, "push"),
    (Operation::Signals, "signals"),
    (Operation::Claim, "claim"),
    (Operation::Settle, "settle"),
    (Operation::Migrate, "migrate"),
    (Operation::Extend, "extend"),
    (Operation::Checkpoint, "checkpoint"),
    (Operation::Heartbeat, "heartbeat"),
    (Operation::Retire, "retire"),
    (Operation::Overdue, "overdue"),
    (Operation::Held, "held"),
    (Operation::Wanted, "wanted"),
    (Operation::Sweep, "sweep"),
    (Operation::Counts, "counts"),
    (Operation::Job, "job"),
    (Operation::List, "list"),
    (Operation::Dead, "dead"),
    (Operation::Respawn, "respawn"),
    (Operation::DeleteDead, "delete-dead"),
    (Operation::Cancel, "cancel"),
    (Operation::Pause, "pause"),
    (Operation::Tenants, "tenants"),
    (Operation::Token, "token"),
];
const RESULTS: [(CallResult, &str); 3] =
    [(CallResult::Ok, "ok"), (CallResult::Unavailable, "away"), (CallResult::Refused, "refused")];

/// One histogram for each operation and answer.
#[derive(Debug)]
pub(super) struct Calls(Box<[[Histogram; RESULTS.len()]]>);

impl Default for Calls {
    fn default() -> Self {
        let answers = || std::array::from_fn(|_| Histogram::new(&Scale::CALL_TIMES));
        Self(OPERATIONS.iter().map(|_| answers()).collect())
    }
}

impl Calls {
    pub(super) fn observe(&self, operation: Operation, answer: CallResult, took: Duration) {
        let answers = self.0.get(operation as usize);
        if let Some(histogram) = answers.and_then(|answers| answers.get(answer as usize)) {
            histogram.observe_time(took);
        }
    }

    /// By operation and answer, in words.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, &Histogram)> {
        let answered = |operation: &'static str| {
            move |(histogram, (_, answer)): (_, &(CallResult, &'static str))| (operation, *answer, histogram)
        };
        let operations = OPERATIONS.iter().zip(&self.0);
        operations.flat_map(move |((_, name), answers)| answers.iter().zip(&RESULTS).map(answered(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_and_answer_has_its_own_histogram() {
        let calls = Calls::default();
        for (operation, name) in OPERATIONS {
            for (answer, said) in RESULTS {
                calls.observe(operation, answer, Duration::from_millis(1));
                let seen: Vec<_> =
                    calls.all().filter(|(.., histogram)| histogram.count() == 1).map(|(a, b, _)| (a, b)).collect();
                assert_eq!(seen.last(), Some(&(name, said)));
            }
        }
        assert!(calls.all().all(|(.., histogram)| histogram.count() == 1));
    }
}
