//! Breaks the rules of the stores one at a time in a copy of the tests' program, and demands that its suite notices each:
//! see `scripts/mutants.sh`.
//!
//! `mutants <program> <store> [part of a rule]`

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use gristmill_store_tests::mutants;

/// Enough to find what the cases miss, and quick.
const SEQUENCES: &str = "150";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, store, rest @ ..] = &arguments[..] else { panic!("mutants <program> <store> [part of a rule]") };
    let (root, wanted) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), rest.first().map_or("", String::as_str));
    let program = fs::read(program).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("it");

    let unharmed = failures(&copy, &program, store);
    assert!(unharmed.is_empty(), "the suite fails without a mutant: {unharmed:?}");
    let (mut all, mut caught) = (0, 0);
    for mutant in mutants::of(&root, store).iter().filter(|mutant| mutant.rule.contains(wanted)) {
        let broken = mutant.break_in(&program).unwrap_or_else(|| panic!("{}: not in the program", mutant.rule));
        let failed = failures(&copy, &broken, store);
        let first = failed.first().map_or("NOT CAUGHT", String::as_str);
        let model = failed.iter().any(|test| test.starts_with("model::"));
        println!(
            "| {store} | {} | {} | `{first}` | {} |",
            mutant.rule,
            failed.len(),
            if model { "model too" } else { "" }
        );
        all += 1;
        caught += usize::from(!failed.is_empty());
    }
    println!("{store}: {caught} of {all} mutants caught");
    if caught == all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The tests of the store that fail in the program.
fn failures(copy: &Path, program: &[u8], store: &str) -> BTreeSet<String> {
    let tests: &[&str] = match store {
        "redis" => &[
            "conformance::",
            "::redis_behaves",
            "loses_no_follow_up_job",
            "--skip",
            "::file::",
            "--skip",
            "::memory::",
        ],
        _ => &["conformance::", "::memory_behaves", "::a_file_behaves", "--skip", "::redis::"],
    };
    fs::write(copy, program).unwrap();
    fs::set_permissions(copy, fs::Permissions::from_mode(0o755)).unwrap();
    let mut suite = Command::new(copy);
    suite.current_dir(env!("CARGO_MANIFEST_DIR")).args(tests);
    suite.env("RUST_BACKTRACE", "0").env("GRISTMILL_MODEL_SEQUENCES", SEQUENCES).env("PROPTEST_MAX_SHRINK_ITERS", "0");
    let output = suite.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = text.lines().filter_map(|line| line.strip_prefix("    ")).filter(|line| line.contains("::"));
    let failed: BTreeSet<String> = failed.map(str::to_owned).collect();
    assert_eq!(output.status.success(), failed.is_empty(), "the suite's answer cannot be read:\n{text}");
    failed
}
