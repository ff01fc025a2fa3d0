//! `gristmill store copy`: everything that waits or is dead, from one store into another.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Subcommand;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::exit::{Exit, Usage};
use super::global::Global;
use super::screen;
use crate::open::{self as store, Layout, Opened};
use gristmill_config::{StoreAddress, StoreSettings};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_store::{Imported, StoreError, StoredJob, StoredPlace, Transfer};

/// Jobs that are moved in one go.
const BATCH: usize = 200;
/// How often people are told how far it is.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// Move jobs from one store to another
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  gristmill store copy --from sqlite:gristmill.db --to redis://127.0.0.1:6379/0")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Move every waiting, delayed and dead job; interrupted, run it again: nothing is lost or doubled
    ///
    /// Each topic is paused in the old store while its jobs are moved. Running jobs stay where they are, and so do results
    /// and totals. A SQLite file must have no server meanwhile; relative paths are relative to the working directory.
    Copy(CopyArgs),
}

#[derive(Debug, clap::Args)]
struct CopyArgs {
    /// The store to move jobs out of
    #[arg(long, value_name = "URL")]
    from: String,
    /// The store to move them into
    #[arg(long, value_name = "URL")]
    to: String,
    /// Only this tenant's jobs; may be repeated [default: every tenant's]
    #[arg(long)]
    tenant: Vec<Name>,
    /// Leave the topics paused in the old store, so that no runner there takes what is still pushed to it
    #[arg(long)]
    keep_paused: bool,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let Command::Copy(args) = args.command;
    let (from, to) = settings(global, &args)?;
    let (from, to) = (open(&from).await?.store, open(&to).await?.store);
    let tenants = if args.tenant.is_empty() { from.tenants().await? } else { args.tenant };
    let mut moved = 0;
    for tenant in &tenants {
        for counts in from.counts(tenant).await? {
            let topic = Moving { from: &*from, to: &*to, topic: &counts.topic, quiet: global.json || global.quiet };
            let told = topic.run(args.keep_paused).await.with_context(|| topic.stays_paused())?;
            moved += told.moved();
            if global.json {
                screen::document(&told.document())?;
            } else {
                screen::line(&told.in_words())?;
            }
        }
    }
    if !global.json {
        screen::line(&format!("moved {moved} {}", if moved == 1 { "job" } else { "jobs" }))?;
    }
    Ok(Exit::Done)
}

fn settings(global: &Global, args: &CopyArgs) -> anyhow::Result<(StoreSettings, StoreSettings)> {
    let store = global.manifest_without_secrets()?.store;
    let read = |option: &str, text: &str| {
        let address = StoreAddress::parse(text, Path::new(""));
        let address = address.map_err(|bad| Usage(format!("{option} is no address of a store: {bad}")))?;
        if address == StoreAddress::Memory {
            return Err(Usage(format!("{option}: {address} is gone with its process, so there is nothing to copy")));
        }
        Ok(StoreSettings { address, ..store.clone() })
    };
    let (from, to) = (read("--from", &args.from)?, read("--to", &args.to)?);
    if from.address == to.address {
        return Err(Usage("--from and --to are the same store".into()).into());
    }
    if let StoreAddress::File(path) = &from.address {
        ensure!(path.exists(), "there is no store at {}", path.display());
    }
    Ok((from, to))
}

async fn open(settings: &StoreSettings) -> anyhow::Result<Opened> {
    let opened = store::open(&Layout::alone(settings.clone())).await;
    let owned = matches!(opened, Err(StoreError::Owned { .. }));
    opened.with_context(|| {
        let first = if owned { "; end its server first, copying needs it alone" } else { "" };
        format!("failed to open {}{first}", settings.address)
    })
}

/// One topic on its way.
struct Moving<'a> {
    from: &'a dyn Transfer,
    to: &'a dyn Transfer,
    topic: &'a TopicId,
    quiet: bool,
}

/// What became of it.
#[derive(Debug, Default)]
struct Told {
    topic: String,
    tenant: String,
    ready: u64,
    delayed: u64,
    dead: u64,
    /// Were taken in by an earlier, interrupted copy.
    known: u64,
    /// Began to run while they were moved: they are in both stores.
    slipped: u64,
    running: u64,
    /// Cannot be read, and the new store cannot keep their form: each with why.
    unreadable: BTreeMap<JobId, String>,
    paused: bool,
}

impl Moving<'_> {
    async fn run(&self, keep_paused: bool) -> anyhow::Result<Told> {
        // Who paused it before, or an interrupted copy, wants it to stay so.
        let paused_by_us = self.from.set_paused(self.topic, true).await?;
        let mut told = Told {
            topic: self.topic.to_string(),
            tenant: self.topic.tenant.to_string(),
            paused: true,
            ..Told::default()
        };
        let mut last_told = Instant::now();
        loop {
            let mut batch = self.from.export(self.topic, BATCH + told.unreadable.len()).await?;
            batch.retain(|stored| !told.unreadable.contains_key(&stored.job.spec.id));
            if batch.is_empty() {
                break;
            }
            self.batch(&batch, &mut told).await?;
            if !self.quiet && last_told.elapsed() >= TELL_EVERY {
                screen::note(&format!("{}: {} moved", self.topic, told.moved()));
                last_told = Instant::now();
            }
        }
        if paused_by_us && !keep_paused {
            self.from.set_paused(self.topic, false).await?;
            told.paused = false;
        }
        told.running = self.running().await?;
        Ok(told)
    }

    fn stays_paused(&self) -> String {
        let topic = self.topic;
        format!("`{topic}` stays paused in the old store; run this again, or `gristmill resume {topic}` there")
    }

    /// The order is what makes it safe to be interrupted; see [`Transfer`].
    async fn batch(&self, batch: &[StoredJob], told: &mut Told) -> anyhow::Result<()> {
        let id = |stored: &StoredJob| stored.job.spec.id.clone();
        let taken_in = self.to.import(batch).await?;
        let (unreadable, readable): (Vec<_>, Vec<_>) =
            batch.iter().zip(taken_in).partition(|(_, taken_in)| *taken_in == Imported::Unreadable);
        for (stored, _) in &unreadable {
            let problem = stored.sealed.as_ref().map(|sealed| sealed.problem.clone());
            told.unreadable.insert(id(stored), problem.unwrap_or_default());
        }
        let (refused, moved): (Vec<_>, Vec<_>) =
            readable.into_iter().partition(|(_, taken_in)| *taken_in == Imported::IdTaken);
        let ids: Vec<JobId> = moved.iter().map(|(stored, _)| id(stored)).collect();
        let removed = self.from.remove_exported(self.topic, &ids).await?;
        self.to.clear_move_marks(&self.topic.tenant, &ids).await?;
        for ((stored, taken_in), removed) in moved.into_iter().zip(&removed) {
            told.count(stored, taken_in == Imported::Stored, *removed);
        }
        if let Some((first, _)) = refused.first() {
            bail!(
                "{} jobs of `{}` stay in the old store, {} first: the new one has other jobs by their ids, or it is the \
                 same store by another address. If it is not, cancel or delete one of each two, and run this again",
                refused.len(),
                self.topic,
                id(first)
            );
        }
        ensure!(
            removed.contains(&true) || !unreadable.is_empty(),
            "none of {} jobs of `{}` could be let go: is somebody else at work on them?",
            ids.len(),
            self.topic
        );
        Ok(())
    }

    async fn running(&self) -> Result<u64, StoreError> {
        let counts = self.from.counts(&self.topic.tenant).await?;
        Ok(counts.iter().find(|counts| counts.topic == *self.topic).map_or(0, |counts| counts.running))
    }
}

impl Told {
    fn count(&mut self, stored: &StoredJob, taken_in: bool, removed: bool) {
        self.known += u64::from(!taken_in);
        self.slipped += u64::from(!removed);
        *match stored.place {
            StoredPlace::Ready => &mut self.ready,
            StoredPlace::Delayed { .. } => &mut self.delayed,
            StoredPlace::Dead { .. } => &mut self.dead,
        } += 1;
    }

    const fn moved(&self) -> u64 {
        self.ready + self.delayed + self.dead
    }

    fn in_words(&self) -> String {
        let Self { topic, ready, delayed, dead, known, slipped, running, unreadable, paused, .. } = self;
        let mut words = format!("{topic}: moved {ready} ready, {delayed} delayed, {dead} dead");
        let mut add = |count: u64, what: &str| {
            if count > 0 {
                words.push_str(&format!("; {count} {what}"));
            }
        };
        add(*known, "of them were there already");
        add(*slipped, "began to run meanwhile, and are in both");
        add(*running, "still running stay in the old store: run this again when they have ended");
        if let Some((id, problem)) = unreadable.first_key_value() {
            words.push_str(&format!(
                "; {} that cannot be read stay in the old store, {id} first ({problem}): a store of another kind cannot \
                 keep them",
                unreadable.len()
            ));
        }
        if *paused {
            words.push_str(&format!("; paused in the old store until `gristmill resume {topic}`"));
        }
        words
    }

    fn document(&self) -> Value {
        let topic = self.topic.split_once('/').map_or(&*self.topic, |(_, topic)| topic);
        json!({
            "tenant": self.tenant,
            "topic": topic,
            "ready": self.ready,
            "delayed": self.delayed,
            "dead": self.dead,
            "known": self.known,
            "in_both": self.slipped,
            "running_left": self.running,
            "unreadable_left": self.unreadable.len(),
            "paused": self.paused,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_behind_is_said() {
        let told = Told { topic: "echo".into(), ready: 2, running: 1, paused: true, ..Told::default() };
        let words = told.in_words();
        assert!(words.starts_with("echo: moved 2 ready, 0 delayed, 0 dead; 1 still running stay"), "{words}");
        assert!(words.ends_with("`gristmill resume echo`") && !words.contains("both"), "{words}");
        assert_eq!(Told { topic: "acme/a".into(), ..Told::default() }.document()["topic"], "a");
    }
}
