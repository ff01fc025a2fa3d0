//! `gristmill health`: whether a server lives, for probes where there is no other client.

use anyhow::anyhow;
use serde_json::json;

use super::exit::Exit;
use super::global::Global;
use gristmill_server::health;

/// Ask whether the server lives
///
/// Asks the server that --server names, else the one of the manifest. The exit code is 0 if it lives, and 1 if not.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill health
  gristmill health --ready
  gristmill health --server https://jobs.example.org")]
pub(super) struct Args {
    /// Ask whether it runs jobs and its store takes them, too
    #[arg(long)]
    ready: bool,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let way = global.way(&global.manifest_without_secrets()?)?;
    let nowhere = "the manifest's server does not listen at a known address: name it with --server";
    let address = way.server_address().ok_or_else(|| anyhow!(nowhere))?;
    let said = health(address, args.ready).await?;
    global.say(&json!({ "healthy": true, "said": said.trim_end() }), true, said.trim_end())?;
    Ok(Exit::Done)
}
