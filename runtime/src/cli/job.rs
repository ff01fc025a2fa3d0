//! `gristmill job`: lists jobs, shows one, says why it is not running, draws what waits for what, and cancels or changes jobs.

use std::time::Duration;

use anyhow::bail;
use clap::{ArgGroup, Subcommand};
use serde_json::json;

use super::exit::{Exit, Usage};
use super::global::Global;
use super::table::facts;
use super::{document, find, push, screen, tree, wait, why};
use gristmill_config::units;
use gristmill_core::admission::check_due;
use gristmill_core::job::{Due, Ended, Job, JobChange, JobId, Name, Payload, Priority, Progress, Unique};
use gristmill_core::time::Timestamp;
use gristmill_store::{
    BatchSealed, Cancelled, EndedAs, Inspect, JobChanged, JobState, JobView, ResultView, WaitsFor, Workflows, look_up,
};

/// As much of a body as fits on a screen line or three.
const PREVIEW_CHARS: usize = 240;

/// What may have become of a job that is not known.
pub(super) const UNKNOWN: &str = "it never was, or it ended longer ago than is remembered";

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
        bail!("job {id} is not known to tenant `{tenant}`: {UNKNOWN}");
    };
    if global.json {
        screen::document(&document::view(&view))?;
    } else {
        screen::line(&facts(&about(&view, Timestamp::now())))?;
    }
    Ok(Exit::Done)
}

async fn seal(global: &Global, store: &dyn Workflows, tenant: &Name, id: &JobId) -> anyhow::Result<Exit> {
    let sealed = store.seal(tenant, id).await?;
    let words = match sealed {
        BatchSealed::Sealed => "is sealed",
        BatchSealed::Before => "was sealed before: nothing was changed",
        BatchSealed::NotWaiting => "is no batch that waits: nothing was changed",
    };
    if global.json {
        screen::document(&json!({ "id": id.as_str(), "tenant": tenant.as_str(), "status": sealed }))?;
    } else {
        screen::line(&format!("job {id} {words}"))?;
    }
    Ok(if sealed == BatchSealed::NotWaiting { Exit::Failed } else { Exit::Done })
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
        if global.json {
            screen::document(&json!({ "id": id.as_str(), "tenant": tenant.as_str(), "status": changed }))?;
        } else if *changed == JobChanged::TooLate {
            screen::note(&format!("job {id} {words}"));
        } else {
            screen::line(&format!("job {id} {words}"))?;
        }
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
        if global.json {
            screen::document(&json!({ "id": id.as_str(), "tenant": tenant.as_str(), "status": status }))?;
        } else if *cancelled == Cancelled::TooLate {
            screen::note(&format!("job {id} is {words}"));
        } else {
            screen::line(&format!("job {id} is {words}"))?;
        }
    }
    Ok(if cancelled.contains(&Cancelled::TooLate) { Exit::Failed } else { Exit::Done })
}

pub(super) fn about(view: &JobView, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut facts = vec![("id", view.id.to_string()), ("state", state(view, now))];
    facts.extend(view.ended.as_ref().map(|ended| ("topic", ended.topic.to_string())));
    if let Some(job) = &view.job {
        facts.extend(about_job(job, now));
    }
    if let Some(waits_for) = &view.waits_for {
        facts.push(("waits for", about_waits_for(waits_for)));
    }
    facts.push(("attempts", view.attempts.to_string()));
    if let Some(failure) = &view.last_failure {
        facts.push(("last failure", wait::about(Some(failure))));
    }
    facts.extend(view.progress.as_ref().map(|progress| ("progress", about_progress(progress))));
    if let Some(checkpoint) = &view.checkpoint {
        facts.push(("checkpoint", about_payload(checkpoint)));
    }
    // The kept result of a dead job is its last failure once more.
    let said_already = matches!(
        (&view.result, &view.last_failure),
        (Some(ResultView::Dead(end)), Some(last)) if end == last
    );
    if let Some(result) = view.result.as_ref().filter(|_| !said_already) {
        facts.push(("result", about_result(result)));
    } else if view.result.is_none() && view.ended.as_ref().is_some_and(|ended| ended.outcome == EndedAs::Complete) {
        facts.push((
            "result",
            "none, or not kept: `push --keep-result 1h` and the topic's `result-retention` keep it".into(),
        ));
    }
    facts
}

/// How far the jobs are that a job waits for, and the first that have not ended, or were not done.
fn about_waits_for(WaitsFor { open, total, ended, failed, jobs }: &WaitsFor) -> String {
    let open = if *open { "; open, so it takes more" } else { "" };
    let failed = if *failed > 0 { format!(", {failed} of them not done") } else { String::new() };
    let mut lines = format!("{ended} of {total} ended{failed}{open}");
    for job in jobs.iter().filter(|job| job.ended != Some(Ended::Complete)) {
        lines.push_str(&format!("\n{} {}", job.id, job.ended.map_or("not ended", Ended::as_str)));
    }
    lines
}

fn state(view: &JobView, now: Timestamp) -> String {
    match &view.state {
        JobState::Ready => match view.behind.as_ref().map(|behind| behind.holders.first()) {
            Some(Some(holder)) => {
                format!("ready: waits for job {holder}, which has the slot of its key; see `gristmill job why`")
            }
            Some(None) => "ready: waits for the slot of its key".into(),
            None => "ready: waits for a free runner".into(),
        },
        JobState::Delayed { until } => format!("delayed until {until} ({})", distance(*until, now)),
        JobState::Waiting => "waiting for other jobs".into(),
        JobState::Running { worker, lease_until, cancelled, .. } => {
            let cancelled = if *cancelled { "; cancelled" } else { "" };
            let ran =
                view.claimed_at.map(|at| format!(" for {}", units::about_duration(now.since(at)))).unwrap_or_default();
            format!("running on {worker}{ran}, leased until {lease_until} ({}){cancelled}", distance(*lease_until, now))
        }
        JobState::Dead { since } => format!("dead since {since} ({})", distance(*since, now)),
        JobState::Finished => match &view.ended {
            Some(ended) => {
                format!("finished: {} at {} ({})", about_end(ended.outcome), ended.at, distance(ended.at, now))
            }
            None => "finished".into(),
        },
    }
}

fn about_progress(Progress { basis_points, note }: &Progress) -> String {
    let gap = if note.is_empty() { "" } else { ": " };
    format!("{}.{:02} %{gap}{}", basis_points / 100, basis_points % 100, note.replace('\n', " "))
}

pub(super) const fn about_end(outcome: EndedAs) -> &'static str {
    match outcome {
        EndedAs::Complete => "done",
        EndedAs::Expired => "expired",
        EndedAs::Cancelled => "cancelled",
        EndedAs::Deleted => "dead, and deleted",
    }
}

/// The facts about a job that its producer gave.
pub(super) fn about_job(job: &Job, now: Timestamp) -> Vec<(&'static str, String)> {
    let spec = &job.spec;
    let mut facts = vec![
        ("topic", spec.topic.to_string()),
        ("enqueued", format!("{} ({})", job.enqueued_at, distance(job.enqueued_at, now))),
    ];
    if job.due_at != job.enqueued_at {
        facts.push(("due", format!("{} ({})", job.due_at, distance(job.due_at, now))));
    }
    let optional = [
        ("key", spec.options.key.clone()),
        ("priority", (spec.options.priority != Priority::Normal).then(|| spec.options.priority.to_string())),
        ("unique", spec.options.unique.as_ref().map(about_unique)),
        ("attempts max", spec.options.max_attempts.map(|attempts| attempts.to_string())),
        ("ttl", spec.options.ttl.map(units::about_duration)),
    ];
    facts.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    if !spec.metadata.is_empty() {
        let lines: Vec<_> = spec.metadata.iter().map(|(name, value)| format!("{name}={value}")).collect();
        facts.push(("metadata", lines.join("\n")));
    }
    facts.push(("body", about_payload(&spec.body)));
    facts
}

fn about_unique(unique: &Unique) -> String {
    match unique.window {
        None => unique.value.clone(),
        Some(window) => format!("{} for {} from its push on", unique.value, units::about_duration(window)),
    }
}

pub(super) fn about_payload(payload: &Payload) -> String {
    let size = units::SIZE.about(payload.data.len() as u64);
    let kind = payload.content_type.as_deref().map(|kind| format!(", {kind}")).unwrap_or_default();
    if payload.data.is_empty() {
        return format!("empty{kind}");
    }
    format!("{size}{kind}\n{}", screen::preview(&payload.data, PREVIEW_CHARS))
}

fn about_result(result: &ResultView) -> String {
    match result {
        ResultView::Complete(None) => "complete, with nothing to say".into(),
        ResultView::Complete(Some(output)) => format!("complete: {}", about_payload(output)),
        ResultView::Dead(failure) => format!("dead: {}", wait::about(Some(failure))),
        ResultView::Expired => "expired before it could start".into(),
        ResultView::Cancelled => "cancelled".into(),
    }
}

/// `in 5m` or `5m ago`, by this host's clock: good enough to read.
pub(super) fn distance(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        return format!("in {}", units::about_duration(at.since(now)));
    }
    format!("{} ago", units::about_duration(now.since(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_look_forward_and_back() {
        let (early, late) = (Timestamp::from_millis(1000), Timestamp::from_millis(91_000));
        assert_eq!(distance(late, early), "in 1m30s");
        assert_eq!(distance(early, late), "1m30s ago");
    }

    #[test]
    fn a_job_that_waits_for_its_key_says_for_which_job() {
        let now = Timestamp::from_millis(0);
        let nothing = serde_json::Value::Null;
        let view = json!({ "id": "later", "state": "ready", "attempts": 0, "job": nothing, "last_failure": nothing, "result": nothing });
        let mut view: JobView = serde_json::from_value(view).unwrap();
        assert_eq!(state(&view, now), "ready: waits for a free runner");
        view.behind = Some(gristmill_store::BehindKey { holders: vec!["first".parse().unwrap()], ahead: 0 });
        let said = state(&view, now);
        assert!(said.starts_with("ready: waits for job first, which has the slot of its key"), "{said}");
    }

    #[test]
    fn a_body_is_shown_by_size_type_and_beginning() {
        let text = Payload { data: b"{\"a\":1}".to_vec(), content_type: Some("application/json".into()) };
        assert_eq!(about_payload(&text), "7B, application/json\n{\"a\":1}");
        assert_eq!(about_payload(&Payload::default()), "empty");
    }
}
