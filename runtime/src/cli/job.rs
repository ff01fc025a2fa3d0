//! `gristmill job`: lists jobs, shows one, says why it is not running, draws what waits for what, and cancels or changes jobs.

use std::time::Duration;

use anyhow::bail;
use clap::{ArgGroup, Subcommand};
use serde_json::json;

use super::exit::{Exit, Usage};
use super::global::Global;
use super::table::facts;
use super::{describe, document, find, push, tree, why};
use gristmill_config::units;
use gristmill_core::admission::check_due;
use gristmill_core::job::{Due, JobChange, JobId, Name, Priority};
use gristmill_core::time::Timestamp;
use gristmill_runner::why::{IN_NO_PLACE, is_in_no_place};
use gristmill_store::{BatchSealed, Cancelled, Inspect, JobChanged, Produce, StoreError, look_up};

/// List jobs, look at one, change or cancel some
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill job list 'topic:mail* state:dead reason:timeout age>1h'
  gristmill job show 01KAFQ6Y8D2Z0V9X5T3N7M1R4C
  gristmill job why 01KAFQ6Y8D2Z0V9X5T3N7M1R4C
  gristmill job graph 01KAFQ6Y8D2Z0V9X5T3N7M1R4C
  gristmill job seal 01KAFQ6Y8D2Z0V9X5T3N7M1R4C
  gristmill job change 01KAFQ6Y8D2Z0V9X5T3N7M1R4C --now --priority high
  gristmill job cancel 01KAFQ6Y8D2Z0V9X5T3N7M1R4C --tenant acme
  gristmill job cancel --kill 01KAFQ6Y8D2Z0V9X5T3N7M1R4C")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(find::Args),
    /// Show where a job is, what it holds, and what became of it
    ///
    /// How and when a job ended is remembered for an hour, or as long as its topic's `ended-retention` says, of the last thousand jobs of a
    /// topic; its result as long as it is kept.
    Show {
        /// The job's id, as `push` printed it
        id: JobId,
        /// Whose job it is
        #[arg(long, default_value = gristmill_core::job::DEFAULT_TENANT)]
        tenant: Name,
    },
    /// Say why a job is not running
    ///
    /// Paused, no handler, not due, behind others: in one sentence, and with --json as data.
    Why {
        /// The job's id, as `push` printed it
        id: JobId,
        /// Whose job it is
        #[arg(long, default_value = gristmill_core::job::DEFAULT_TENANT)]
        tenant: Name,
    },
    /// Show the jobs that wait for each other, around one of them
    ///
    /// What it waits for, what these wait for, and so on, each indented below the job that waits for it; then what waits for it.
    Graph {
        /// The job's id
        id: JobId,
        /// At most this many steps away from the job
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(..=1000))]
        depth: u16,
        /// Show at most this many jobs
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
        /// Whose job it is
        #[arg(long, default_value = gristmill_core::job::DEFAULT_TENANT)]
        tenant: Name,
    },
    /// Seal a batch: it gets no more members, and starts once all that it has have ended
    ///
    /// Exit code 1 if the job is no batch that waits.
    Seal {
        /// The batch's id
        id: JobId,
        /// Whose job it is
        #[arg(long, default_value = gristmill_core::job::DEFAULT_TENANT)]
        tenant: Name,
    },
    /// Change when waiting jobs are due, or their priority
    ///
    /// `--now` runs a job as soon as a runner is free, also one that waits for its next attempt. Limits and rates hold as ever, and a job that
    /// waits for other jobs goes on waiting for them. Exit code 1 if a job was running, dead, over or unknown.
    #[command(group = ArgGroup::new("change").required(true).multiple(true))]
    Change {
        /// The jobs' ids
        #[arg(required = true)]
        ids: Vec<JobId>,
        /// Make them due now
        #[arg(long, group = "change", conflicts_with_all = ["delay", "at"])]
        now: bool,
        /// Make them due after this long, such as 30s or 2h
        #[arg(long, group = "change", value_name = "DURATION", value_parser = units::duration)]
        delay: Option<Duration>,
        /// Make them due at this time, such as 2026-11-20T18:00:00+01:00
        #[arg(long, group = "change", value_name = "TIME", value_parser = Timestamp::parse, conflicts_with = "delay")]
        at: Option<Timestamp>,
        /// Give them this priority
        #[arg(long, group = "change", value_name = "PRIORITY", value_parser = push::priority())]
        priority: Option<Priority>,
        /// Whose jobs they are
        #[arg(long, default_value = gristmill_core::job::DEFAULT_TENANT)]
        tenant: Name,
    },
    /// Cancel jobs: waiting ones are gone at once, running ones are marked
    ///
    /// A running job's handler can see that it is no longer wanted, and its deadline stops it, or with --kill its runner does so at
    /// once. It is gone with the attempt, unless the handler completes it. Exit code 1 if a job was dead, over or unknown.
    Cancel {
        /// The jobs' ids
        #[arg(required = true)]
        ids: Vec<JobId>,
        /// Also cancel the jobs that wait for these, those that wait for them, and so on, and members of batches; says how many
        #[arg(long)]
        tree: bool,
        /// End the attempts at running jobs now, on whichever runner they are. A native handler ends where it awaits something
        #[arg(long)]
        kill: bool,
        /// Whose jobs they are
        #[arg(long, default_value = gristmill_core::job::DEFAULT_TENANT)]
        tenant: Name,
    },
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    match args.command {
        Command::List(args) => find::list(global, args).await,
        Command::Show { id, tenant } => show(global, &*global.store_alone().await?, &tenant, &id).await,
        Command::Graph { id, depth, limit, tenant } => tree::graph(global, &tenant, &id, depth, limit).await,
        Command::Why { id, tenant } => why::job(global, &tenant, &id).await,
        Command::Seal { id, tenant } => seal(global, &*global.store_alone().await?, &tenant, &id).await,
        Command::Change { ids, now, delay, at, priority, tenant } => {
            let due = at.map(Due::At).or(delay.map(Due::After)).or(now.then_some(Due::Now));
            due.map_or(Ok(()), check_due).map_err(|refused| Usage(refused.to_string()))?;
            change(global, &*global.store_alone().await?, &tenant, &ids, &JobChange { due, priority }).await
        }
        Command::Cancel { ids, tree, kill, tenant } => {
            if tree {
                return tree::cancel(global, &tenant, &ids, kill).await;
            }
            cancel(global, &*global.store_alone().await?, &tenant, &ids, kill).await
        }
    }
}

async fn show(global: &Global, store: &dyn Inspect, tenant: &Name, id: &JobId) -> anyhow::Result<Exit> {
    let Some(view) = look_up(store, tenant, id).await? else {
        bail!("job {id} is not known to tenant `{tenant}`: {}", describe::UNKNOWN);
    };
    let mut about = describe::view(&view, Timestamp::now());
    if !global.json && is_in_no_place(store, tenant, &view).await.unwrap_or_default() {
        let state = about.iter_mut().filter(|(name, _)| *name == "state");
        state.for_each(|(_, text)| *text = format!("ready: {IN_NO_PLACE}"));
    }
    global.say(&document::view(&view), true, &facts(&about))?;
    Ok(Exit::Done)
}

async fn seal(global: &Global, store: &dyn Produce, tenant: &Name, id: &JobId) -> anyhow::Result<Exit> {
    let sealed = store.seal(tenant, id).await?;
    let words = match sealed {
        BatchSealed::Sealed => "is sealed".to_owned(),
        BatchSealed::Before => "was sealed before: nothing was changed".to_owned(),
        BatchSealed::NotWaiting => match look_up(store, tenant, id).await {
            Ok(Some(view)) => format!("is {}, and no batch that waits: nothing was changed", view.state.as_str()),
            Ok(None) => format!("is not known to tenant `{tenant}`: {}", describe::UNKNOWN),
            // A token that may push, and not read.
            Err(StoreError::Refused { .. }) => "is no batch that waits: nothing was changed".to_owned(),
            Err(error) => return Err(error.into()),
        },
    };
    let document = json!({ "id": id.as_str(), "tenant": tenant.as_str(), "status": sealed });
    let waits = sealed != BatchSealed::NotWaiting;
    global.say(&document, waits, &format!("job {id} {words}"))?;
    Ok(if waits { Exit::Done } else { Exit::Failed })
}

async fn change(
    global: &Global,
    store: &dyn Inspect,
    tenant: &Name,
    ids: &[JobId],
    change: &JobChange,
) -> anyhow::Result<Exit> {
    let changed = store.change(tenant, ids, change).await?;
    for (id, changed) in ids.iter().zip(&changed) {
        let words = match changed {
            JobChanged::Changed => "is changed",
            JobChanged::Unchanged => "was so before: nothing was changed",
            JobChanged::TooLate => "is running, dead, over or unknown: nothing was changed",
        };
        let document = json!({ "id": id.as_str(), "tenant": tenant.as_str(), "status": changed });
        global.say(&document, *changed != JobChanged::TooLate, &format!("job {id} {words}"))?;
    }
    Ok(if changed.contains(&JobChanged::TooLate) { Exit::Failed } else { Exit::Done })
}

async fn cancel(
    global: &Global,
    store: &dyn Inspect,
    tenant: &Name,
    ids: &[JobId],
    kill: bool,
) -> anyhow::Result<Exit> {
    let cancelled = if kill { store.kill(tenant, ids).await? } else { store.cancel(tenant, ids).await? };
    for (id, cancelled) in ids.iter().zip(&cancelled) {
        let (status, words) = match cancelled {
            Cancelled::Gone => ("cancelled", "cancelled"),
            Cancelled::Stopping if kill => ("stopping", "running: its runner ends the attempt now"),
            Cancelled::Stopping => ("stopping", "running: its handler can see it, and its deadline stops it"),
            Cancelled::TooLate => ("too-late", "dead, over or unknown: nothing was changed"),
        };
        let document = json!({ "id": id.as_str(), "tenant": tenant.as_str(), "status": status });
        global.say(&document, *cancelled != Cancelled::TooLate, &format!("job {id} is {words}"))?;
    }
    Ok(if cancelled.contains(&Cancelled::TooLate) { Exit::Failed } else { Exit::Done })
}
