//! `gristmill stats`: how many jobs are where, once or again and again.

use std::time::Duration;

use anyhow::Context;
use tokio::time::{MissedTickBehavior, interval};

use super::exit::Exit;
use super::global::{Global, TopicName};
use super::history;
use super::store::Reached;
use super::table::Table;
use super::{document, screen};
use gristmill_config::{Manifest, units};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_store::{Inspect, LimitReached, StoreError, TopicCounts};

/// Show how many jobs are where, by topic
#[derive(Debug, clap::Args)]
#[command(after_help = "\
READY, DELAYED, RUNNING and DEAD are jobs now; what follows was counted since
the store began.

Examples:
  gristmill stats
  gristmill stats --watch --every 5s
  gristmill stats --history --topic resize-image
  gristmill stats --tenant acme --json | jq 'select(.dead > 0)'")]
pub(super) struct Args {
    /// Only this tenant [default: every tenant of the manifest and of the store, or of the server]
    #[arg(long)]
    tenant: Option<Name>,
    /// Show them again and again, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// How often
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = units::duration, requires = "watch")]
    every: Duration,
    /// Show what happened in the last two hours, minute by minute, and in the last 31 days, as the server remembers it
    #[arg(long, conflicts_with = "watch")]
    history: bool,
    /// Only this topic, or tenant/topic, with --history [default: all topics of the tenant together]
    #[arg(long, requires = "history")]
    topic: Option<TopicName>,
}

/// Shorter would only cost the store.
const SHORTEST: Duration = Duration::from_millis(250);

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
    let tenant = args.tenant.as_ref();
    if args.history {
        return history::run(global, &manifest, tenant, args.topic.as_ref()).await;
    }
    if args.watch {
        tokio::select! {
            watched = watch(global, &manifest, tenant, args.every.max(SHORTEST)) => watched?,
            pressed = tokio::signal::ctrl_c() => pressed.context("failed to wait for Ctrl-C")?,
        }
        return Ok(Exit::Done);
    }
    let Some((counts, problem)) = read(global, &manifest, tenant).await? else { return Ok(Exit::Done) };
    if global.json {
        counts.iter().try_for_each(|counts| screen::document(&document::counts(counts)))?;
    } else if problem.is_none() || !counts.is_empty() {
        print(&counts)?;
    }
    problem.map_or(Ok(Exit::Done), |problem| Err(problem.into()))
}

/// Reads and shows without end. A store that is unavailable is asked again, and a server can start between two readings.
async fn watch(global: &Global, manifest: &Manifest, tenant: Option<&Name>, every: Duration) -> anyhow::Result<()> {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (counts, problem) = match read(global, manifest, tenant).await {
            Err(error) if Exit::of(&error) == Exit::StoreUnavailable => {
                screen::note(&format!("{error:#}"));
                continue;
            }
            counts => counts?.unwrap_or_default(),
        };
        let now = Timestamp::now();
        if global.json {
            for counts in &counts {
                let document = document::with(document::counts(counts), [("at_ms", now.as_millis().into())]);
                screen::document(&document)?;
            }
        } else {
            // To the upper left corner, and all below it is blank.
            screen::clear()?;
            screen::line(&now.to_string())?;
            print(&counts)?;
        }
        if let Some(problem) = problem {
            screen::note(&format!("{:#}", anyhow::Error::from(problem)));
        }
    }
}

/// What was counted, and why tenants are missing whose store, of several, is unavailable. `None`: there is no store yet.
type CountsRead = Option<(Vec<TopicCounts>, Option<StoreError>)>;

async fn read(global: &Global, manifest: &Manifest, tenant: Option<&Name>) -> anyhow::Result<CountsRead> {
    let Some(reached) = global.reach_if_any(manifest).await? else { return Ok(None) };
    let tenants = match tenant {
        Some(tenant) => vec![tenant.clone()],
        None => tenants_of(global, manifest, &reached).await?,
    };
    let (mut all, mut problem) = (Vec::new(), None);
    for tenant in &tenants {
        match reached.store.counts(tenant).await {
            Err(error) if error.is_unavailable() => problem = Some(error),
            counts => all.extend(counts?),
        }
    }
    Ok(Some((all, problem)))
}

fn print(counts: &[TopicCounts]) -> anyhow::Result<()> {
    if counts.is_empty() {
        screen::note("no topic has held a job yet");
        return Ok(());
    }
    table(counts).print()
}

/// The tenants of a command that names none: those that the server shows which the options name, else those of the manifest and those whose jobs the store
/// has, which anyone may have pushed. One if the token is of that one.
pub(super) async fn tenants_of(
    global: &Global,
    manifest: &Manifest,
    reached: &Reached,
) -> Result<Vec<Name>, StoreError> {
    let own = match &reached.server {
        Some(server) if global.names_server() => return server.visible_tenants().await,
        Some(server) => server.own_tenant().await?,
        None => None,
    };
    if let Some(own) = own {
        return Ok(vec![own]);
    }
    let mut tenants = manifest.tenants.clone();
    tenants.extend(reached.store.tenants().await?);
    Ok(tenants.into_iter().collect())
}

/// The tenants that the manifest knows; the default one among them.
pub(super) fn tenants(manifest: &Manifest) -> Vec<Name> {
    manifest.tenants.iter().cloned().collect()
}

pub(super) async fn counts(store: &dyn Inspect, tenants: &[Name]) -> Result<Vec<TopicCounts>, StoreError> {
    let mut all = Vec::new();
    for tenant in tenants {
        all.extend(store.counts(tenant).await?);
    }
    Ok(all)
}

/// As a table calls a topic. A limit that is over in a moment is not named.
pub(super) fn name(topic: &TopicId, counts: Option<&TopicCounts>) -> String {
    let limited = counts.and_then(|counts| counts.limited);
    match limited {
        _ if counts.is_some_and(|counts| counts.paused) => format!("{topic} (paused)"),
        Some(LimitReached::FuelPerHour { .. }) => format!("{topic} (fuel-per-hour used up)"),
        Some(LimitReached::JobsPerDay { .. }) => format!("{topic} (jobs-per-day used up)"),
        _ => topic.to_string(),
    }
}

fn table(counts: &[TopicCounts]) -> Table {
    let now = ["TOPIC", ">READY", ">DELAYED", ">RUNNING", ">DEAD"];
    let mut table = Table::new(&now.into_iter().chain(TOTALS.map(|(title, _)| title)).collect::<Vec<_>>());
    for counts in counts {
        let TopicCounts { topic, ready, delayed, running, dead, totals, .. } = counts;
        let mut row = vec![name(topic, Some(counts))];
        row.extend([ready, delayed, running, dead].map(|count| units::grouped(*count)));
        row.extend(TOTALS.map(|(_, name)| units::grouped(totals.get(name).copied().unwrap_or(0))));
        table.row(row);
    }
    table
}
