//! `gristmill tenant`: the stores of the tenants, and moving them from one store to another while they work.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::exit::{Exit, Usage};
use super::global::Global;
use super::screen;
use super::store::Reached;
use super::table::Table;
use gristmill_config::Manifest;
use gristmill_core::job::{Name, WorkerId};
use gristmill_server::unknown_tenant;
use gristmill_store::{TenantPlacement, TenantPlacements, TopicCounts};

/// How often a move that is watched is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Show the store of each tenant, and move tenants to another store
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill tenant list
  gristmill tenant move acme --to archive --watch
  gristmill tenant move acme --to home")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the store of each tenant, and what remains in other stores
    List,
    /// Move a tenant to another store, while its jobs are pushed and run
    ///
    /// From now on pushes go to the new store. Waiting jobs follow from the old store, and running jobs end there. The servers
    /// carry out the move, so this command may be ended at any time, and be given again.
    Move(MoveArgs),
}

#[derive(Debug, clap::Args)]
struct MoveArgs {
    /// The tenant
    tenant: Name,
    /// The store to move it to: a name of the manifest's [stores], or `home` for that of [store]
    #[arg(long, value_name = "STORE")]
    to: Name,
    /// Stay until nothing remains in the old store, and show how far it is
    #[arg(long)]
    watch: bool,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    let reached = global.reach(&manifest).await?;
    let moves = moves(&reached)?;
    match args.command {
        Command::List => list(global, &*moves).await?,
        Command::Move(args) => {
            note_unknown(global, &manifest, &reached, &*moves, &args.tenant).await;
            start(global, &reached, &*moves, &args).await?;
        }
    }
    Ok(Exit::Done)
}

fn moves(reached: &Reached) -> Result<Arc<dyn TenantPlacements>, Usage> {
    match (&reached.sharded, &reached.server) {
        (Some(sharded), _) => Ok(Arc::new(sharded.clone())),
        (None, Some(server)) => Ok(Arc::new(server.clone())),
        (None, None) => {
            Err(Usage("there is one store only: a section [stores.NAME] in the manifest makes another".into()))
        }
    }
}

async fn list(global: &Global, moves: &dyn TenantPlacements) -> anyhow::Result<()> {
    let placements = moves.placements().await?;
    if global.json {
        return placements.iter().try_for_each(|placement| screen::document(&document(placement)));
    }
    let mut table = Table::new(&["TENANT", "STORE", "MOVING FROM", ">REMAINING", "FORMERLY", "UNAVAILABLE"]);
    for placement in &placements {
        let TenantPlacement { tenant, store, from, formerly, unavailable, .. } = placement;
        table.row([
            tenant.to_string(),
            store.to_string(),
            from.as_ref().map_or_else(|| "-".into(), Name::to_string),
            remaining(placement).to_string(),
            names(formerly),
            names(unavailable),
        ]);
    }
    table.print()
}

/// Notes that nothing knows the tenant. It may be moved before its first job, so that this is no error.
async fn note_unknown(
    global: &Global,
    manifest: &Manifest,
    reached: &Reached,
    moves: &dyn TenantPlacements,
    tenant: &Name,
) {
    let mut known = if global.names_server() { BTreeSet::new() } else { manifest.tenants.clone() };
    // While the store does not answer, no tenant is doubted.
    let Ok(with_jobs) = reached.store.tenants().await else { return };
    known.extend(with_jobs);
    if known.contains(tenant) {
        return;
    }
    let Ok(placements) = moves.placements().await else { return };
    known.extend(placements.into_iter().map(|placement| placement.tenant));
    if let Some(unknown) = unknown_tenant(tenant, &known) {
        screen::note(&format!("note: {unknown}"));
    }
}

async fn start(
    global: &Global,
    reached: &Reached,
    moves: &dyn TenantPlacements,
    args: &MoveArgs,
) -> anyhow::Result<()> {
    let MoveArgs { tenant, to, watch } = args;
    moves.move_tenant(tenant, to).await.with_context(|| format!("failed to move `{tenant}`"))?;
    if !watch {
        if !global.json {
            screen::line(&format!(
                "`{tenant}` is in `{to}` now; `gristmill tenant list` shows what remains in other stores"
            ))?;
        }
        return said(global, moves, tenant).await;
    }
    let stop = CancellationToken::new();
    // Without a server no other process moves the jobs.
    let moving = reached.sharded.clone().map(|sharded| {
        let mover = WorkerId::new(&format!("move-{}-{:08x}", std::process::id(), fastrand::u32(..)));
        tokio::spawn(sharded.migrate_tenants(mover, stop.clone()))
    });
    let watched = follow(global, moves, tenant).await;
    stop.cancel();
    if let Some(moving) = moving {
        moving.await?;
    }
    watched?;
    if !global.json {
        screen::line(&format!("`{tenant}` has moved to `{to}`"))?;
    }
    said(global, moves, tenant).await
}

async fn said(global: &Global, moves: &dyn TenantPlacements, tenant: &Name) -> anyhow::Result<()> {
    if global.json { screen::document(&document(&moves.placement(tenant).await?)) } else { Ok(()) }
}

/// Until the move is over.
async fn follow(global: &Global, moves: &dyn TenantPlacements, tenant: &Name) -> anyhow::Result<()> {
    let is_shown = screen::is_watched() && !global.quiet && !global.json;
    let bar = if is_shown { ProgressBar::new(0) } else { ProgressBar::hidden() };
    bar.set_style(ProgressStyle::with_template("{msg:32} {wide_bar} {human_pos}/{human_len}")?);
    let mut most = 0;
    loop {
        let placement = moves.placement(tenant).await?;
        if placement.from.is_none() {
            bar.finish_and_clear();
            return Ok(());
        }
        let remaining = remaining(&placement);
        most = remaining.max(most);
        bar.set_message(message(&placement));
        bar.set_length(most);
        bar.set_position(most - remaining);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The topic with the most jobs that remain.
fn message(placement: &TenantPlacement) -> String {
    let most = placement.remaining.iter().max_by_key(|counts| counts.jobs());
    match (placement.unavailable.first(), most) {
        (Some(store), _) => format!("waiting for `{store}`"),
        (None, Some(counts)) => format!("moving {}", counts.topic),
        (None, None) => "moving".into(),
    }
}

fn remaining(placement: &TenantPlacement) -> u64 {
    placement.remaining.iter().map(TopicCounts::jobs).sum()
}

fn names(names: &[Name]) -> String {
    let names: Vec<_> = names.iter().map(Name::as_str).collect();
    if names.is_empty() { "-".into() } else { names.join(", ") }
}

fn document(placement: &TenantPlacement) -> Value {
    let TenantPlacement { tenant, store, from, formerly, remaining, unavailable } = placement;
    let remaining = remaining.iter().map(|counts| {
        json!({
            "topic": counts.topic.topic.as_str(),
            "ready": counts.ready,
            "delayed": counts.delayed,
            "running": counts.running,
            "dead": counts.dead,
        })
    });
    json!({
        "tenant": tenant.as_str(),
        "store": store.as_str(),
        "moving_from": from.as_ref().map(Name::as_str),
        "formerly": formerly.iter().map(Name::as_str).collect::<Vec<_>>(),
        "remaining": remaining.collect::<Vec<_>>(),
        "unavailable": unavailable.iter().map(Name::as_str).collect::<Vec<_>>(),
    })
}
