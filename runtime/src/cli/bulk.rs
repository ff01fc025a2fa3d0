//! `gristmill bulk`: one action on all jobs that fit a query, carried out by a server, or by this process where none answers.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use super::exit::{Exit, NoServer, Usage};
use super::find;
use super::global::Global;
use super::store::Served;
use super::table::{Table, facts};
use super::{describe, push, screen, signals};
use gristmill_config::units;
use gristmill_core::admission::check_due;
use gristmill_core::job::{DEFAULT_TENANT, Due, Name, Priority};
use gristmill_core::time::Timestamp;
use gristmill_server::{Bulk, BulkAction, BulkState, NewBulk, RemoteStore};

/// How often a bulk action is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How many looks in a row may fail, and how long after one the next is tried.
const FAILED_LOOKS: usize = 5;
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Up to this many jobs a `y` is enough; for more the operator has to type the number.
const FEW: u64 = 100;

pub(super) const NOT_CONFIRMED: &str = "nothing was changed: add --yes to do it without being asked";

const NO_SERVER: &str = "a server keeps bulk actions in its memory, and none answers for this store: start `gristmill run`, or name a server with --server. \
    (That of a Redis is found if it answers where [http] listens, and, if it asks for tokens, with a token for all tenants.)";

/// Do one thing to all jobs that fit a query
///
/// A server counts the jobs, and then changes them step by step; where none answers, this command does it itself. A server keeps bulk
/// actions in its memory: the last 100 of a tenant.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill bulk start cancel 'topic:mail* key:cust-17'
  gristmill bulk start respawn 'reason:timeout died<1h' --yes
  gristmill bulk start change 'topic:report state:delayed key:cust-17' --now
  gristmill bulk list
  gristmill bulk abort 01KAFQ6Y8D2Z0V9X5T3N7M1R4C")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Count the jobs that fit, ask, and do it to each of them
    ///
    /// Ctrl-C aborts it after its current step. What was changed before stays so.
    #[command(after_help = find::LANGUAGE)]
    Start(StartArgs),
    /// List the bulk actions of the server, the latest first
    List(Whose),
    /// Show one
    Show(One),
    /// Abort one, after its current step
    Abort(One),
}

#[derive(Debug, clap::Args)]
struct StartArgs {
    /// What to do to the jobs
    action: Action,
    /// Conditions, such as 'topic:mail* key:cust-17', with one besides topics and states
    #[arg(required = true)]
    query: Vec<String>,
    #[command(flatten)]
    whose: Whose,
    /// Do it without asking
    #[arg(long)]
    yes: bool,
    /// With `change`: make them due now
    #[arg(long, conflicts_with_all = ["delay", "at"])]
    now: bool,
    /// With `change`: make them due after this long, such as 30s or 2h
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    delay: Option<Duration>,
    /// With `change`: make them due at this time, such as 2026-11-20T18:00:00+01:00
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse, conflicts_with = "delay")]
    at: Option<Timestamp>,
    /// With `change`: give them this priority
    #[arg(long, value_name = "PRIORITY", value_parser = push::priority())]
    priority: Option<Priority>,
}

/// Erase what there is of a person or a customer: the jobs that fit a query, in every state
///
/// A server counts what fits, asks, and removes it for good: jobs that wait, run (they are asked to stop) or are dead, with metadata, failures,
/// checkpoints and unique values that they hold until done; the results that are kept of jobs that are over, if the query fits their id or the
/// result; with `key:KEY` the states of the key; and the recent attempts at these jobs in the memory of that server. It says what it cannot reach.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Example:\n  gristmill erase 'key:cust-17'\n  gristmill erase 'body.customer.email:ann@example.com' --yes\n\n{}", find::LANGUAGE))]
pub(super) struct EraseArgs {
    /// Conditions, with one besides topics and states
    #[arg(required = true)]
    query: Vec<String>,
    #[command(flatten)]
    whose: Whose,
    /// Do it without asking
    #[arg(long)]
    yes: bool,
}

/// What an operator has to look after by other means.
const NOT_ERASED: &str = "\
not reached: lines in the logs of runners and in what collects them; traces; the journal and the audit log (which have ids and codes, and no bodies);
recent attempts in the memory of other runners, until they end; ids of jobs that ended lately (`ended-retention`); unique values with a window
(`gristmill unique free`); backups. Of jobs that are over nothing is known but id, end and result: no other condition finds these.";

impl StartArgs {
    /// What a server is asked for.
    fn asked(&self) -> Result<NewBulk, Usage> {
        let q = self.query.join(" ");
        if !find::parse(&q)?.is_selective() {
            let problem = "the query has no condition besides topics and states, so that it would choose every job of these: add one, such as \
                 `key:cust-17`, `reason:timeout` or `age>1h`";
            return Err(Usage(problem.into()));
        }
        let due = self.at.map(Due::At).or(self.delay.map(Due::After)).or(self.now.then_some(Due::Now));
        due.map_or(Ok(()), check_due).map_err(|refused| Usage(refused.to_string()))?;
        let (action, priority) = (BulkAction::from(self.action), self.priority);
        if (action == BulkAction::Change) != (due.is_some() || priority.is_some()) {
            return Err(Usage("`change` goes with --now, --delay, --at or --priority, and these with `change`".into()));
        }
        Ok(NewBulk { q, action, due, priority })
    }
}

#[derive(Debug, clap::Args)]
struct Whose {
    /// Whose jobs they are
    #[arg(long, default_value = DEFAULT_TENANT)]
    tenant: Name,
}

#[derive(Debug, clap::Args)]
struct One {
    /// The id of the bulk action
    id: String,
    #[command(flatten)]
    whose: Whose,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Action {
    /// Cancel jobs that wait, are ready, are delayed or run
    Cancel,
    /// Make dead jobs ready again, with all their attempts before them
    Respawn,
    /// Delete dead jobs for good
    Delete,
    /// Change when jobs that wait, are ready or are delayed become due, or their priority
    Change,
    /// Remove jobs in every state for good, with the results that are kept of jobs that are over
    Erase,
}

impl From<Action> for BulkAction {
    fn from(action: Action) -> Self {
        match action {
            Action::Cancel => Self::Cancel,
            Action::Respawn => Self::Respawn,
            Action::Delete => Self::Delete,
            Action::Change => Self::Change,
            Action::Erase => Self::Erase,
        }
    }
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    match args.command {
        Command::Start(args) => start(global, args).await,
        Command::List(Whose { tenant }) => list(global, &server(global).await?.bulks(&tenant).await?),
        Command::Show(One { id, whose }) => show(global, &server(global).await?.bulk(&whose.tenant, &id).await?),
        Command::Abort(One { id, whose }) => show(global, &server(global).await?.abort_bulk(&whose.tenant, &id).await?),
    }
}

/// `gristmill erase`.
pub(super) async fn erase(global: &Global, args: EraseArgs) -> anyhow::Result<Exit> {
    let EraseArgs { query, whose, yes } = args;
    let (now, delay, at, priority) = (false, None, None, None);
    start(global, StartArgs { action: Action::Erase, query, whose, yes, now, delay, at, priority }).await
}

async fn server(global: &Global) -> anyhow::Result<RemoteStore> {
    let way = global.way(&global.manifest_without_secrets()?)?;
    if let Some(server) = way.find_server().await? {
        return Ok(server);
    }
    // Of a Redis that does not answer, the server cannot be told from others: then that is the error.
    way.reach().await?;
    Err(NoServer(NO_SERVER).into())
}

/// The same, or one in this process.
pub(super) async fn served(global: &Global) -> anyhow::Result<Served> {
    global.way(&global.manifest_without_secrets()?)?.served().await
}

async fn start(global: &Global, args: StartArgs) -> anyhow::Result<Exit> {
    let new = args.asked()?;
    let StartArgs { whose: Whose { tenant }, yes, .. } = args;
    let server = &*served(global).await?;
    let counted = count(global, server, &tenant, &new).await?;
    if counted.state != BulkState::Counted {
        return ended(global, &counted);
    }
    preview(global, &counted);
    if counted.matched == 0 || !(yes || confirmed(counted.action, counted.matched)?) {
        let aborted = server.abort_bulk(&tenant, &counted.id).await?;
        if counted.matched > 0 && !global.json {
            screen::note(NOT_CONFIRMED);
        }
        if global.json {
            screen::document(&serde_json::to_value(&aborted)?)?;
        }
        return Ok(if counted.matched > 0 { Exit::Failed } else { Exit::Done });
    }
    match do_it(global, server, &tenant, &counted).await? {
        Some(bulk) => ended(global, &bulk),
        None => Ok(Exit::Failed),
    }
}

/// Counts the jobs that fit, and does it to them. `None`: a signal aborted it, or it `asks` and was not confirmed.
pub(super) async fn carry_out(
    global: &Global,
    server: &RemoteStore,
    tenant: &Name,
    new: &NewBulk,
    asks: bool,
) -> anyhow::Result<Option<Bulk>> {
    let counted = count(global, server, tenant, new).await?;
    if counted.state != BulkState::Counted {
        return Ok(Some(counted));
    }
    if counted.matched == 0 {
        server.abort_bulk(tenant, &counted.id).await?;
        return Ok(Some(Bulk { state: BulkState::Done, ..counted }));
    }
    if asks && !confirmed(counted.action, counted.matched)? {
        server.abort_bulk(tenant, &counted.id).await?;
        screen::note(NOT_CONFIRMED);
        return Ok(None);
    }
    do_it(global, server, tenant, &counted).await
}

async fn count(global: &Global, server: &RemoteStore, tenant: &Name, new: &NewBulk) -> anyhow::Result<Bulk> {
    let Bulk { id, .. } = server.make_bulk(tenant, new).await?;
    follow(global, server, tenant, &id).await
}

/// Starts what was counted, and follows it to its end. `None`: a signal aborted it.
async fn do_it(
    global: &Global,
    server: &RemoteStore,
    tenant: &Name,
    Bulk { id, matched, .. }: &Bulk,
) -> anyhow::Result<Option<Bulk>> {
    let signals = signals::end()?;
    let still = || format!("the server may still have the bulk action: `gristmill bulk show {id}`");
    server.start_bulk(tenant, id, *matched).await.with_context(still)?;
    let abort = async {
        signals.first.cancelled().await;
        if let Err(error) = server.abort_bulk(tenant, id).await {
            // It may be over by now: then what it did is printed all the same.
            if !server.bulk(tenant, id).await.is_ok_and(|bulk| bulk.state.is_over()) {
                let error = screen::clean(&format!("{:#}", anyhow::Error::new(error)));
                screen::note(&format!("it was not aborted: {error}: `gristmill bulk abort {id}`"));
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        bulk = follow(global, server, tenant, id) => Ok(Some(bulk.with_context(still)?)),
        () = abort => Ok(None),
        () = signals.second.cancelled() => bail!(still()),
    }
}

/// Until it waits for something, or is over.
async fn follow(global: &Global, server: &RemoteStore, tenant: &Name, id: &str) -> anyhow::Result<Bulk> {
    let is_shown = screen::is_watched() && !global.quiet && !global.json;
    let bar = if is_shown { ProgressBar::no_length() } else { ProgressBar::hidden() };
    bar.set_style(ProgressStyle::with_template("{msg:32} {wide_bar} {human_pos}/{human_len}")?);
    let mut failed = 0;
    loop {
        let bulk = match server.bulk(tenant, id).await {
            Err(error) if error.is_unavailable() && failed < FAILED_LOOKS => {
                failed += 1;
                tokio::time::sleep(LOOK_AGAIN).await;
                continue;
            }
            looked => looked?,
        };
        failed = 0;
        if !bulk.state.is_active() {
            bar.finish_and_clear();
            return Ok(bulk);
        }
        if bulk.state == BulkState::Counting {
            bar.set_message(fit(bulk.matched, bulk.looked_at));
        } else {
            bar.set_message(format!("{} {}", past(bulk.action), units::counted(bulk.changed, "job", "jobs")));
            bar.set_length(bulk.matched);
            bar.set_position(bulk.changed + bulk.skipped_in_all());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// How many jobs were counted, and some of them.
fn preview(global: &Global, Bulk { id, matched, looked_at, samples, .. }: &Bulk) {
    if global.json {
        return;
    }
    screen::note(&fit(*matched, *looked_at));
    for sample in samples {
        screen::note(&screen::clean(&format!("  {}  {}  {}", sample.id, sample.topic, sample.state)));
    }
    screen::note(&screen::clean(&format!("bulk action {id}")));
}

/// Asks at a terminal; elsewhere it is not confirmed.
pub(super) fn confirmed(action: BulkAction, matched: u64) -> anyhow::Result<bool> {
    let wanted = if matched > FEW { matched.to_string() } else { "y".into() };
    screen::confirmed(&wanted, &format!("{} {}", action.as_str(), units::counted(matched, "job", "jobs")))
}

/// How many jobs fit a query, of how many.
pub(super) fn fit(found: u64, looked_at: u64) -> String {
    let fit = if found == 1 { "fits" } else { "fit" };
    format!("{found} of {} {fit}", units::counted(looked_at, "job", "jobs"))
}

/// Says how it ended.
fn ended(global: &Global, bulk: &Bulk) -> anyhow::Result<Exit> {
    let Bulk { state, action, changed, skipped, error, .. } = bulk;
    let words = format!("{} {}{}", past(*action), units::counted(*changed, "job", "jobs"), but(skipped));
    global.say(&serde_json::to_value(bulk)?, true, &words)?;
    if *action == BulkAction::Erase && !global.json {
        if skipped.contains_key("still-running") {
            screen::note("some jobs still run and were asked to stop: erase again once they have ended");
        }
        screen::note(NOT_ERASED);
    }
    if *state == BulkState::Done {
        return Ok(Exit::Done);
    }
    if !global.json {
        let why = error.as_ref().map(|error| format!(": {}", screen::clean(error))).unwrap_or_default();
        screen::note(&format!("it was not done to all: {}{why}", state.as_str()));
    }
    Ok(Exit::Failed)
}

fn but(skipped: &BTreeMap<String, u64>) -> String {
    if skipped.is_empty() {
        return String::new();
    }
    let parts: Vec<_> = skipped.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    format!(", skipped {}", parts.join(", "))
}

pub(super) const fn past(action: BulkAction) -> &'static str {
    match action {
        BulkAction::Cancel => "cancelled",
        BulkAction::Respawn => "respawned",
        BulkAction::Delete => "deleted",
        BulkAction::Change => "changed",
        BulkAction::Erase => "erased",
    }
}

fn list(global: &Global, bulks: &[Bulk]) -> anyhow::Result<Exit> {
    let titles = ["ID", "ACTION", "STATE", ">COUNTED", ">CHANGED", ">SKIPPED", "MADE", "BY", "QUERY"];
    let now = Timestamp::now();
    let row = |bulk: &Bulk| {
        [
            bulk.id.clone(),
            bulk.action.as_str().into(),
            bulk.state.as_str().into(),
            bulk.matched.to_string(),
            bulk.changed.to_string(),
            bulk.skipped_in_all().to_string(),
            describe::distance(bulk.created_at, now),
            bulk.actor.clone(),
            bulk.q.clone(),
        ]
    };
    global.list(bulks, Table::new(&titles), row, "the server has no bulk action of this tenant")?;
    Ok(Exit::Done)
}

fn show(global: &Global, bulk: &Bulk) -> anyhow::Result<Exit> {
    let now = Timestamp::now();
    let mut about = vec![
        ("id", bulk.id.clone()),
        ("action", bulk.action.as_str().to_owned()),
        ("query", bulk.q.clone()),
        ("state", bulk.state.as_str().to_owned()),
        ("made", format!("{} by {}", describe::distance(bulk.created_at, now), bulk.actor)),
    ];
    about.extend(bulk.started_at.map(|at| ("started", describe::distance(at, now))));
    about.extend(bulk.ended_at.map(|at| ("ended", describe::distance(at, now))));
    about.push(("counted", bulk.matched.to_string()));
    about.push(("changed", format!("{}{}", bulk.changed, but(&bulk.skipped))));
    about.extend(bulk.error.clone().map(|error| ("error", error)));
    global.say(&serde_json::to_value(bulk)?, true, &facts(&about))?;
    Ok(Exit::Done)
}
