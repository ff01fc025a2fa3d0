//! `gristmill topics`: every topic of the manifest, the handlers folder and the store.

use clap::Subcommand;

use super::exit::{Exit, Usage};
use super::global::{Global, TopicArg};
use super::stats::{MissingTenants, OfTenants};
use super::table::Table;
use super::topic_line::{TopicLine, Topics};
use super::{purge, screen, stats, token, why};
use gristmill_config::{Manifest, units};
use gristmill_core::job::Name;
use gristmill_core::time::Timestamp;
use gristmill_store::TopicCounts;

/// Show every topic with its handler, limits and jobs, or purge one
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A topic is here because the manifest has it, a component makes it, or the
store has held jobs of it; an unknown topic is only in the store. HANDLER is
what serves, if a server answers; else it is the file in the handlers folder.
OLDEST is how long a ready job has waited, RUN50 and RUN99 how long the middle
one of the latest attempts ran, and all but one of a hundred. STATE says why no
further job is begun, why the version before serves, or which version is
tried on a share of the jobs.

Examples:
  gristmill topics
  gristmill topics --tenant acme
  gristmill topics --server https://jobs.example.org --token-file token
  gristmill topics why resize-image
  gristmill topics purge resize-image --yes")]
pub(super) struct Args {
    /// Only this tenant [default: every tenant of the manifest and of the store, or of the server]
    #[arg(long, value_name = "NAME")]
    tenant: Option<Name>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Purge(purge::Args),
    /// Say why a topic begins no job
    Why(TopicArg),
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    if args.command.is_some() && args.tenant.is_some() {
        return Err(Usage("write --tenant behind `why TOPIC` or `purge TOPIC`".into()).into());
    }
    match args.command {
        Some(Command::Purge(args)) => purge::run(global, args).await,
        Some(Command::Why(topic)) => why::topic(global, topic.id()?).await,
        None => list(global, args.tenant).await,
    }
}

async fn list(global: &Global, tenant: Option<Name>) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    let reached = global.reach_if_any(&manifest).await?;
    let tenants = match (&tenant, &reached) {
        (Some(tenant), _) => vec![tenant.clone()],
        (None, Some(reached)) => stats::tenants_of(global, &manifest, reached).await?,
        (None, None) => stats::tenants(&manifest),
    };
    let topics = Topics::find(global, &manifest, reached.as_ref()).await?;
    let OfTenants { read: lines, missing } = topics.of(&tenants).await?;
    if global.json {
        lines.iter().try_for_each(|line| screen::document(&line.document()))?;
    } else if !lines.is_empty() {
        table(&lines).print()?;
    } else if missing.is_none() {
        note_none(global, &manifest);
        if let Some(reached) = &reached {
            token::note_unknown_tenant(&*reached.store, &manifest, tenant.as_ref()).await;
        }
    }
    MissingTenants::exit(missing)
}

fn note_none(global: &Global, manifest: &Manifest) {
    if global.names_server() {
        return screen::note("the server knows no topic");
    }
    screen::note(&format!(
        "there are no topics: put a component into {} or a section [topics.NAME] into {}",
        manifest.handlers.folder.display(),
        manifest.path.display()
    ));
}

fn table(lines: &[TopicLine]) -> Table {
    // `--json` has the rest.
    let titles =
        ["TOPIC", "HANDLER", ">READY", ">DELAYED", ">RUNNING", ">DEAD", ">OLDEST", ">RUN50", ">RUN99", "STATE"];
    let (mut table, now) = (Table::new(&titles).last_below(), Timestamp::now());
    for line in lines {
        let TopicCounts { ready, delayed, running, dead, .. } = line.seen.counts;
        let mut row = vec![line.name(), line.handler()];
        row.extend([ready, delayed, running, dead].map(units::grouped));
        row.push(line.oldest(now));
        row.extend(line.run_times());
        row.push(line.state());
        table.row(row);
    }
    table
}
