//! Random sequences of operations, done to a store and to a plain [model](plain) of one: after every step both must have given
//! the same answer, and look the same.
//!
//! A failing sequence is shrunk and printed as a list. The seed is fixed, so a failure comes again;
//! `GRISTMILL_MODEL_SEED` gives another one, `GRISTMILL_MODEL_SEQUENCES` a number of sequences for a long run.

mod operations;
mod plain;
mod seen;
mod world;

use std::cell::Cell;
use std::time::Instant;

use gristmill_tests::test_store::{Kind, TestStore};
use operations::{Operation, sequences};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::Builder;
use world::{Difference, World};

#[test]
fn redis_behaves_like_the_model() {
    compare(Kind::Redis, 800);
}

#[test]
fn a_file_behaves_like_the_model() {
    compare(Kind::File, 500);
}

#[test]
fn memory_behaves_like_the_model() {
    compare(Kind::Memory, 700);
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

fn compare(kind: Kind, sequences_by_default: u64) {
    let seed = number("GRISTMILL_MODEL_SEED", 1);
    let cases = number("GRISTMILL_MODEL_SEQUENCES", sequences_by_default);
    let config = Config { cases: cases as u32, failure_persistence: None, max_shrink_iters: 3000, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    // What all sequences share is started once.
    let _keep = runtime.block_on(TestStore::new(kind));

    let (begun, done, steps) = (Instant::now(), Cell::new(0), Cell::new(0));
    let play = |operations: Vec<Operation>| {
        done.set(done.get() + 1);
        steps.set(steps.get() + operations.len());
        runtime.block_on(play(kind, &operations)).map_err(|difference| TestCaseError::fail(difference.0))
    };
    let outcome = runner.run(&sequences(), play);
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

async fn play(kind: Kind, operations: &[Operation]) -> Result<(), Difference> {
    let mut world = World::new(TestStore::new(kind).await);
    for (place, operation) in operations.iter().enumerate() {
        world.step(operation).await.map_err(|Difference(text)| Difference(format!("step {}: {text}", place + 1)))?;
    }
    Ok(())
}

/// One operation a line, as it would be written in a test.
fn script(operations: &[Operation]) -> String {
    operations.iter().enumerate().map(|(place, operation)| format!("{:3}. {operation:?}\n", place + 1)).collect()
}
