//! What may happen to the jobs of a tenant with limits, as small values: see [the other operations](super::super::operations).

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

use super::super::operations::{Back, Ms};

#[derive(Debug, Clone)]
pub(super) enum Operation {
    Push {
        topic: usize,
        count: usize,
    },
    Pass(Ms),
    /// What all claims say of the tenant from now on: running jobs, jobs of a day, fuel of an hour.
    Limits(Option<u32>, Option<u64>, Option<u64>),
    Claim {
        topic: usize,
        max: usize,
        /// How many jobs of the topic may run at once.
        most: Option<u32>,
        /// How many jobs of the topic may start in a time, and how many at once.
        rate: Option<(u32, Ms, u32)>,
    },
    Settle(Vec<Ending>),
    /// Cancels the ready jobs of a topic that came last.
    Cancel {
        topic: usize,
        count: usize,
    },
    Pause {
        topic: usize,
        paused: bool,
    },
    /// The store's process ends, and another one opens it.
    Reopen,
}

/// The end of an attempt.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    pub(super) claim: Back,
    /// Its lease is lost.
    pub(super) late: bool,
    pub(super) retries: bool,
    pub(super) fuel: u64,
}

pub(super) const TOPICS: usize = 4;
/// The first three are one tenant's, the last another one's.
pub(super) const TENANTS: [std::ops::Range<usize>; 2] = [0..3, 3..4];
const LATEST: std::ops::Range<usize> = 0..8;

pub(super) fn sequences() -> impl Strategy<Value = Vec<Operation>> {
    vec(operation(), 1..60)
}

fn operation() -> impl Strategy<Value = Operation> {
    let topic = 0..TOPICS;
    let limits = (weighted(0.7, 1..5u32), weighted(0.4, 1..20u64), weighted(0.4, 1..60u64));
    let rate = (1..4u32, prop::sample::select(vec![100, 60_000, 3_600_000]), 1..5u32);
    let claim = (topic.clone(), 0..5usize, weighted(0.3, 1..4u32), weighted(0.3, rate));
    prop_oneof![
        6 => (topic.clone(), 1..4usize).prop_map(|(topic, count)| Operation::Push { topic, count }),
        // The hour that comes next is a new day, see `World::new`.
        2 => prop::sample::select(vec![1, 20, 60_000, 2_000_000, 3_600_000]).prop_map(Operation::Pass),
        2 => limits.prop_map(|(running, jobs, fuel)| Operation::Limits(running, jobs, fuel)),
        12 => claim.prop_map(|(topic, max, most, rate)| Operation::Claim { topic, max, most, rate }),
        8 => vec(ending(), 1..4).prop_map(Operation::Settle),
        1 => (topic.clone(), 1..4usize).prop_map(|(topic, count)| Operation::Cancel { topic, count }),
        1 => (topic, any::<bool>()).prop_map(|(topic, paused)| Operation::Pause { topic, paused }),
        1 => Just(Operation::Reopen),
    ]
}

fn ending() -> impl Strategy<Value = Ending> {
    let fuel = prop_oneof![1 => Just(0), 2 => 1..30u64];
    (LATEST, prop::bool::weighted(0.1), prop::bool::weighted(0.3), fuel)
        .prop_map(|(claim, late, retries, fuel)| Ending { claim, late, retries, fuel })
}
