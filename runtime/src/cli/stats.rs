//! `gristmill stats`: how many jobs are where, once or again and again.

use std::time::Duration;

use anyhow::Context;
use tokio::time::{MissedTickBehavior, interval};

use super::exit::Exit;
use super::global::{Global, TopicName};
use super::history;
use super::store::Reached;
use super::table::Table;
use super::{document, screen, token};
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
    let Some(OfTenants { read: counts, missing }) = read(global, &manifest, tenant).await? else {
        return Ok(Exit::Done);
    };
    if global.json {
        counts.iter().try_for_each(|counts| screen::document(&document::counts(counts)))?;
    } else if missing.is_none() || !counts.is_empty() {
        print(&counts)?;
        if counts.is_empty()
            && tenant.is_some()
            && let Some(reached) = global.reach_if_any(&manifest).await?
        {
            token::note_unknown_tenant(&*reached.store, &manifest, tenant).await;
        }
    }
    MissingTenants::exit(missing)
}

/// Reads and shows without end. A store that is unavailable is asked again, and a server can start between two readings.
async fn watch(global: &Global, manifest: &Manifest, tenant: Option<&Name>, every: Duration) -> anyhow::Result<()> {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let OfTenants { read: counts, missing } = match read(global, manifest, tenant).await {
            Err(error) if Exit::of(&error) == Exit::StoreUnavailable => {
                screen::note(&format!("{error:#}"));
                continue;
            }
            read => read?.unwrap_or_default(),
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
        if let Some(missing) = missing {
            screen::note(&format!("{:#}", anyhow::Error::from(missing)));
        }
    }
}

/// `None`: there is no store yet.
async fn read(
    global: &Global,
    manifest: &Manifest,
    tenant: Option<&Name>,
) -> anyhow::Result<Option<OfTenants<TopicCounts>>> {
    let Some(reached) = global.reach_if_any(manifest).await? else { return Ok(None) };
    let tenants = match tenant {
        Some(tenant) => vec![tenant.clone()],
        None => tenants_of(global, manifest, &reached).await?,
    };
    let together = !global.names_server() && manifest.keeps_tenants_together();
    Ok(Some(OfTenants::ask(&tenants, together, async |tenant| reached.store.counts(tenant).await).await?))
}

/// What was read of some tenants.
#[derive(Debug)]
pub(super) struct OfTenants<T> {
    pub(super) read: Vec<T>,
    /// The tenants whose store, of several, is unavailable.
    pub(super) missing: Option<MissingTenants>,
}

/// Tenants of which nothing could be read, and why.
#[derive(Debug, thiserror::Error)]
#[error("failed to read {}", name_tenants(.tenants))]
pub(super) struct MissingTenants {
    tenants: Vec<Name>,
    source: StoreError,
}

impl<T> OfTenants<T> {
    /// Asks about one tenant after the other, and goes on after one whose store is unavailable, unless they have one store `together`: each
    /// would be waited for in vain.
    ///
    /// # Errors
    /// A store refuses, or is unavailable for each of the tenants.
    pub(super) async fn ask<E: Into<anyhow::Error>>(
        tenants: &[Name],
        together: bool,
        mut ask: impl AsyncFnMut(&Name) -> Result<Vec<T>, E>,
    ) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for tenant in tenants {
            match ask(tenant).await {
                Ok(read) => all.read.extend(read),
                Err(error) => {
                    let source = error.into().downcast::<StoreError>()?;
                    anyhow::ensure!(source.is_unavailable() && !together, source);
                    let missing = MissingTenants { tenants: vec![tenant.clone()], source };
                    MissingTenants::add(&mut all.missing, Some(missing));
                }
            }
        }
        match all.missing {
            Some(missing) if missing.tenants.len() == tenants.len() => Err(missing.source.into()),
            _ => Ok(all),
        }
    }

    /// What was read; tenants that are missing are noted.
    #[cfg(feature = "top")]
    pub(super) fn note(self, missing: &mut Option<MissingTenants>) -> Vec<T> {
        MissingTenants::add(missing, self.missing);
        self.read
    }
}

impl<T> Default for OfTenants<T> {
    fn default() -> Self {
        Self { read: Vec::new(), missing: None }
    }
}

impl MissingTenants {
    pub(super) fn add(to: &mut Option<Self>, more: Option<Self>) {
        match (to, more) {
            (_, None) => {}
            (Some(to), Some(more)) => {
                to.tenants.extend(more.tenants);
                to.tenants.sort();
                to.tenants.dedup();
            }
            (to @ None, more) => *to = more,
        }
    }

    pub(super) fn contains(&self, tenant: &Name) -> bool {
        self.tenants.contains(tenant)
    }

    /// How a command ends that has shown the others.
    ///
    /// # Errors
    /// Tenants are missing.
    pub(super) fn exit(missing: Option<Self>) -> anyhow::Result<Exit> {
        missing.map_or(Ok(Exit::Done), |missing| Err(missing.into()))
    }
}

/// At most three by name.
fn name_tenants(tenants: &[Name]) -> String {
    let names: Vec<_> = tenants.iter().take(3).map(|tenant| format!("`{tenant}`")).collect();
    let more = match tenants.len().saturating_sub(names.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("tenant{} {}{more}", if tenants.len() > 1 { "s" } else { "" }, names.join(", "))
}

fn print(counts: &[TopicCounts]) -> anyhow::Result<()> {
    if counts.is_empty() {
        screen::note("no topic has held a job yet");
        return Ok(());
    }
    table(counts).print()
}

/// The tenants of a command that names none: those that the server shows which the options name, else those of the manifest and those whose jobs the store
/// has, which any producer may have pushed. One if the token is of that one.
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
    match reached.store.tenants().await {
        Ok(others) => tenants.extend(others),
        // What is asked of each tenant says which of them are missing.
        Err(error) if error.is_unavailable() => {}
        Err(error) => return Err(error),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// How many tenants of three are asked while the store of the first is unavailable, and whether the others are read.
    async fn asked(together: bool) -> (usize, bool) {
        let tenants = ["a", "b", "c"].map(|tenant| tenant.parse().unwrap());
        let mut asked = 0;
        let read = OfTenants::ask(&tenants, together, async |tenant| {
            asked += 1;
            let source = anyhow::anyhow!("refused");
            if tenant.as_str() != "a" {
                Ok(vec![()])
            } else {
                Err(StoreError::Unavailable { store: "s".into(), source })
            }
        });
        let is_read = read.await.is_ok_and(|of| of.read.len() == 2 && of.missing.is_some());
        (asked, is_read)
    }

    #[tokio::test]
    async fn an_unavailable_store_of_all_tenants_is_asked_once() {
        assert_eq!((asked(true).await, asked(false).await), ((1, false), (3, true)));
    }
}
