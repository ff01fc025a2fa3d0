//! `gristmill workers`: which runners live, and what they and the pull workers run.

use serde_json::json;

use super::exit::Exit;
use super::global::Global;
use super::table::Table;
use super::{job, screen};
use gristmill_core::time::Timestamp;
use gristmill_server::{Worker, WorkerKind, Workers, workers};

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
    let Workers { workers, complete } = match &reached.server {
        Some(server) => server.workers().await?,
        None => workers(&*reached.store).await?,
    };
    if global.json {
        for worker in workers {
            screen::document(&json!(worker))?;
        }
    } else if workers.is_empty() {
        screen::note("no worker was heard within the last hour");
    } else {
        table(workers).print()?;
    }
    if !complete {
        screen::note("note: more jobs run than were looked at: numbers are too small, and pull workers may be missing");
    }
    Ok(Exit::Done)
}

fn table(workers: Vec<Worker>) -> Table {
    let (mut table, now) = (Table::new(&["WORKER", "KIND", "HEARTBEAT", ">RUNNING", "TOPICS"]), Timestamp::now());
    for Worker { worker, kind, heartbeat_at_ms, running, topics } in workers {
        let kind = match kind {
            WorkerKind::Runner => "runner",
            WorkerKind::Pull => "pull",
        };
        let heartbeat = heartbeat_at_ms.map_or_else(|| "-".into(), |at| job::distance(at, now));
        let topics: Vec<_> = topics.into_iter().collect();
        table.row([worker, kind.into(), heartbeat, running.to_string(), topics.join(", ")]);
    }
    table
}
