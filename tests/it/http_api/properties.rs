//! Whatever the document allows, and what it does not: requests that nobody has thought of.

use std::path::Path;
use std::process::Stdio;

use gristmill_tests::test_runner::TestRunner;
use gristmill_tests::wait::SOON;
use tokio::process::Command;
use tokio::time::timeout;

use super::runner;

/// For each route; many more by hand, see the script.
const REQUESTS: &str = "10";

on_both_stores! {
    every_answer_is_in_the_document
}

async fn every_answer_is_in_the_document(runner: TestRunner) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/schemathesis.sh");
    let mut asking = Command::new(script);
    asking.arg(format!("http://{}", runner.client().address)).args(["--max-examples", REQUESTS]);
    asking.kill_on_drop(true).stdin(Stdio::null());
    let output = timeout(4 * SOON, asking.output()).await.expect("an end").unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("No issues found"), "{said}");
}
