//! What may happen to jobs that wait for each other, as small values: see [the other operations](super::super::operations).

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

use super::super::operations::{Back, Ms};

#[derive(Debug, Clone)]
pub(super) enum Operation {
    Push(Vec<Draft>),
    Pass(Ms),
    Migrate,
    Claim {
        topic: usize,
        max: usize,
    },
    Settle(Vec<Ending>),
    Seal(Which),
    Cancel(Vec<Back>),
    Respawn(Vec<Back>),
    DeleteDead(Vec<Back>),
    Sweep {
        topic: usize,
        keep: u64,
    },
    /// The store's process ends, and another one opens it.
    Reopen,
}

/// A job to be pushed.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) topic: usize,
    pub(super) delay: Option<Ms>,
    pub(super) after: Vec<Which>,
    /// It runs also if one of these was not done.
    pub(super) runs_anyway: bool,
    pub(super) batch: Option<Which>,
    pub(super) open: bool,
    pub(super) kept: bool,
    /// The id of an earlier job.
    pub(super) again: Option<Back>,
}

/// A job that is named.
#[derive(Debug, Clone)]
pub(super) enum Which {
    /// One of all that were pushed.
    Any(Back),
    /// One that was pushed as a batch.
    Batch(Back),
    /// The new job itself.
    Itself,
    /// The job whose attempt enqueues the new one. Of a producer's job: one that never was.
    Enqueuer,
}

/// The end of an attempt.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    /// Of those that run, or ran.
    pub(super) claim: Back,
    pub(super) late: bool,
    pub(super) verdict: End,
    pub(super) follow_ups: Vec<Draft>,
}

#[derive(Debug, Clone)]
pub(super) enum End {
    Ack(Option<u8>),
    Retry(Ms),
    Snooze(Ms),
    Release,
    Bury,
    Expire,
}

pub(super) const TOPICS: usize = 2;
const LATEST: std::ops::Range<usize> = 0..10;

pub(super) fn sequences() -> impl Strategy<Value = Vec<Operation>> {
    vec(operation(), 1..50)
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => vec(draft(), 1..5).prop_map(Operation::Push),
        2 => wait().prop_map(Operation::Pass),
        2 => Just(Operation::Migrate),
        8 => (0..TOPICS, 1..5usize).prop_map(|(topic, max)| Operation::Claim { topic, max }),
        10 => vec(ending(), 1..4).prop_map(Operation::Settle),
        3 => prop_oneof![4 => LATEST.prop_map(Which::Batch), 1 => LATEST.prop_map(Which::Any)].prop_map(Operation::Seal),
        2 => vec(LATEST, 1..4).prop_map(Operation::Cancel),
        3 => vec(LATEST, 1..4).prop_map(Operation::Respawn),
        1 => vec(LATEST, 1..3).prop_map(Operation::DeleteDead),
        1 => (0..TOPICS, 0..3u64).prop_map(|(topic, keep)| Operation::Sweep { topic, keep }),
        1 => Just(Operation::Reopen),
    ]
}

fn wait() -> impl Strategy<Value = Ms> {
    prop::sample::select(vec![0, 1, 5, 10, 20])
}

fn which() -> impl Strategy<Value = Which> {
    prop_oneof![
        12 => LATEST.prop_map(Which::Any),
        2 => LATEST.prop_map(Which::Batch),
        1 => Just(Which::Itself),
        3 => Just(Which::Enqueuer),
    ]
}

fn draft() -> impl Strategy<Value = Draft> {
    let after = prop_oneof![2 => Just(Vec::new()), 3 => vec(which(), 1..4)];
    let batch = weighted(0.4, prop_oneof![6 => (0..3usize).prop_map(Which::Batch), 1 => which()]);
    let seldom = |share| prop::bool::weighted(share);
    (0..TOPICS, weighted(0.2, wait()), after, any::<bool>(), batch, seldom(0.25), seldom(0.4), weighted(0.1, LATEST))
        .prop_map(|(topic, delay, after, runs_anyway, batch, open, kept, again)| Draft {
            topic,
            delay,
            after,
            runs_anyway,
            batch,
            open,
            kept,
            again,
        })
}

fn ending() -> impl Strategy<Value = Ending> {
    let follow_ups = prop_oneof![2 => Just(Vec::new()), 1 => vec(draft(), 1..3)];
    let verdict = prop_oneof![
        6 => weighted(0.5, any::<u8>()).prop_map(End::Ack),
        2 => wait().prop_map(End::Retry),
        1 => wait().prop_map(End::Snooze),
        1 => Just(End::Release),
        4 => Just(End::Bury),
        1 => Just(End::Expire),
    ];
    (LATEST, prop::bool::weighted(0.05), verdict, follow_ups).prop_map(|(claim, late, verdict, follow_ups)| Ending {
        claim,
        late,
        verdict,
        follow_ups,
    })
}
