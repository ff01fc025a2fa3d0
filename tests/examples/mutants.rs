//! Breaks the stores' rules one at a time in a copy of the sources, and demands that the suite finds each: see
//! `scripts/mutants.sh`, which makes the copy.
//!
//! `mutants <copy> <store> [part of a rule]`

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use gristmill_tests::mutants;

/// Enough for what the suite's cases miss, and quick.
const SEQUENCES: &str = "200";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [copy, store, rest @ ..] = &arguments[..] else { panic!("mutants <copy> <store> [part of a rule]") };
    let (copy, wanted) = (Path::new(copy), rest.first().map_or("", String::as_str));
    assert!(build(copy), "the sources do not build as they are");
    let unharmed = failures(copy, store);
    assert!(unharmed.is_empty(), "the suite fails without a mutant: {unharmed:?}");

    let (mut all, mut caught) = (0, 0);
    for mutant in mutants::of(copy, store).iter().filter(|mutant| mutant.rule.contains(wanted)) {
        assert_eq!(mutant.found(copy), 1, "{}: its text must be found once", mutant.rule);
        let begun = Instant::now();
        let before = mutant.apply(copy);
        // What does not build is caught by nobody.
        let found = if build(copy) { failures(copy, store) } else { Vec::new() };
        std::fs::write(copy.join(&mutant.file), before).unwrap();
        let (first, more) = (found.first().map_or("NOT CAUGHT", String::as_str), found.len().saturating_sub(1));
        println!("{store} | {} | {first} | and {more} more | {:.0?}", mutant.rule, begun.elapsed());
        all += 1;
        caught += usize::from(!found.is_empty());
    }
    println!("{store}: {caught} of {all} mutants caught");
    if caught == all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn cargo(copy: &Path) -> Command {
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    cargo.current_dir(copy).args(["test", "--quiet", "--package", "gristmill-tests", "--test", "it"]);
    cargo.env("RUST_BACKTRACE", "0").env("GRISTMILL_MODEL_SEQUENCES", SEQUENCES).env("PROPTEST_MAX_SHRINK_ITERS", "0");
    cargo
}

fn build(copy: &Path) -> bool {
    cargo(copy).arg("--no-run").status().unwrap().success()
}

/// The tests of the store that fail.
fn failures(copy: &Path, store: &str) -> Vec<String> {
    let tests: &[&str] = match store {
        "redis" => &["::redis::", "model::redis"],
        _ => &["::memory::", "::file::", "model::memory", "model::a_file"],
    };
    let output = cargo(copy).arg("--").args(tests).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = text.lines().filter_map(|line| line.strip_prefix("    ")).filter(|line| line.contains("::"));
    let mut failed: Vec<String> = failed.map(str::to_owned).collect();
    assert_eq!(output.status.success(), failed.is_empty(), "cargo's answer cannot be read:\n{text}");
    failed.sort();
    failed.dedup();
    failed
}
