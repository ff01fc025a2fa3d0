//! `gristmill stats`: how many jobs are where.

use super::exit::Exit;
use super::global::Global;
use super::store::Reached;
use super::table::Table;
use super::{document, screen};
use gristmill_config::Manifest;
use gristmill_core::job::{DEFAULT_TENANT, Name, TopicId};
use gristmill_store::{Inspect, StoreError, TopicCounts};

/// Show how many jobs are where, by topic
#[derive(Debug, clap::Args)]
#[command(after_help = "\
READY, DELAYED, RUNNING and DEAD are jobs now; what follows was counted since
the store began.

Examples:
  gristmill stats
  gristmill stats --tenant acme --json | jq 'select(.dead > 0)'")]
pub(super) struct Args {
    /// Only this tenant [default: every tenant of the manifest, or of the server]
    #[arg(long)]
    tenant: Option<Name>,
}

/// What is counted, as the table calls it and as the store does.
const TOTALS: [(&str, &str); 5] = [
    (">PUSHED", "pushed"),
    (">ACKED", "acked"),
    (">RETRIED", "retried"),
    (">SNOOZED", "snoozed"),
    (">EXPIRED", "expired"),
];

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    let reached = global.reach_if_any(&manifest).await?;
    let counts = match &reached {
        Some(reached) => {
            let tenants = match args.tenant {
                Some(tenant) => vec![tenant],
                None => tenants_of(global, &manifest, reached).await?,
            };
            counts(&*reached.store, &tenants).await?
        }
        None => Vec::new(),
    };
    if global.json {
        counts.iter().try_for_each(|counts| screen::document(&document::counts(counts)))?;
    } else if counts.is_empty() {
        if reached.is_some() {
            screen::note("no topic has held a job yet");
        }
    } else {
        table(&counts).print()?;
    }
    Ok(Exit::Done)
}

/// The tenants of a command that names none: those that the server shows which the options name, else those of the manifest.
pub(super) async fn tenants_of(
    global: &Global,
    manifest: &Manifest,
    reached: &Reached,
) -> Result<Vec<Name>, StoreError> {
    match &reached.server {
        Some(server) if global.names_server() => server.visible_tenants().await,
        _ => Ok(tenants(manifest)),
    }
}

/// The tenants that the manifest knows; the default one among them.
pub(super) fn tenants(manifest: &Manifest) -> Vec<Name> {
    let mut tenants: Vec<Name> = DEFAULT_TENANT.parse().into_iter().collect();
    tenants.extend(manifest.topics.keys().map(|id| id.tenant.clone()));
    tenants.sort();
    tenants.dedup();
    tenants
}

pub(super) async fn counts(store: &dyn Inspect, tenants: &[Name]) -> Result<Vec<TopicCounts>, StoreError> {
    let mut all = Vec::new();
    for tenant in tenants {
        all.extend(store.counts(tenant).await?);
    }
    Ok(all)
}

/// As a table calls a topic.
pub(super) fn name(topic: &TopicId, paused: bool) -> String {
    if paused { format!("{topic} (paused)") } else { topic.to_string() }
}

fn table(counts: &[TopicCounts]) -> Table {
    let now = ["TOPIC", ">READY", ">DELAYED", ">RUNNING", ">DEAD"];
    let mut table = Table::new(&now.into_iter().chain(TOTALS.map(|(title, _)| title)).collect::<Vec<_>>());
    for TopicCounts { topic, ready, delayed, running, dead, paused, totals, .. } in counts {
        let mut row = vec![name(topic, *paused)];
        row.extend([ready, delayed, running, dead].map(u64::to_string));
        row.extend(TOTALS.map(|(_, name)| totals.get(name).copied().unwrap_or(0).to_string()));
        table.row(row);
    }
    table
}
