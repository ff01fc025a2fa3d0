//! What may happen to the schedules of a topic, as small values: see [the other operations](super::super::operations).

use gristmill_core::schedule::{Missed, Overlap};
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::operations::{Back, Ms};

#[derive(Debug, Clone)]
pub(super) enum Operation {
    /// Makes or changes a schedule.
    Put {
        schedule: usize,
        every: Ms,
        missed: Missed,
        overlap: Overlap,
    },
    Pause {
        schedule: usize,
        paused: bool,
    },
    /// Runs it now; `again`: by the id of its last job, if that was made by hand.
    Run {
        schedule: usize,
        again: bool,
    },
    Remove {
        schedule: usize,
    },
    Pass(Ms),
    /// Fires whatever is due.
    Migrate,
    Claim {
        max: usize,
    },
    /// Ends an attempt.
    Settle {
        claim: Back,
        dead: bool,
    },
    /// The store's process ends, and another one opens it.
    Reopen,
}

pub(super) const SCHEDULES: usize = 2;

pub(super) fn sequences() -> impl Strategy<Value = Vec<Operation>> {
    vec(operation(), 1..50)
}

fn operation() -> impl Strategy<Value = Operation> {
    let schedule = 0..SCHEDULES;
    let every = prop::sample::select(vec![1000, 7000, 60_000, 3_600_000]);
    let missed = prop::sample::select(vec![Missed::Skip, Missed::One, Missed::All]);
    let overlap = prop::sample::select(vec![Overlap::Skip, Overlap::Queue]);
    prop_oneof![
        5 => (schedule.clone(), every, missed, overlap)
            .prop_map(|(schedule, every, missed, overlap)| Operation::Put { schedule, every, missed, overlap }),
        2 => (schedule.clone(), any::<bool>()).prop_map(|(schedule, paused)| Operation::Pause { schedule, paused }),
        2 => (schedule.clone(), any::<bool>()).prop_map(|(schedule, again)| Operation::Run { schedule, again }),
        1 => schedule.prop_map(|schedule| Operation::Remove { schedule }),
        // A tick that is over a minute late was missed.
        8 => prop::sample::select(vec![1, 999, 1000, 7000, 59_999, 61_000, 400_000, 7_200_000]).prop_map(Operation::Pass),
        8 => Just(Operation::Migrate),
        3 => (1..5usize).prop_map(|max| Operation::Claim { max }),
        3 => (0..4usize, any::<bool>()).prop_map(|(claim, dead)| Operation::Settle { claim, dead }),
        1 => Just(Operation::Reopen),
    ]
}
