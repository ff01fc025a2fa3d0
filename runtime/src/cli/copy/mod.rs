//! `gristmill store move`: everything that waits, is dead or was promised, from one store into another.

mod plan;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Subcommand;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::plan::Plan;
use super::exit::{Exit, Usage};
use super::global::Global;
use super::screen;
use crate::open::{self as store, Layout, Opened};
use gristmill_config::units::counted;
use gristmill_config::{StoreAddress, StoreSettings};
use gristmill_core::bill::Day;
use gristmill_core::deployment::Deployment;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_core::token::{NewToken, Token, TokenRequirement};
use gristmill_metrics::as_actor;
use gristmill_store::{
    FoundToken, MovedJob, Pause, StoreError, StoredPlace, TokenAdded, TopicMove, Transfer, Unmoved, copy_results,
    move_bills, move_schedules, move_states, move_windows, pause_alike,
};

/// The actor that pauses a topic while its jobs are moved.
const MOVER: &str = "gristmill store move";

/// How often the progress is printed.
const NOTE_EVERY: Duration = Duration::from_secs(2);

/// Move everything from one store to another
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill store move --from sqlite:gristmill.db --to redis://127.0.0.1:6379/0 --dry-run
  gristmill store move --from sqlite:gristmill.db --to redis://127.0.0.1:6379/0")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Move every waiting, delayed and dead job; interrupted, run it again: nothing is lost or doubled
    ///
    /// Each topic is paused in the old store while its jobs are moved. With them move schedules, states of keys, unique values that are held for a time
    /// (also those of `Idempotency-Key`s) and bills. Bills are added to those of the new store. Tokens, kept results and decisions about versions of handlers, such as rollbacks, are copied, and a topic that an
    /// operator has paused is paused in the new store before it gets jobs. What cannot be moved is listed before anything is moved: running jobs, jobs that wait
    /// for other jobs or are waited for, and jobs that a damaged store has in no line; then nothing is moved, unless --leave-behind says that they may stay. Totals, recordings and how finished jobs ended stay. A SQLite file must have no server
    /// meanwhile; relative paths are relative to the working directory.
    Move(MoveArgs),
}

#[derive(Debug, clap::Args)]
struct MoveArgs {
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
    /// Only say what would be moved, and what cannot be
    #[arg(long)]
    dry_run: bool,
    /// Move what can be moved, and leave running jobs and jobs of workflows in the old store
    #[arg(long)]
    leave_behind: bool,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let Command::Move(args) = args.command;
    let (from, to) = settings(global, &args)?;
    let keep_bills = global.manifest_without_secrets()?.server.bill_retention;
    let days = days_kept(keep_bills);
    let (from, to) = (open(&from).await?.store, open(&to).await?.store);
    let tenants = if args.tenant.is_empty() { from.tenants().await? } else { args.tenant.clone() };
    let known = from.tenants().await?;
    for tenant in tenants.iter().filter(|tenant| !known.contains(tenant)) {
        screen::note(&format!("the old store has no jobs of a tenant `{tenant}`"));
    }
    let plan = Plan::of(&*from, (&args.tenant, &tenants), &days).await?;
    if args.dry_run {
        plan.show(global)?;
        return Ok(if plan.stays.is_empty() || args.leave_behind { Exit::Done } else { Exit::Failed });
    }
    ensure!(plan.stays.is_empty() || args.leave_behind, "{}", plan.refusal());
    let tokens = copy_tokens(&*from, &*to, &args.tenant).await?;
    let deployments = copy_deployments(&*from, &*to, &args.tenant).await?;
    let (mut moved, mut schedules, mut states, mut bill_lines, mut windows, mut results) = (0, 0, 0, 0, 0, 0);
    for tenant in &tenants {
        results += copy_results(&*from, &*to, tenant).await.context("failed to copy results; run this again")?;
        schedules += move_schedules(&*from, &*to, tenant, None)
            .await
            .context("failed to move schedules; run this again: those on their way fire in no store")?;
        let stateful = from.keys_with_state(tenant).await?;
        for counts in from.counts(tenant).await? {
            let (topic, pause) = (&counts.topic, counts.paused.then_some(counts.pause));
            let keys = stateful.iter().filter(|(of, _)| of == topic);
            let options = (args.keep_paused, global.json || global.quiet);
            let copied = copy((&*from, &*to), (topic, pause), keys, options).await;
            let copied = copied.with_context(|| {
                format!("`{topic}` stays paused in the old store; run this again, or `gristmill resume {topic}` there")
            })?;
            moved += copied.moved();
            states += copied.states;
            windows += copied.windows;
            if global.json {
                screen::document(&copied.document())?;
            } else {
                screen::line(&copied.in_words())?;
            }
        }
        // Those that were set before the topic was paused, and those of topics without jobs.
        states += move_states(&*from, &*to, &from.keys_with_state(tenant).await?)
            .await
            .context("failed to move states of keys; run this again: each is in one of the stores")?;
        bill_lines += move_bills(&*from, &*to, tenant, &days, keep_bills).await.context(
            "failed to move the bill; run this again within an hour: what is on its way is in neither store, and is added once",
        )?;
    }
    let beside = [
        ("moved", states, "state", "states", " of keys"),
        ("moved", bill_lines as u64, "line", "lines", " of bills"),
        ("moved", schedules as u64, "schedule", "schedules", ""),
        ("moved", windows, "unique value", "unique values", " of jobs that are over"),
        ("copied", results, "result", "results", ""),
        ("copied", deployments, "decision", "decisions", " about versions of handlers"),
        ("copied", tokens as u64, "token", "tokens", ""),
    ];
    let mut beside = beside.into_iter().filter(|(_, count, ..)| *count > 0).peekable();
    if !global.json {
        plan.lost.iter().try_for_each(|lost| screen::line(&format!("stays in the old store: {lost}")))?;
        screen::line(&format!("moved {}", counted(moved, "job", "jobs")))?;
        for (verb, count, one, many, of) in beside {
            screen::line(&format!("{verb} {}{of}", counted(count, one, many)))?;
        }
    } else if beside.peek().is_some() || !plan.lost.is_empty() {
        screen::document(&json!({
            "stays": plan.lost,
            "tokens": tokens,
            "schedules": schedules,
            "states": states,
            "bill_lines": bill_lines,
            "unique_values": windows,
            "results": results,
            "deployments": deployments,
        }))?;
    }
    Ok(Exit::Done)
}

/// The days whose bills are kept for some time after them. The next one may have begun by the clock of a store.
fn days_kept(keep: Duration) -> RangeInclusive<Day> {
    let today = Day::of(Timestamp::now()).number();
    let kept = u32::try_from(keep.as_secs() / 86_400).unwrap_or(u32::MAX);
    Day::from_number(today.saturating_sub(kept))..=Day::from_number(today + 1)
}

/// Copies the valid tokens of these tenants, or all, with their limits: a server on the new store accepts the clients that one on the old
/// store accepts. If tenants are named, a token whose maker is not copied is left out. Returns how many are new.
async fn copy_tokens(from: &dyn Transfer, to: &dyn Transfer, tenants: &[Name]) -> anyhow::Result<usize> {
    if from.token_requirement().await? == TokenRequirement::Required {
        to.require_tokens().await?;
    }
    let mut remaining = tokens_of(from, tenants).await?;
    let mut copied = 0;
    // The makers come before what they made; those of one millisecond may need another round.
    loop {
        let before = remaining.len();
        for token in std::mem::take(&mut remaining) {
            let Some(FoundToken { token, hash, expires_in }) = from.find_token(&token.id).await? else { continue };
            let Token { tenant, scopes, description, limits, made_by, .. } = token.clone();
            match to.add_token(&NewToken { hash, tenant, scopes, description, limits, expires_in, made_by }).await? {
                TokenAdded::Added(_) => copied += 1,
                TokenAdded::Exists => {}
                TokenAdded::MakerGone => remaining.push(token),
                TokenAdded::TooMany => bail!("the new store has as many tokens of a tenant as it may: revoke some"),
            }
        }
        if remaining.len() == before || remaining.is_empty() {
            return Ok(copied);
        }
    }
}

/// Copies which versions of handlers serve, and which were rolled back, of topics for which the new store says nothing. Returns how many.
async fn copy_deployments(from: &dyn Transfer, to: &dyn Transfer, tenants: &[Name]) -> Result<u64, StoreError> {
    let (known, mut copied) = (to.deployments().await?, 0);
    for (topic, deployment) in deployments_of(from, tenants).await? {
        if !known.contains_key(&topic) {
            copied += u64::from(to.write_deployment(&topic, &Deployment { generation: 1, ..deployment }).await?);
        }
    }
    Ok(copied)
}

/// Those of these tenants, or all.
async fn deployments_of(from: &dyn Transfer, tenants: &[Name]) -> Result<BTreeMap<TopicId, Deployment>, StoreError> {
    let mut deployments = from.deployments().await?;
    deployments.retain(|topic, _| tenants.is_empty() || tenants.contains(&topic.tenant));
    Ok(deployments)
}

/// Those of these tenants, or all.
async fn tokens_of(from: &dyn Transfer, tenants: &[Name]) -> Result<Vec<Token>, StoreError> {
    let mut tokens = from.tokens(None).await?;
    tokens.retain(|token| tenants.is_empty() || token.tenant.as_ref().is_some_and(|tenant| tenants.contains(tenant)));
    Ok(tokens)
}

fn settings(global: &Global, args: &MoveArgs) -> anyhow::Result<(StoreSettings, StoreSettings)> {
    let store = global.manifest_without_secrets()?.store;
    let read = |option: &str, text: &str| {
        let address = StoreAddress::parse(text, Path::new(""));
        let address = address.map_err(|bad| Usage(format!("{option} is no address of a store: {bad}")))?;
        if address == StoreAddress::Memory {
            return Err(Usage(format!("{option}: {address} is gone with its process, so there is nothing to move")));
        }
        Ok(StoreSettings { address, ..store.clone() })
    };
    let (from, to) = (read("--from", &args.from)?, read("--to", &args.to)?);
    if from.is_same_store(&to) {
        return Err(Usage("--from and --to are the same store".into()).into());
    }
    if let StoreAddress::File(path) = &from.address {
        ensure!(path.exists(), "there is no store at {}", path.display());
    }
    Ok((from, to))
}

async fn open(settings: &StoreSettings) -> anyhow::Result<Opened> {
    let opened = store::open(&Layout::alone(settings.clone())).await;
    if opened.is_ok() {
        super::store::note_opened();
    }
    let owned = matches!(opened, Err(StoreError::Owned { .. }));
    opened.with_context(|| {
        let first = if owned { "; end its server first, moving needs it alone" } else { "" };
        format!("failed to open {}{first}", settings.address)
    })
}

/// What became of a topic's jobs.
#[derive(Debug, Default)]
struct Copied {
    topic: String,
    tenant: String,
    ready: u64,
    delayed: u64,
    dead: u64,
    /// States of its keys.
    states: u64,
    /// Unique values of jobs that are over.
    windows: u64,
    /// An earlier, interrupted move had stored them already.
    known: u64,
    /// Began to run while they were moved: they are in both stores.
    in_both: u64,
    running: u64,
    /// Stay because they wait for other jobs, or are waited for; or came meanwhile.
    linked: u64,
    /// Cannot be read, and the new store cannot keep their form: how many, the first of them, and why.
    unreadable: Option<(usize, JobId, String)>,
    paused: bool,
    /// It was paused in the old store before, and so it is in the new one.
    paused_in_new: bool,
}

/// Moves a topic's jobs, and first the states of these keys, which handlers in the new store may ask for.
async fn copy<'a>(
    (from, to): (&dyn Transfer, &dyn Transfer),
    (topic, pause): (&TopicId, Option<Option<Pause>>),
    keys: impl Iterator<Item = &'a (TopicId, String)>,
    (keep_paused, quiet): (bool, bool),
) -> anyhow::Result<Copied> {
    // One that an interrupted move has paused says so; any other is paused by an operator, and so it is in the new store before it has jobs to run.
    let paused_by = pause.as_ref().map(|pause| pause.as_ref().and_then(|pause| pause.by.as_deref()));
    let paused_by_operator = paused_by.is_some_and(|by| by != Some(MOVER));
    as_actor(MOVER.into(), from.set_paused(topic, true)).await?;
    if paused_by_operator {
        pause_alike(to, topic, pause.flatten()).await?;
    }
    let mut copied =
        Copied { topic: topic.to_string(), tenant: topic.tenant.to_string(), paused: true, ..Copied::default() };
    copied.states = move_states(from, to, keys).await?;
    let (mut moving, mut last_note) = (TopicMove::new(from, to, topic), Instant::now());
    while let Some(moved) = moving.next_batch().await? {
        moving.clear_marks(&moved).await?;
        moved.iter().for_each(|job| copied.count(job));
        refuse_taken_ids(&moving)?;
        ensure!(
            moved.is_empty() || moved.iter().any(|job| job.removed),
            "failed to remove {} of `{topic}` from the old store: does another process change them?",
            counted(moved.len(), "job", "jobs")
        );
        if !quiet && last_note.elapsed() >= NOTE_EVERY {
            screen::note(&format!("{topic}: {} moved", copied.moved()));
            last_note = Instant::now();
        }
    }
    copied.unreadable = moving.kept.iter().find_map(|(id, reason)| match reason {
        Unmoved::Unreadable(problem) => Some((moving.kept.len(), id.clone(), problem.clone())),
        Unmoved::IdTaken => None,
    });
    copied.windows = move_windows(from, to, topic).await?;
    copied.paused_in_new = paused_by_operator;
    if !paused_by_operator && !keep_paused {
        from.set_paused(topic, false).await?;
        copied.paused = false;
    }
    let counts = from.counts(&topic.tenant).await?;
    if let Some(source) = counts.iter().find(|counts| counts.topic == *topic) {
        copied.running = source.running;
        copied.linked = (source.jobs() - source.running).saturating_sub(moving.kept.len() as u64);
    }
    Ok(copied)
}

fn refuse_taken_ids(moving: &TopicMove<'_, dyn Transfer>) -> anyhow::Result<()> {
    let mut taken = moving.kept.iter().filter(|(_, reason)| **reason == Unmoved::IdTaken).map(|(id, _)| id);
    let Some(first) = taken.next() else { return Ok(()) };
    bail!(
        "failed to move {} of `{}`, {first} first: the new store has other jobs by their ids, or it is the \
         same store by another address. If it is not, cancel or delete one of each two, and run this again",
        counted(1 + taken.count(), "job", "jobs"),
        moving.topic,
    )
}

impl Copied {
    fn count(&mut self, job: &MovedJob) {
        self.known += u64::from(job.was_there);
        self.in_both += u64::from(!job.removed);
        *match job.place {
            StoredPlace::Ready => &mut self.ready,
            StoredPlace::Delayed { .. } => &mut self.delayed,
            StoredPlace::Dead { .. } => &mut self.dead,
        } += 1;
    }

    const fn moved(&self) -> u64 {
        self.ready + self.delayed + self.dead
    }

    fn in_words(&self) -> String {
        let Self { topic, ready, delayed, dead, known, in_both, running, linked, .. } = self;
        let Self { unreadable, paused, paused_in_new, .. } = self;
        let mut words = format!("{topic}: moved {ready} ready, {delayed} delayed, {dead} dead");
        let mut add = |count: u64, what: &str| {
            if count > 0 {
                words.push_str(&format!("; {count} {what}"));
            }
        };
        add(*known, "of them there already");
        add(*in_both, "begun meanwhile, and now in both");
        add(*running, "still running, left in the old store: run this again when nothing runs");
        add(
            *linked,
            "that wait for other jobs, are waited for, came meanwhile, or stand in no line, left in the old store: have them run there, and run this again",
        );
        if let Some((count, id, problem)) = unreadable {
            words.push_str(&format!(
                "; {count} unreadable, left in the old store, {id} first ({problem}): a store of another kind cannot \
                 keep them"
            ));
        }
        if *paused {
            words.push_str(&format!("; paused in the old store until `gristmill resume {topic}`"));
        }
        if *paused_in_new {
            words.push_str("; paused in the new store, as it was in the old one");
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
            "in_both": self.in_both,
            "running_left": self.running,
            "linked_left": self.linked,
            "unreadable_left": self.unreadable.as_ref().map_or(0, |(count, ..)| *count),
            "paused": self.paused,
            "paused_in_new": self.paused_in_new,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_behind_is_said() {
        let copied = Copied { topic: "echo".into(), ready: 2, running: 1, paused: true, ..Copied::default() };
        let words = copied.in_words();
        assert!(words.starts_with("echo: moved 2 ready, 0 delayed, 0 dead; 1 still running, left"), "{words}");
        assert!(words.ends_with("`gristmill resume echo`") && !words.contains("both"), "{words}");
        let copied = Copied { linked: 2, ..copied };
        assert!(copied.in_words().contains("; 2 that wait for other jobs, are waited for, "), "{}", copied.in_words());
        assert_eq!(copied.document()["linked_left"], 2);
        assert_eq!(Copied { topic: "acme/a".into(), ..Copied::default() }.document()["topic"], "a");
    }
}
