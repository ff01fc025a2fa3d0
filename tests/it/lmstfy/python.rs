//! A client in another language, from beginning to end.

use std::path::Path;
use std::process::Stdio;

use gristmill_tests::test_runner::TestRunner;
use gristmill_tests::wait::SOON;
use tokio::process::Command;

use super::runner;

on_both_stores! {
    a_client_in_python_feels_at_home
}

async fn a_client_in_python_feels_at_home(runner: TestRunner) {
    let (door, admin) = (runner.client().address.port(), runner.lmstfy_admin().address.port());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/lmstfy/client.py");
    let mut python = Command::new("python3");
    python.arg(script).args([door.to_string(), admin.to_string()]).kill_on_drop(true).stdin(Stdio::null());
    let output = tokio::time::timeout(SOON * 2, python.output()).await.expect("an end").unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.ends_with("all is well\n"), "{said}");
}
