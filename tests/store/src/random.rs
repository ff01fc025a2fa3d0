//! Randomness that can be played again.

use fastrand::Rng;

/// Names the seed to play again, in the environment.
pub const SEED: &str = "GRISTMILL_TEST_SEED";

/// A generator for one test. Prints the seed, so that a failed run shows how to repeat it; `GRISTMILL_TEST_SEED` sets it.
pub fn seeded() -> Rng {
    let seed = match std::env::var(SEED) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{SEED}={text} is not a number")),
        Err(_) => fastrand::u64(..),
    };
    println!("{SEED}={seed}");
    Rng::with_seed(seed)
}
