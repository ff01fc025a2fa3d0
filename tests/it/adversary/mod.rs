//! Attacks on a server in a process of its own, beside the honest jobs of another tenant.
//!
//! Each experiment prints a table. What depends on the speed of the machine, such as a ratio of latencies, is printed with its
//! goal and fails no test. What must hold on every machine is asserted: honest jobs are done, `/healthz` answers, the process is
//! the same as before and has not panicked. `scripts/adversary.sh` runs the experiments for longer than the tests do.

mod clients;
mod guests;
pub(crate) mod kills;
mod outages;
mod probe;
mod revoked;
mod target;

use std::time::Duration;

use probe::Latency;

/// Names the length of each measurement in seconds, in the environment.
const SECONDS: &str = "GRISTMILL_ADVERSARY_SECONDS";

/// How long each measurement takes: half a second in a run of the tests.
fn length() -> Duration {
    let seconds = std::env::var(SECONDS).ok().map(|text| text.parse().expect("a number of seconds"));
    seconds.map_or(Duration::from_millis(500), Duration::from_secs)
}

/// Whether the experiments are to take longer than in a run of the tests.
fn is_long() -> bool {
    std::env::var_os(SECONDS).is_some()
}

/// Names what of the experiment's tests is to be run, in the environment: those whose names contain it.
const ONLY: &str = "GRISTMILL_ADVERSARY_ONLY";

/// Whether the test with this name is to be run.
fn is_chosen(test: &str) -> bool {
    std::env::var(ONLY).is_ok_and(|only| test.contains(&only)) || std::env::var_os(ONLY).is_none()
}

/// The heading of every table of this suite.
fn print_heading() {
    println!("| test | alone p50, p99 ms | during p50, p99 ms | ratio of p99 | goal | holds |");
    println!("|---|---|---|---|---|---|");
}

/// A row about an attack and what it did to the latency of honest jobs.
fn print_row(test: &str, alone: Latency, during: Latency) {
    let ratio = during.p99.as_secs_f64() / alone.p99.as_secs_f64();
    let holds = if ratio <= 1.5 { "yes" } else { "no" };
    println!("| {test} | {alone} | {during} | {ratio:.2} | at most 1.5 | {holds} |");
}
