//! `gristmill schedule`: when topics get jobs without a producer.

use std::time::Duration;

use anyhow::bail;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Subcommand};
use serde_json::json;

use super::exit::{Exit, Usage};
use super::global::{Global, TopicArg, tenant_of};
use super::input::{Body, pair};
use super::table::facts;
use super::{describe, folder, screen};
use gristmill_config::units;
use gristmill_core::job::{Due, JobId, Name, NewJob, Payload, TopicId};
use gristmill_core::schedule::{
    Firing, FiringResult, Missed, Origin, Overlap, SCHEDULES_PER_TENANT, Schedule, ScheduleId, Ticks,
};
use gristmill_core::time::Timestamp;
use gristmill_store::{JobState, Produce, ResultView, ScheduleChange, ScheduleChanged, StoredSchedule, look_up};

/// How many ticks are shown.
const UPCOMING: usize = 5;
/// How many of the last ticks a list shows.
const LAST: usize = 3;

/// List, look at, make, pause, run or remove schedules
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill schedule set report nightly --cron '0 3 * * *' --timezone Europe/Berlin --overlap skip
  gristmill schedule set acme/cleanup often --every 15m --data '{}' --content-type application/json
  gristmill schedule list
  gristmill schedule run report nightly")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List a tenant's schedules: their next five ticks, and what became of the last ones
    List {
        /// Whose [default: default]
        #[arg(long, value_name = "NAME")]
        tenant: Option<Name>,
    },
    /// Show a schedule with all that it says
    Show(Which),
    /// Make a schedule, or replace all of it
    Set(Box<Set>),
    /// Let a schedule fire no more
    Pause(Which),
    /// Let a paused schedule fire again; what was due meanwhile is forgotten
    Resume(Which),
    /// Push one job of a schedule now
    Run(Which),
    /// Remove a schedule for good
    Remove(Which),
}

#[derive(Debug, clap::Args)]
struct Which {
    #[command(flatten)]
    topic: TopicArg,
    /// The schedule's name
    name: Name,
}

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("ticks").required(true).args(["cron", "every"]))]
struct Set {
    #[command(flatten)]
    which: Which,
    /// Minute, hour, day of the month, month, day of the week; or @hourly, @daily, @weekly, @monthly, @yearly
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// Where the expression is read, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "cron")]
    timezone: Option<String>,
    /// The interval, counted from 1970-01-01T00:00:00Z
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    every: Option<Duration>,
    /// Let each job be due up to this much after its tick
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    jitter: Option<Duration>,
    /// What becomes of ticks that no runner was there for: skip, one, all
    #[arg(long, default_value_t = Missed::One, value_parser = missed())]
    missed: Missed,
    /// What becomes of a tick while the job of the one before waits or runs: skip, queue
    #[arg(long, default_value_t = Overlap::Queue, value_parser = overlap())]
    overlap: Overlap,
    /// A header that the handler sees; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    meta: Vec<(String, String)>,
    #[command(flatten)]
    body: Body,
}

fn missed() -> impl TypedValueParser<Value = Missed> {
    PossibleValuesParser::new(["skip", "one", "all"]).try_map(|name| name.parse::<Missed>())
}

fn overlap() -> impl TypedValueParser<Value = Overlap> {
    PossibleValuesParser::new(["skip", "queue"]).try_map(|name| name.parse::<Overlap>())
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let change = match args.command {
        Command::List { tenant } => return list(global, tenant).await,
        Command::Show(which) => return show(global, &which.id()?).await,
        Command::Set(set) => return put(global, *set).await,
        Command::Pause(which) => (which, ScheduleChange::Pause, "paused"),
        Command::Resume(which) => (which, ScheduleChange::Resume, "resumed"),
        Command::Run(which) => (which, ScheduleChange::Run(JobId::generate()), "run"),
        Command::Remove(which) => (which, ScheduleChange::Remove, "removed"),
    };
    let (which, change, done) = change;
    apply(global, &*global.store_alone().await?, &which.id()?, &change, done).await
}

impl Which {
    fn id(&self) -> Result<ScheduleId, Usage> {
        Ok(ScheduleId { topic: self.topic.id()?, name: self.name.clone() })
    }
}

impl Set {
    fn schedule(self) -> anyhow::Result<Schedule> {
        let body = if self.body.is_named() { self.body.read()? } else { Payload::default() };
        let schedule = Schedule {
            cron: self.cron,
            timezone: self.timezone,
            every: self.every,
            jitter: self.jitter.unwrap_or_default(),
            missed: self.missed,
            overlap: self.overlap,
            ttl: None,
            body,
            metadata: self.meta,
        };
        schedule.ticks().map_err(|bad| Usage(bad.to_string()))?;
        Ok(schedule)
    }
}

async fn put(global: &Global, set: Set) -> anyhow::Result<Exit> {
    let (manifest, id) = (global.manifest_without_secrets()?, set.which.id()?);
    let mut schedule = set.schedule()?;
    if global.has_manifest() {
        let sample = NewJob { spec: schedule.spec(&id, JobId::generate()), due: Due::Now };
        let (job, unknown) = folder::known_topics(&manifest).admit(sample)?;
        schedule.ttl = job.spec.options.ttl;
        if let Some(unknown) = unknown {
            screen::note(&format!("warning: {unknown}"));
        }
    }
    // The first schedule may come before the first job.
    let store = global.way(&manifest)?.reach_or_make().await?.store;
    apply(global, &*store, &id, &ScheduleChange::Put(Box::new(schedule)), "changed").await
}

/// As sentences name it.
fn quoted(ScheduleId { topic, name }: &ScheduleId) -> String {
    format!("`{name}` of `{topic}`")
}

async fn apply(
    global: &Global,
    store: &dyn Produce,
    id: &ScheduleId,
    change: &ScheduleChange,
    done: &str,
) -> anyhow::Result<Exit> {
    let changed = store.change_schedule(id, change).await?;
    let done = match changed {
        ScheduleChanged::Unknown => bail!("there is no schedule {}", quoted(id)),
        ScheduleChanged::OfManifest => bail!("a manifest made the schedule {}: change it there", quoted(id)),
        ScheduleChanged::TooMany => bail!("there are {SCHEDULES_PER_TENANT} schedules already: remove some first"),
        ScheduleChanged::Made => "made".to_owned(),
        ScheduleChanged::Changed => done.to_owned(),
        ScheduleChanged::Unchanged => "like that already".to_owned(),
    };
    let job = if let ScheduleChange::Run(job) = change { Some(job) } else { None };
    if global.json {
        let ScheduleId { topic: TopicId { tenant, topic }, name } = id;
        let document = json!({ "tenant": tenant, "topic": topic, "name": name, "status": changed, "job": job });
        screen::document(&document)?;
    } else if let Some(job) = job {
        screen::line(job.as_str())?;
    } else {
        screen::line(&format!("the schedule {} is {done}", quoted(id)))?;
    }
    Ok(Exit::Done)
}

async fn list(global: &Global, tenant: Option<Name>) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    let Some(store) = global.store_if_any(&manifest).await? else { return Ok(Exit::Done) };
    let tenant = tenant_of(tenant.as_ref());
    let schedules = store.schedules(&tenant, None).await?;
    for schedule in &schedules {
        if global.json {
            screen::document(&document(schedule)?)?;
        } else {
            screen::line(&facts(&about(&*store, schedule, LAST).await?))?;
        }
    }
    if schedules.is_empty() && !global.json {
        screen::note(&format!("tenant `{tenant}` has no schedules"));
    }
    Ok(Exit::Done)
}

async fn show(global: &Global, id: &ScheduleId) -> anyhow::Result<Exit> {
    let store = global.store_alone().await?;
    let Some(stored) = store.schedules(&id.topic.tenant, Some(id)).await?.pop() else {
        bail!("there is no schedule {}", quoted(id));
    };
    if global.json {
        screen::document(&document(&stored)?)?;
        return Ok(Exit::Done);
    }
    let mut about = about(&*store, &stored, usize::MAX).await?;
    let Schedule { jitter, missed, overlap, body, metadata, .. } = &stored.record.schedule;
    about.push(("missed", missed.to_string()));
    about.push(("overlap", overlap.to_string()));
    if !jitter.is_zero() {
        about.push(("jitter", units::about_duration(*jitter)));
    }
    if !metadata.is_empty() {
        let pairs: Vec<_> = metadata.iter().map(|(name, value)| format!("{name}={value}")).collect();
        about.push(("metadata", pairs.join("\n")));
    }
    about.push(("body", describe::payload(body)));
    screen::line(&facts(&about))?;
    Ok(Exit::Done)
}

#[cfg(feature = "top")]
/// In one row: which, when it fires next, and its times in words.
pub(super) fn row(stored: &StoredSchedule, now: Timestamp) -> [String; 3] {
    let StoredSchedule { id, record } = stored;
    let ticks = record.schedule.ticks();
    let next = match upcoming(stored, ticks.as_ref().ok()).first() {
        _ if record.paused => "paused".into(),
        _ if record.moving => "moving".into(),
        None => "never".into(),
        Some(next) => describe::distance(*next, now),
    };
    [id.to_string(), next, ticks.map_or_else(|bad| bad.to_string(), |ticks| ticks.in_words())]
}

fn document(stored: &StoredSchedule) -> anyhow::Result<serde_json::Value> {
    let mut document = serde_json::to_value(stored)?;
    let ticks = stored.record.schedule.ticks().ok();
    if let Some(fields) = document.as_object_mut() {
        fields.insert("in_words".into(), json!(ticks.as_ref().map(Ticks::in_words)));
        fields.insert("upcoming_ms".into(), json!(upcoming(stored, ticks.as_ref())));
    }
    Ok(document)
}

fn upcoming(stored: &StoredSchedule, ticks: Option<&Ticks>) -> Vec<Timestamp> {
    std::iter::successors(stored.record.awaited(), |tick| ticks?.next_after(*tick)).take(UPCOMING).collect()
}

/// The schedule in words, with this many of the last ticks.
async fn about(
    store: &dyn Produce,
    stored: &StoredSchedule,
    last: usize,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let StoredSchedule { id, record } = stored;
    let (now, ticks) = (Timestamp::now(), record.schedule.ticks());
    let when = match &ticks {
        Ok(ticks) => ticks.in_words(),
        Err(bad) => format!("not known here: {bad}"),
    };
    let ticks = ticks.ok();
    let local = |tick: Timestamp| ticks.as_ref().map_or_else(|| tick.to_string(), |ticks| ticks.local(tick));
    let mut when = vec![when];
    when.extend(record.schedule.timezone.clone());
    when.extend((record.origin == Origin::Manifest).then(|| "made by a manifest".into()));
    let next: Vec<_> = upcoming(stored, ticks.as_ref())
        .into_iter()
        .map(|tick| format!("{} ({})", local(tick), describe::distance(tick, now)))
        .collect();
    let next = match next.as_slice() {
        _ if record.paused => format!("never: paused until `gristmill schedule resume {} {}`", id.topic, id.name),
        _ if record.moving => "never here: it is moving into another store".into(),
        [] => "never: no tick comes any more".into(),
        next => next.join("\n"),
    };
    let mut lines = Vec::new();
    for Firing { tick, result, .. } in record.firings.iter().take(last) {
        lines.push(format!("{}: {}", local(*tick), became(store, id, result).await?));
    }
    let last = if lines.is_empty() { "nothing yet".into() } else { lines.join("\n") };
    Ok(vec![("schedule", id.to_string()), ("when", when.join(", ")), ("next", next), ("last", last)])
}

/// What became of a tick, and of its job.
async fn became(store: &dyn Produce, id: &ScheduleId, result: &FiringResult) -> anyhow::Result<String> {
    let job = match result {
        FiringResult::Missed => return Ok("missed".into()),
        FiringResult::Overlap { job } => return Ok(format!("skipped, job {job} was not over")),
        FiringResult::TenantFull => return Ok("skipped, the tenant has as much in the store as it may".into()),
        FiringResult::Job { job } => job,
    };
    let state = match look_up(store, &id.topic.tenant, job).await? {
        None => "over",
        Some(view) => match (view.state, view.result) {
            (JobState::Ready, _) => "ready",
            (JobState::Delayed { .. }, _) => "delayed",
            (JobState::Waiting, _) => "waiting",
            (JobState::Running { .. }, _) => "running",
            (JobState::Dead { .. }, _) | (JobState::Finished, Some(ResultView::Dead(_))) => "dead",
            (JobState::Finished, Some(ResultView::Complete(_))) => "done",
            (JobState::Finished, Some(ResultView::Expired)) => "expired",
            (JobState::Finished, Some(ResultView::Cancelled)) => "cancelled",
            (JobState::Finished, None) => view.ended.map_or("over", |ended| describe::end(ended.outcome)),
        },
    };
    Ok(format!("job {job} is {state}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct TestCli {
        #[command(flatten)]
        _set: Set,
    }

    #[test]
    fn a_word_that_is_no_choice_is_answered_with_the_choices() {
        for (option, choices) in [("--missed", "skip, one, all"), ("--overlap", "skip, queue")] {
            let words = ["set", "mail", "nightly", "--every", "1h", option, "none"];
            let said = <TestCli as clap::Parser>::try_parse_from(words).err().unwrap().to_string();
            assert!(said.contains(choices), "{said}");
        }
    }
}
