//! The command line as a user uses it: the real binary, the embedded store and a real Redis, the stock handlers.

mod build;
mod bulk;
mod check;
mod compile;
mod complete;
mod control;
mod copy;
mod dead;
mod dev;
mod dev_native;
mod find;
mod fsck;
mod invoke;
mod look;
mod orders;
mod owner;
mod project;
mod push;
mod run;
mod server;
pub(crate) mod terminal;
mod wait;
mod why;

use gristmill_tests::test_project::TestProject;

/// A runner of this project that gets the signal to end waits for what runs, however long a busy machine takes.
fn give_grace(project: &TestProject) {
    let manifest = std::fs::read_to_string(project.manifest()).unwrap();
    assert!(manifest.contains("[server]\n"), "{manifest}");
    project.write_manifest(&manifest.replacen("[server]\n", "[server]\nshutdown-grace = \"10m\"\n", 1));
}
