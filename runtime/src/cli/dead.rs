//! `gristmill dead`: lists, shows, respawns and deletes dead jobs.

use anyhow::bail;
use clap::Subcommand;
use serde_json::json;

use super::exit::Exit;
use super::global::Global;
use super::table::{Table, facts};
use super::{document, job, screen, wait};
use gristmill_core::job::{JobId, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_store::{DeadJob, Inspect, StoreError};

/// Dead jobs are read this many at a time.
const PAGE: usize = 200;

/// List, look at, respawn or delete dead jobs
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill dead list resize-image
  gristmill dead show resize-image 01KAFQ6Y8D2Z0V9X5T3N7M1R4C
  gristmill dead respawn resize-image --all")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List a topic's dead jobs, the latest first
    List {
        /// The topic, or tenant/topic
        topic: TopicId,
        /// Show at most this many
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// Leave out this many of the latest
        #[arg(long, value_name = "N", default_value_t = 0)]
        skip: usize,
    },
    /// Show a dead job with its body, failure and backtrace
    Show {
        /// The topic, or tenant/topic
        topic: TopicId,
        /// The job's id
        id: JobId,
    },
    /// Make dead jobs ready again, with all their attempts before them
    Respawn(Which),
    /// Delete dead jobs for good
    Delete(Which),
}

#[derive(Debug, clap::Args)]
struct Which {
    /// The topic, or tenant/topic
    topic: TopicId,
    /// The jobs' ids
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<JobId>,
    /// All that are dead now
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Respawn,
    Delete,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let store = global.store_alone().await?;
    match args.command {
        Command::List { topic, limit, skip } => list(global, &*store, &topic, skip, limit).await,
        Command::Show { topic, id } => show(global, &*store, &topic, &id).await,
        Command::Respawn(which) => act(global, &*store, &which, Act::Respawn).await,
        Command::Delete(which) => act(global, &*store, &which, Act::Delete).await,
    }
}

async fn list(
    global: &Global,
    store: &dyn Inspect,
    topic: &TopicId,
    skip: usize,
    limit: usize,
) -> anyhow::Result<Exit> {
    let now = Timestamp::now();
    let mut table = Table::new(&["ID", "DIED", ">ATTEMPTS", "REASON", "MESSAGE"]);
    let mut seen = 0;
    while seen < limit {
        let page = store.dead(topic, skip + seen, PAGE.min(limit - seen)).await?;
        if page.is_empty() {
            break;
        }
        seen += page.len();
        for dead in &page {
            if global.json {
                screen::document(&document::dead(dead))?;
            } else {
                table.row(row(dead, now));
            }
        }
    }
    if !global.json && table.is_empty() {
        screen::note(&format!("`{topic}` has no dead jobs"));
    } else if !global.json {
        table.print()?;
    }
    Ok(Exit::Done)
}

fn row(dead: &DeadJob, now: Timestamp) -> [String; 5] {
    let failure = dead.failure.as_ref();
    [
        dead.job.spec.id.to_string(),
        job::distance(dead.since, now),
        dead.attempts.to_string(),
        failure.map(|failure| failure.reason.to_string()).unwrap_or_default(),
        failure.map(|failure| failure.detail.message.replace('\n', " ")).unwrap_or_default(),
    ]
}

async fn show(global: &Global, store: &dyn Inspect, topic: &TopicId, id: &JobId) -> anyhow::Result<Exit> {
    let Some(dead) = find(store, topic, id).await? else { bail!("job {id} is not among the dead of `{topic}`") };
    if global.json {
        screen::document(&document::dead(&dead))?;
        return Ok(Exit::Done);
    }
    let now = Timestamp::now();
    let mut about = vec![
        ("id", id.to_string()),
        ("died", format!("{} ({})", dead.since, job::distance(dead.since, now))),
        ("failure", wait::about(dead.failure.as_ref())),
        ("attempts", dead.attempts.to_string()),
    ];
    if let Some(context) = dead.failure.as_ref().and_then(|failure| failure.detail.context.as_ref()) {
        about.push(("context", job::about_payload(context)));
    }
    about.extend(job::about_job(&dead.job, now));
    screen::line(&facts(&about))?;
    Ok(Exit::Done)
}

async fn find(store: &dyn Inspect, topic: &TopicId, id: &JobId) -> Result<Option<DeadJob>, StoreError> {
    let mut skip = 0;
    loop {
        let page = store.dead(topic, skip, PAGE).await?;
        if page.is_empty() {
            return Ok(None);
        }
        skip += page.len();
        if let Some(dead) = page.into_iter().find(|dead| dead.job.spec.id == *id) {
            return Ok(Some(dead));
        }
    }
}

async fn act(global: &Global, store: &dyn Inspect, which: &Which, act: Act) -> anyhow::Result<Exit> {
    let Which { topic, ids, all } = which;
    // All of them first: what is respawned may be dead again before the last is reached.
    let ids = if *all { everyone(store, topic).await? } else { ids.clone() };
    let mut done = 0;
    for chunk in ids.chunks(PAGE) {
        let were_dead = match act {
            Act::Respawn => store.respawn(topic, chunk).await?,
            Act::Delete => store.delete_dead(topic, chunk).await?,
        };
        done += were_dead.iter().filter(|was_dead| **was_dead).count();
        for (id, was_dead) in chunk.iter().zip(were_dead) {
            show_change(global, topic, id, act, was_dead, *all)?;
        }
    }
    if !global.json {
        let jobs = if done == 1 { "job" } else { "jobs" };
        screen::line(&format!("{} {done} {jobs} of `{topic}`", act.past()))?;
    }
    // With --all, a job that another process changed first is no failure.
    Ok(if *all || done == ids.len() { Exit::Done } else { Exit::Failed })
}

async fn everyone(store: &dyn Inspect, topic: &TopicId) -> Result<Vec<JobId>, StoreError> {
    let mut ids = Vec::new();
    loop {
        let page = store.dead(topic, ids.len(), PAGE).await?;
        if page.is_empty() {
            return Ok(ids);
        }
        ids.extend(page.into_iter().map(|dead| dead.job.spec.id));
    }
}

fn show_change(
    global: &Global,
    topic: &TopicId,
    id: &JobId,
    act: Act,
    was_dead: bool,
    all: bool,
) -> anyhow::Result<()> {
    if global.json {
        let status = if was_dead { act.past() } else { "not-dead" };
        return screen::document(&json!({ "id": id.as_str(), "topic": topic.to_string(), "status": status }));
    }
    if !was_dead && !all {
        screen::note(&format!("job {id} is not among the dead of `{topic}`"));
    }
    Ok(())
}

impl Act {
    const fn past(self) -> &'static str {
        match self {
            Self::Respawn => "respawned",
            Self::Delete => "deleted",
        }
    }
}
