//! Waits and computes for as long as its payload asks: work of a known size, to try limits, timeouts and neighbours with.

use std::hint::black_box;
use std::thread::sleep;
use std::time::{Duration, Instant};

use gristmill_guest::{Failure, Job, handler};
use serde::{Deserialize, Serialize};

handler!(simulate);

/// The payload, as JSON. What is left out is zero.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Work {
    /// Waits so many milliseconds; other attempts run meanwhile.
    pub wait_ms: u64,
    /// Then keeps a CPU busy for so many milliseconds.
    pub compute_ms: u64,
}

/// Does what the payload says.
#[expect(clippy::disallowed_methods, reason = "waiting is what it is for")]
pub fn simulate(job: Job) -> Result<(), Failure> {
    let work: Work = job.json()?;
    if work.wait_ms > 0 {
        sleep(Duration::from_millis(work.wait_ms));
    }
    compute(Duration::from_millis(work.compute_ms));
    Ok(())
}

fn compute(duration: Duration) {
    /// Rounds between two looks at the clock, which is a call of the host.
    const ROUNDS: u64 = 100_000;
    let begun = Instant::now();
    while begun.elapsed() < duration {
        black_box((0..ROUNDS).fold(1_u64, |sum, round| black_box(sum.wrapping_mul(31).wrapping_add(round))));
    }
}

#[cfg(test)]
mod tests {
    use gristmill_guest::testing::{Host, job};

    use super::*;

    #[test]
    fn takes_at_least_as_long_as_it_was_asked() {
        let begun = Instant::now();
        let run = Host::new().run(simulate, job("simulate").json(&Work { wait_ms: 5, compute_ms: 5 }));
        assert!(run.ending().is_ok());
        assert!(begun.elapsed() >= Duration::from_millis(10));
    }

    #[test]
    fn work_of_another_kind_is_refused() {
        let run = Host::new().run(simulate, job("simulate").body(r#"{"sleep": 5}"#));
        assert!(!run.failure().unwrap().is_retry());
    }
}
