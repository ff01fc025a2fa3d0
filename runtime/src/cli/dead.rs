//! `gristmill dead`: lists, groups, shows, respawns and deletes dead jobs.

use anyhow::bail;
use clap::Subcommand;
use serde_json::json;

use super::exit::{Exit, Usage};
use super::find::{self, Finder};
use super::global::Global;
use super::table::{Table, facts};
use super::{document, job, screen, wait};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_store::{DeadJob, Inspect, JobState, JobView, StoreError};

/// Dead jobs are read this many at a time.
const PAGE: usize = 200;

/// List, group, look at, respawn or delete dead jobs
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill dead list resize-image
  gristmill dead groups
  gristmill dead show resize-image 01KAFQ6Y8D2Z0V9X5T3N7M1R4C
  gristmill dead respawn resize-image --query 'reason:timeout died<1h'
  gristmill dead respawn resize-image --all")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List a topic's dead jobs, the latest first
    #[command(after_help = find::LANGUAGE)]
    List {
        /// The topic, or tenant/topic
        topic: TopicId,
        /// Only the jobs that fit these conditions, such as 'reason:timeout died<1h'
        query: Vec<String>,
        /// Show at most this many
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// Leave out this many of the latest
        #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "query")]
        skip: usize,
    },
    /// Group dead jobs by what killed them, the largest group first
    ///
    /// Jobs of one group have the same topic, reason, code and message, numbers and ids aside. QUERY chooses them.
    #[command(after_help = find::LANGUAGE)]
    Groups {
        /// Only the jobs that fit these conditions, such as 'topic:mail* died<1h'
        query: Vec<String>,
        /// Whose jobs they are
        #[arg(long, default_value = gristmill_core::job::DEFAULT_TENANT)]
        tenant: Name,
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
    #[arg(required_unless_present_any = ["all", "query"], conflicts_with_all = ["all", "query"])]
    ids: Vec<JobId>,
    /// All that are dead now
    #[arg(long, conflicts_with = "query")]
    all: bool,
    /// All that are dead now and fit these conditions, such as 'reason:timeout died<1h'
    #[arg(long, value_name = "QUERY")]
    query: Option<String>,
}

/// What is done to dead jobs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    Respawn,
    Delete,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    match args.command {
        Command::List { topic, query, limit, skip } if query.is_empty() => {
            list(global, &*global.store_alone().await?, &topic, skip, limit).await
        }
        Command::List { topic, query, limit, .. } => search(global, &topic, &query.join(" "), limit).await,
        Command::Groups { query, tenant } => groups(global, tenant, query.join(" ")).await,
        Command::Show { topic, id } => show(global, &*global.store_alone().await?, &topic, &id).await,
        Command::Respawn(which) => act(global, &which, Act::Respawn).await,
        Command::Delete(which) => act(global, &which, Act::Delete).await,
    }
}

const COLUMNS: [&str; 5] = ["ID", "DIED", ">ATTEMPTS", "REASON", "MESSAGE"];

/// Lists those that fit a query.
async fn search(global: &Global, topic: &TopicId, query: &str, limit: usize) -> anyhow::Result<Exit> {
    let finder = Finder::new(global, topic.tenant.clone(), find::dead_of(topic, query)).await?;
    let (mut table, now) = (Table::new(&COLUMNS), Timestamp::now());
    let searched = finder
        .jobs(limit, |view| {
            let JobView { state: JobState::Dead { since }, job: Some(job), attempts, last_failure: failure, .. } = view
            else {
                return Ok(());
            };
            let dead = DeadJob { job, since, attempts, failure };
            if global.json {
                return screen::document(&document::dead(&dead));
            }
            table.row(row(&dead, now));
            Ok(())
        })
        .await?;
    if !global.json {
        if !table.is_empty() {
            table.print()?;
        }
        searched.note();
    }
    Ok(Exit::Done)
}

async fn groups(global: &Global, tenant: Name, query: String) -> anyhow::Result<Exit> {
    let groups = Finder::new(global, tenant, query).await?.dead_groups().await?;
    if global.json {
        groups.iter().try_for_each(|group| screen::document(&serde_json::to_value(group)?))?;
        return Ok(Exit::Done);
    }
    let (mut table, now) =
        (Table::new(&[">JOBS", "TOPIC", "REASON", "CODE", "LAST", "QUERY", "MESSAGE"]), Timestamp::now());
    for group in &groups {
        table.row([
            group.count.to_string(),
            group.topic.topic.to_string(),
            group.reason.map(|reason| reason.to_string()).unwrap_or_default(),
            group.code.clone(),
            job::distance(group.last, now),
            group.q.split(' ').next_back().unwrap_or_default().to_owned(),
            group.message.clone(),
        ]);
    }
    if groups.is_empty() {
        screen::note("no job is dead, or none fits");
    } else {
        table.print()?;
    }
    Ok(Exit::Done)
}

async fn list(
    global: &Global,
    store: &dyn Inspect,
    topic: &TopicId,
    skip: usize,
    limit: usize,
) -> anyhow::Result<Exit> {
    let now = Timestamp::now();
    let mut table = Table::new(&COLUMNS);
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
    let context = dead.failure.as_ref().and_then(|failure| failure.detail.context.as_ref());
    if let Some(context) = context.filter(|context| !wait::is_text(context)) {
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

async fn act(global: &Global, which: &Which, act: Act) -> anyhow::Result<Exit> {
    let Which { topic, ids, all, query } = which;
    // All of them first: what is respawned may be dead again before the last is reached.
    let found = match query {
        Some(query) => Some(chosen(global, topic, query).await?),
        None => None,
    };
    let store = global.store_alone().await?;
    let ids = match found {
        Some(found) => found,
        None if *all => everyone(&*store, topic).await?,
        None => ids.clone(),
    };
    let all = *all || query.is_some();
    let show = |id: &JobId, was_dead: bool| show_change(global, topic, id, act, was_dead, all);
    let done = act_on(&*store, topic, &ids, act, show).await?;
    if !global.json {
        let jobs = if done == 1 { "job" } else { "jobs" };
        screen::line(&format!("{} {done} {jobs} of `{topic}`", act.past()))?;
    }
    // With --all and --query, a job that another process changed first is no failure.
    Ok(if all || done == ids.len() { Exit::Done } else { Exit::Failed })
}

/// Does it to dead jobs, and calls `each` with every id and whether it was dead. Returns how many were.
pub(super) async fn act_on(
    store: &dyn Inspect,
    topic: &TopicId,
    ids: &[JobId],
    act: Act,
    each: impl Fn(&JobId, bool) -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let mut done = 0;
    for chunk in ids.chunks(PAGE) {
        let were_dead = match act {
            Act::Respawn => store.respawn(topic, chunk).await?,
            Act::Delete => store.delete_dead(topic, chunk).await?,
        };
        done += were_dead.iter().filter(|was_dead| **was_dead).count();
        chunk.iter().zip(were_dead).try_for_each(|(id, was_dead)| each(id, was_dead))?;
    }
    Ok(done)
}

/// Those that fit a query.
async fn chosen(global: &Global, topic: &TopicId, query: &str) -> anyhow::Result<Vec<JobId>> {
    if !find::parse(query)?.is_selective() {
        return Err(
            Usage("--query has no condition besides topics and states: say --all for all dead jobs".into()).into()
        );
    }
    let finder = Finder::new(global, topic.tenant.clone(), find::dead_of(topic, query)).await?;
    finder.ids().await
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
    pub(super) const fn past(self) -> &'static str {
        match self {
            Self::Respawn => "respawned",
            Self::Delete => "deleted",
        }
    }
}
