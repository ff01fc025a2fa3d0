//! Random sequences of operations, done to a store and to a plain [model](plain) of one: after every step both must have given
//! the same answer, and look the same.
//!
//! A failing sequence is shrunk and printed as a list. The seed is fixed, so a failure comes again;
//! `GRISTMILL_MODEL_SEED` gives another one, `GRISTMILL_MODEL_SEQUENCES` a number of sequences for a long run.

mod listing;
mod operations;
mod plain;
mod schedules;
mod seen;
mod side;
mod tenant_limits;
mod versions;
mod wake_ups;
mod workflows;
mod world;

use std::cell::Cell;
use std::fmt::Debug;
use std::time::Instant;

use gristmill_store_tests::deployment::RedisKind;
use gristmill_store_tests::test_store::{Kind, TestStore};
use gristmill_test_servers::wait::{SOON, until};
use operations::{Operation, sequences};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use side::Difference;
use tokio::runtime::Builder;
use world::World;

#[test]
fn redis_behaves_like_the_model() {
    compare([Kind::REDIS, Kind::Memory], 70);
}

#[test]
fn a_clustered_redis_behaves_like_the_model() {
    compare([Kind::Redis(RedisKind::Cluster), Kind::Memory], 25);
}

#[test]
fn topics_spread_over_partitions_behave_like_the_model() {
    compare([Kind::Spread(1), Kind::Memory], 25);
}

#[test]
fn a_file_behaves_like_the_model() {
    compare([Kind::File, Kind::File], 70);
}

#[test]
fn memory_behaves_like_the_model() {
    compare([Kind::Memory, Kind::Memory], 70);
}

#[test]
fn two_shards_of_different_kinds_behave_like_the_model() {
    compare([Kind::ShardedStore, Kind::REDIS], 25);
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

/// The first store is the one that the test is about; jobs move between it and the other one.
fn compare(kinds: [Kind; 2], sequences_by_default: u64) {
    search(kinds[0], sequences_by_default, sequences(), async |operations| try_to_play(kinds, operations).await);
}

/// Plays sequences until one fails, which is shrunk.
fn search<O: Clone + Debug>(
    kind: Kind,
    sequences_by_default: u64,
    sequences: impl Strategy<Value = Vec<O>>,
    try_to_play: impl AsyncFn(&[O]) -> Result<(), Difference>,
) {
    let seed = number("GRISTMILL_MODEL_SEED", 1);
    let by_default = if cfg!(feature = "thorough") { sequences_by_default } else { sequences_by_default / 10 };
    let cases = number("GRISTMILL_MODEL_SEQUENCES", by_default);
    let config = Config { cases: cases as u32, failure_persistence: None, max_shrink_iters: 3000, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    // What all sequences share is started once.
    let _keep = runtime.block_on(TestStore::new(kind));

    let (begun, done, steps) = (Instant::now(), Cell::new(0), Cell::new(0));
    let play = |operations: Vec<O>| {
        done.set(done.get() + 1);
        steps.set(steps.get() + operations.len());
        runtime.block_on(play(&try_to_play, &operations)).map_err(TestCaseError::fail)
    };
    let outcome = runner.run(&sequences, play);
    println!("{kind:?}: {} sequences, {} steps, {:?} (seed {seed})", done.get(), steps.get(), begun.elapsed());
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(difference, operations)) => {
            panic!(
                "{kind:?} and the model differ (seed {seed}) in the last step of:\n{}{difference}",
                script(&operations)
            )
        }
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

/// Begins again if a store was unavailable: that is no difference, and what it did of a step is not known.
async fn play<O>(try_to_play: &impl AsyncFn(&[O]) -> Result<(), Difference>, operations: &[O]) -> Result<(), String> {
    until("the stores to answer", SOON, async || match try_to_play(operations).await {
        Err(difference) if difference.unavailable => None,
        played => Some(played.map_err(|difference| difference.text)),
    })
    .await
}

async fn try_to_play(kinds: [Kind; 2], operations: &[Operation]) -> Result<(), Difference> {
    let mut world = World::new(kinds).await?;
    for (place, operation) in operations.iter().enumerate() {
        world.step(operation).await.map_err(|difference| difference.in_step(place))?;
    }
    world.end().await
}

/// One operation a line, as it would be written in a test.
fn script<O: Debug>(operations: &[O]) -> String {
    operations.iter().enumerate().map(|(place, operation)| format!("{:3}. {operation:?}\n", place + 1)).collect()
}
