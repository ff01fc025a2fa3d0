//! `gristmill dead`: lists, groups, shows, respawns and deletes dead jobs.

use anyhow::bail;
use clap::Subcommand;
use serde_json::json;

use super::exit::{Exit, Usage};
use super::find::{self, Finder, Listing};
use super::global::{Global, TopicArg, TopicName};
use super::table::facts;
use super::{bulk, describe, document, known, screen};
use gristmill_config::units;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::outcome::Reason;
use gristmill_core::time::Timestamp;
use gristmill_runner::why::unique_holder;
use gristmill_server::{BulkState, NewBulk};
use gristmill_store::{Inspect, JobAction, JobState, StoreError, WaitsFor, look_up};

/// Dead jobs are changed this many at a time.
const PAGE: usize = 200;

/// List, group, look at, respawn or delete dead jobs
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill dead list resize-image
  gristmill dead list 'reason:timeout died<1h' --columns id,topic,code
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
    /// List dead jobs, of each topic the latest first
    ///
    /// It is `job list` of dead jobs, with the same query, columns and groups.
    #[command(after_help = find::LANGUAGE)]
    List {
        /// The topic, or tenant/topic, if it is only one; and conditions, such as 'reason:timeout died<1h'
        query: Vec<String>,
        #[command(flatten)]
        listing: Listing,
    },
    /// Group dead jobs by what killed them, the largest group first
    ///
    /// Jobs of one group have the same topic, reason, code and message, numbers and ids aside. QUERY chooses them.
    #[command(after_help = find::LANGUAGE)]
    Groups {
        /// Only the jobs that fit these conditions, such as 'topic:mail* died<1h'
        query: Vec<String>,
        /// Whose jobs they are [default: default]
        #[arg(long, value_name = "NAME")]
        tenant: Option<Name>,
    },
    /// Show a dead job with its body, failure and backtrace
    Show {
        #[command(flatten)]
        topic: TopicArg,
        /// The job's id
        id: JobId,
    },
    /// Make dead jobs ready again, with all their attempts before them
    ///
    /// With --all and --query a server does it step by step, if one answers.
    Respawn(Which),
    /// Delete dead jobs for good
    ///
    /// With --all and --query it counts them and asks; then a server does it step by step, if one answers.
    Delete {
        #[command(flatten)]
        which: Which,
        /// With --all and --query: do it without asking
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Which {
    #[command(flatten)]
    topic: TopicArg,
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

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    match args.command {
        Command::List { query, listing } => list(global, query, listing).await,
        Command::Groups { query, tenant } => {
            Listing::groups(tenant).show(global, query.join(" "), &[]).await?;
            Ok(Exit::Done)
        }
        Command::Show { topic, id } => show(global, &*global.store_alone().await?, &topic.id()?, &id).await,
        Command::Respawn(which) => act(global, &which, JobAction::Respawn, false).await,
        Command::Delete { which, yes } => act(global, &which, JobAction::Delete, !yes).await,
    }
}

/// The first word is a topic if it can be one: conditions have a `:` or a comparison.
async fn list(global: &Global, query: Vec<String>, mut listing: Listing) -> anyhow::Result<Exit> {
    let topic = query.first().and_then(|word| word.parse::<TopicName>().ok());
    let Some(topic) = topic else {
        let columns = ["id", "topic", "died", "attempts", "reason", "code", "message"];
        listing.show(global, format!("state:dead {}", query.join(" ")), &columns).await?;
        return Ok(Exit::Done);
    };
    let topic = topic.of(listing.tenant.as_ref())?;
    listing.tenant = Some(topic.tenant.clone());
    let columns = ["id", "died", "attempts", "reason", "code", "message"];
    let conditions = query.get(1..).unwrap_or_default().join(" ");
    let has_dead = listing.show(global, find::dead_of(&topic, &conditions), &columns).await?;
    if !has_dead && !global.json {
        known::note_unknown(global, &topic).await?;
    }
    Ok(Exit::Done)
}

async fn show(global: &Global, store: &dyn Inspect, topic: &TopicId, id: &JobId) -> anyhow::Result<Exit> {
    let view = look_up(store, &topic.tenant, id).await?.filter(|view| view.topic() == Some(topic));
    let dead = view.and_then(|view| if let JobState::Dead { since } = view.state { Some((view, since)) } else { None });
    let Some((view, since)) = dead else { bail!(why_not(store, topic, id).await?.1) };
    let now = Timestamp::now();
    let mut about = vec![
        ("id", id.to_string()),
        ("died", format!("{since} ({})", describe::distance(since, now))),
        ("failure", describe::failure(view.last_failure.as_ref())),
        ("attempts", view.attempts.to_string()),
    ];
    let context = view.last_failure.as_ref().and_then(|failure| failure.detail.context.as_ref());
    if let Some(context) = context.filter(|context| !describe::is_text(context)) {
        about.push(("context", describe::payload(context)));
    }
    about.extend(view.job.iter().flat_map(|of| describe::job(of, now)));
    global.say(&document::view(&view), true, &facts(&about))?;
    Ok(Exit::Done)
}

/// `asks`: the operator has to confirm what `--all` and `--query` choose.
async fn act(global: &Global, which: &Which, act: JobAction, asks: bool) -> anyhow::Result<Exit> {
    let Which { topic, ids, all, query } = which;
    let topic = &topic.id()?;
    if let Some(query) = query
        && !find::parse(query)?.is_selective()
    {
        let problem = "--query has no condition besides topics and states: say --all for all dead jobs";
        return Err(Usage(problem.into()).into());
    }
    // Any dead job was tried, or given up before it was.
    let chosen = query.as_deref().or(all.then_some("attempts>=0")).map(|query| find::dead_of(topic, query));
    // With --json each job is named, which a bulk action does not do.
    if let Some(q) = &chosen
        && !global.json
    {
        let server = bulk::served(global).await?;
        let action = act.into();
        let new = NewBulk { q: q.clone(), action, due: None, priority: None };
        let done = bulk::carry_out(global, &server, &topic.tenant, &new, asks).await?;
        server.end().await;
        return Ok(match done {
            None => Exit::Failed,
            Some(done) => {
                say_done(global, topic, act, done.changed).await?;
                if done.state == BulkState::Done { Exit::Done } else { Exit::Failed }
            }
        });
    }
    // All of them first: what is respawned may be dead again before the last is reached.
    let found = match &chosen {
        Some(q) => Some(Finder::new(global, topic.tenant.clone(), q.clone()).await?.ids().await?),
        None => None,
    };
    if let Some(found) = found.as_ref().filter(|found| asks && !found.is_empty())
        && !bulk::confirmed(act.into(), found.len() as u64)?
    {
        screen::note(bulk::NOT_CONFIRMED);
        return Ok(Exit::Failed);
    }
    let store = global.store_alone().await?;
    let ids = found.as_ref().unwrap_or(ids);
    if let (JobAction::Respawn, [id], false) = (act, ids.as_slice(), global.json) {
        warn_of_predecessor(&*store, topic, id).await?;
    }
    let mut changes = Vec::new();
    let note = |id: &JobId, is_done| {
        changes.push((id.clone(), is_done));
        Ok(())
    };
    let done = act_on(&*store, topic, ids, act, note).await?;
    for (id, is_done) in changes {
        show_change(global, &*store, (topic, &id), act, is_done, chosen.is_some()).await?;
    }
    // The call that asks for the topics may also have to open the store.
    drop(store);
    if !global.json {
        say_done(global, topic, act, done as u64).await?;
    }
    // With --all and --query, a job that another process changed first is no failure.
    Ok(if chosen.is_some() || done == ids.len() { Exit::Done } else { Exit::Failed })
}

/// A job that died because one before it was not done dies of that again, unless that one is also respawned.
async fn warn_of_predecessor(store: &dyn Inspect, topic: &TopicId, id: &JobId) -> anyhow::Result<()> {
    let Some(view) = look_up(store, &topic.tenant, id).await? else { return Ok(()) };
    let is_of_predecessor = view.last_failure.as_ref().is_some_and(|failure| failure.reason == Reason::Predecessor);
    if is_of_predecessor && let Some((before, ended)) = view.waits_for.as_ref().and_then(WaitsFor::first_failed) {
        screen::note(&format!(
            "job {id} waited for job {before}, which is {ended}: unless that one is respawned first, it ends in the same way; \
             `gristmill push --from-job {id}` runs it without waiting"
        ));
    }
    Ok(())
}

async fn say_done(global: &Global, topic: &TopicId, act: JobAction, done: u64) -> anyhow::Result<()> {
    let jobs = if done == 1 { "job" } else { "jobs" };
    screen::line(&format!("{} {} {jobs} of `{topic}`", bulk::past(act.into()), units::grouped(done)))?;
    if done == 0 { known::note_unknown(global, topic).await } else { Ok(()) }
}

/// Why a job was neither respawned nor deleted, for programs and in words.
///
/// # Errors
/// The store is unavailable, or refuses.
pub(super) async fn why_not(
    store: &(impl Inspect + ?Sized),
    topic: &TopicId,
    id: &JobId,
) -> Result<(&'static str, String), StoreError> {
    const NOT_DEAD: &str = "not-dead";
    let Some(view) = look_up(store, &topic.tenant, id).await? else {
        return Ok((NOT_DEAD, format!("job {id} is not known to tenant `{}`: {}", topic.tenant, describe::UNKNOWN)));
    };
    if let Some(other) = view.topic().filter(|of| *of != topic) {
        return Ok((NOT_DEAD, format!("job {id} is of the topic `{other}`, not of `{topic}`: nothing was changed")));
    }
    let JobState::Dead { .. } = view.state else {
        return Ok((NOT_DEAD, format!("job {id} is {}, not dead: nothing was changed", view.state.as_str())));
    };
    Ok(match unique_holder(store, &view).await? {
        Some((value, holder)) => {
            let why = format!(
                "job {id} stays dead: job {holder} holds its unique value `{value}`; respawn it once that holds it no more"
            );
            ("unique-held", why)
        }
        None => (NOT_DEAD, format!("job {id} is dead, and was not when it was reached: repeat this")),
    })
}

/// Does it to dead jobs, and calls `each` with every id and whether it was dead. Returns how many were.
pub(super) async fn act_on(
    store: &dyn Inspect,
    topic: &TopicId,
    ids: &[JobId],
    act: JobAction,
    mut each: impl FnMut(&JobId, bool) -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let mut done = 0;
    for chunk in ids.chunks(PAGE) {
        let refusals = act.act(store, topic, chunk).await?;
        done += refusals.iter().filter(|refusal| refusal.is_none()).count();
        chunk.iter().zip(refusals).try_for_each(|(id, refusal)| each(id, refusal.is_none()))?;
    }
    Ok(done)
}

async fn show_change(
    global: &Global,
    store: &dyn Inspect,
    (topic, id): (&TopicId, &JobId),
    act: JobAction,
    is_done: bool,
    all: bool,
) -> anyhow::Result<()> {
    let why_not = if is_done || all && !global.json { None } else { Some(why_not(store, topic, id).await?) };
    if global.json {
        let status = why_not.map_or(bulk::past(act.into()), |(status, _)| status);
        return screen::document(&json!({ "id": id.as_str(), "topic": topic.to_string(), "status": status }));
    }
    why_not.iter().for_each(|(_, why)| screen::note(why));
    Ok(())
}
