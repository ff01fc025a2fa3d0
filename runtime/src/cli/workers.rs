//! `gristmill workers`: which runners live, and what they and the pull workers run.

use super::exit::Exit;
use super::global::Global;
use super::store::Reached;
use super::table::Table;
use super::{describe, screen};
use gristmill_config::units;
use gristmill_core::time::Timestamp;
use gristmill_server::{Worker, WorkerKind, Workers, workers};
use gristmill_store::StoreError;

/// Show runners and pull workers, and how many jobs they run
#[derive(Debug, clap::Args)]
#[command(after_help = "\
HEARTBEAT is when the store heard the runner last: every few seconds while it
lives. One that was killed is shown for an hour. Pull workers have none, and are
shown while they have jobs.

Examples:
  gristmill workers
  gristmill workers --server https://jobs.example.org --token-file token --json")]
pub(super) struct Args {}

pub(super) async fn run(global: &Global, Args {}: Args) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    let Some(reached) = global.reach_if_any(&manifest).await? else { return Ok(Exit::Done) };
    let Workers { workers, complete } = read(&reached).await?;
    let (now, none) = (Timestamp::now(), "no worker sent a heartbeat within the last hour");
    global.list(&workers, Table::new(&COLUMNS), |worker| row(worker, now), none)?;
    if !complete {
        screen::note(
            "note: not all running jobs were looked at: numbers may be too small, and pull workers may be missing",
        );
    }
    Ok(Exit::Done)
}

/// By the server, if the store belongs to one.
pub(super) async fn read(reached: &Reached) -> Result<Workers, StoreError> {
    match &reached.server {
        Some(server) => server.workers().await,
        None => workers(&*reached.store).await,
    }
}

pub(super) const COLUMNS: [&str; 5] = ["WORKER", "KIND", "HEARTBEAT", ">RUNNING", "TOPICS"];

pub(super) fn row(Worker { worker, kind, heartbeat_at_ms, running, topics }: &Worker, now: Timestamp) -> Vec<String> {
    let kind = match kind {
        WorkerKind::Runner => "runner",
        WorkerKind::Pull => "pull",
    };
    let heartbeat = heartbeat_at_ms.map_or_else(|| "-".into(), |at| describe::distance(at, now));
    let topics: Vec<_> = topics.iter().map(String::as_str).collect();
    vec![worker.clone(), kind.into(), heartbeat, units::grouped(*running), topics.join(", ")]
}
