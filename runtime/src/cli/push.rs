//! `gristmill push`: jobs into the store, and perhaps their result out of it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use tokio::time::Instant;

use super::exit::{Exit, Usage};
use super::global::{Global, TopicName, tenant_of};
use super::input::{Body, pair};
use super::store::{Reached, Way};
use super::wait::Wait;
use super::{folder, known, push_from, push_lines, screen, wait};
use gristmill_config::{KnownTopics, units};
use gristmill_core::admission::Rules;
use gristmill_core::job::{AfterFailed, Due, JobId, JobOptions, JobSpec, Name, NewJob, Priority, TopicId, Unique};
use gristmill_core::time::Timestamp;
use gristmill_server::WrongRequest;
use gristmill_store::{Pushed, StoreError};

/// Jobs made and sent at once, so that a large `--count` needs little memory.
pub(super) const CHUNK: u32 = 500;

/// The answer must outlive the wait for it, or the last read finds nothing.
const ANSWER_GRACE: Duration = Duration::from_secs(60);

/// Push a job, and print its id or wait for its result
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill push resize-image --file cat.jpg --meta width=200 --wait > small.jpg
  gristmill push order-timeout --file order.json --delay 30m --unique order-17
  gristmill push report --at 2026-11-20T18:00:00+01:00
  gristmill push mail --jsonl jobs.jsonl
  gristmill push report --after 01KAFQ6Y8D2Z0V9X5T3N7M1R4C,01KAFQ6Y8D2Z0V9X5T3N7M1R4D
  gristmill push --from-job 01KAFQ6Y8D2Z0V9X5T3N7M1R4C --edit --wait
  echo '{\"n\": 1}' | gristmill push acme/echo --content-type application/json --ttl 1h")]
pub(super) struct Args {
    /// The topic, or tenant/topic
    #[arg(required_unless_present = "from_job")]
    topic: Option<TopicName>,
    #[command(flatten)]
    body: Body,
    /// Make the job due after this long, such as 30s or 2h
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    delay: Option<Duration>,
    /// Make the job due at this time, such as 2026-11-20T18:00:00+01:00
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse, conflicts_with = "delay")]
    at: Option<Timestamp>,
    /// Push a job for each line of a file, or of standard input (`-`): a JSON object with the fields of a push over HTTP, such as
    /// {"id": "order-17", "body": {"to": "ada"}, "delay_ms": 5000}. Repeat a push that failed: a job with an id is stored once
    #[arg(long, value_name = "PATH", conflicts_with_all = ["Body", "delay", "at", "count", "meta", "id", "Options", "wait"])]
    jsonl: Option<PathBuf>,
    /// Push a new job like this one, which waits, runs or is dead: to its topic, or to another. It is due now, and waits for no other job
    #[arg(long, value_name = "ID", conflicts_with_all = ["Body", "delay", "at", "count", "meta", "id", "Options", "jsonl"])]
    from_job: Option<JobId>,
    /// Edit the new job as JSON before it is pushed, with the program that the variable VISUAL or EDITOR names
    #[arg(long, requires = "from_job")]
    edit: bool,
    /// Push this many jobs with the same body
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// A header that the handler sees; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    meta: Vec<(String, String)>,
    /// The job's id, instead of a new one; pushing the same id again changes nothing
    #[arg(long, conflicts_with = "count")]
    id: Option<JobId>,
    #[command(flatten)]
    options: Options,
    /// The topic's tenant, unless it is written before the topic [default: default]
    #[arg(long, value_name = "NAME")]
    tenant: Option<Name>,
    /// Wait until the job is done, and write its result to standard output
    #[arg(long, conflicts_with = "count")]
    wait: bool,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = units::duration, requires = "wait")]
    wait_timeout: Duration,
}

// What is documented here would be the help of the command.
#[derive(Debug, clap::Args)]
struct Options {
    /// Jobs of the topic with the same key run one at a time and in order; the handler sees it
    #[arg(long)]
    key: Option<String>,
    /// Which of the topic's ready jobs come first; low ones wait longer, but not for ever
    #[arg(long, default_value_t = Priority::Normal, value_name = "PRIORITY", value_parser = priority())]
    priority: Priority,
    /// Push nothing if a waiting or running job of the topic has the same value
    #[arg(long, value_name = "VALUE")]
    unique: Option<String>,
    /// Hold the unique value for this long from now, instead of until the job is done
    #[arg(long, value_name = "DURATION", value_parser = units::duration, requires = "unique")]
    unique_for: Option<Duration>,
    /// Tries in all, instead of the topic's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    attempts: Option<u32>,
    /// How long after it became due the job may still start, instead of the topic's
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    ttl: Option<Duration>,
    /// Keep what becomes of the job for this long, if the topic does not keep it longer
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    keep_result: Option<Duration>,
    /// Wait until these jobs have ended: ids with commas between them; may be repeated
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    after: Vec<JobId>,
    /// What becomes of the job if one of these was not done: dead, or run all the same
    #[arg(long, default_value_t = AfterFailed::Dead, value_name = "WHAT", value_parser = after_failed())]
    after_failed: AfterFailed,
    /// Make the job a member of this batch, which waits for it
    #[arg(long, value_name = "ID")]
    batch: Option<JobId>,
    /// Make the job a batch: it waits until `gristmill job seal`, and for all its members
    #[arg(long)]
    open: bool,
}

impl From<Options> for JobOptions {
    fn from(options: Options) -> Self {
        Self {
            key: options.key,
            priority: options.priority,
            unique: options.unique.map(|value| Unique { value, window: options.unique_for }),
            max_attempts: options.attempts,
            ttl: options.ttl,
            keep_result: options.keep_result,
            after: options.after,
            after_failed: options.after_failed,
            batch: options.batch,
            open: options.open,
        }
    }
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    let known_topics = global.has_manifest().then(|| folder::known_topics(&manifest));
    let pusher = Pusher { global, way: global.way(&manifest)?, known_topics };
    if let Some(id) = &args.from_job {
        return pusher.push_from(id, &args).await;
    }
    let topic = named(args.topic.clone())?.of(args.tenant.as_ref())?;
    if let Some(path) = &args.jsonl {
        return push_lines::push(&pusher, &topic, path).await;
    }
    let (plan, waiting) = plan(args, topic)?;
    match waiting {
        None => pusher.push_all(&plan).await,
        Some(patience) => pusher.push_and_wait(&plan, patience).await,
    }
}

/// Where jobs are pushed to.
pub(super) struct Pusher<'a> {
    pub(super) global: &'a Global,
    pub(super) way: Way,
    /// `None` without a manifest: nothing is known of the topics.
    known_topics: Option<KnownTopics>,
}

impl Pusher<'_> {
    /// A job like another one.
    async fn push_from(&self, id: &JobId, args: &Args) -> anyhow::Result<Exit> {
        let target = args.topic.as_ref().map(|target| target.of(args.tenant.as_ref())).transpose()?;
        let tenant = tenant_of(target.as_ref().map(|target| &target.tenant).or(args.tenant.as_ref()));
        let draft = push_from::draft(&self.way, self.global, (&tenant, id), target, args.edit).await?;
        let Some(mut draft) = draft else { return Ok(Exit::Failed) };
        let NewJob { spec, due } = draft.job.clone();
        let mut plan = Plan { spec, due, count: 1, own_id: true };
        let pushed = if args.wait {
            plan.spec.options.keep_result = Some(args.wait_timeout + ANSWER_GRACE).max(plan.spec.options.keep_result);
            self.push_and_wait(&plan, args.wait_timeout).await
        } else {
            self.push_one(&plan, &mut draft).await
        };
        pushed.map_err(|error| match draft.keep() {
            Some(kept) => error.context(kept),
            None => error,
        })
    }

    async fn push_one(&self, plan: &Plan, draft: &mut push_from::Draft) -> anyhow::Result<Exit> {
        let reached = self.way.reach_or_make().await?;
        let stored = self.store(&reached, plan.jobs(1)).await?;
        stored.warn(self.global, &reached).await;
        let is_duplicate = stored.pushed.iter().any(|pushed| matches!(pushed, Pushed::Duplicate(_)));
        stored.show(self.global)?;
        if is_duplicate {
            draft.keep().iter().for_each(|kept| screen::note(kept));
        }
        Ok(Exit::Done)
    }

    async fn push_all(&self, plan: &Plan) -> anyhow::Result<Exit> {
        let (reached, mut remaining) = (self.way.reach_or_make().await?, plan.count);
        while remaining > 0 {
            let stored = self.store(&reached, plan.jobs(remaining.min(CHUNK))).await?;
            if remaining == plan.count {
                stored.warn(self.global, &reached).await;
            }
            stored.show(self.global)?;
            remaining -= remaining.min(CHUNK);
        }
        Ok(Exit::Done)
    }

    /// Admits jobs and stores them. A server admits them by its own manifest.
    pub(super) async fn store(&self, reached: &Reached, jobs: Vec<NewJob>) -> anyhow::Result<PushedJobs> {
        let (mut admitted, mut warnings) = (Vec::with_capacity(jobs.len()), BTreeSet::new());
        if let Some(server) = &reached.server {
            return Ok(match server.push_with_warnings(&jobs).await {
                Err(error @ StoreError::Unconfirmed { .. }) => PushedJobs::unconfirmed(jobs, error),
                answer => {
                    let (pushed, warnings) = answer.map_err(as_without_server)?;
                    PushedJobs { jobs, pushed, warnings, unconfirmed: None }
                }
            });
        }
        for job in jobs {
            let known = match &self.known_topics {
                Some(known_topics) => known_topics.admit(job),
                None => Rules::ANY.admit(job).map(|job| (job, None)),
            };
            let (job, unknown) = known.map_err(|refused| Usage(refused.to_string()))?;
            warnings.extend(unknown.map(|unknown| unknown.to_string()));
            admitted.push(job);
        }
        Ok(match reached.store.push(&admitted).await {
            Err(error @ StoreError::Unconfirmed { .. }) => PushedJobs::unconfirmed(admitted, error),
            pushed => PushedJobs { jobs: admitted, pushed: pushed?, warnings, unconfirmed: None },
        })
    }

    async fn push_and_wait(&self, plan: &Plan, patience: Duration) -> anyhow::Result<Exit> {
        let Self { global, way, .. } = self;
        let topic = &plan.spec.topic;
        let reached = way.reach_or_make().await?;
        // Before the push, or the end of a quick job is missed.
        let signals = match (reached.store.signals(std::slice::from_ref(&topic.tenant)).await, &reached.server) {
            // A token that may push, and not read.
            (Err(StoreError::Refused { .. }), Some(server)) => {
                let (is_named, jobs) = (plan.own_id || plan.spec.options.unique.is_some(), plan.jobs(1));
                let Some(job) = jobs.first() else { return Ok(Exit::Failed) };
                let answer = server.push_and_wait(job, is_named, patience).await;
                let (id, view) = answer.map_err(|error| match error {
                    StoreError::Unconfirmed { .. } => not_confirmed(&jobs, error),
                    other => as_without_server(other),
                })?;
                let end = view
                    .map_or(wait::WaitResult::Gone, |view| wait::end_of(view).unwrap_or(wait::WaitResult::TimedOut));
                return wait::show(global, topic, &id, &end);
            }
            (signals, _) => signals?,
        };
        let stored = self.store(&reached, plan.jobs(1)).await?;
        if let Some(error) = stored.unconfirmed {
            return Err(not_confirmed(&stored.jobs, error));
        }
        stored.warn(global, &reached).await;
        let Some((job, pushed)) = stored.jobs.first().zip(stored.pushed.first()) else { return Ok(Exit::Failed) };
        if let Pushed::Refused(no) = pushed {
            anyhow::bail!("failed to push job {}: {no}", job.spec.id);
        }
        let (id, _) = known_as(job, pushed);
        if screen::is_watched() && !global.quiet {
            screen::note(&format!("job {id} is pushed; waiting for its end"));
        }
        let (until, mut wait) = (Instant::now() + patience, Wait::new(global, &topic.tenant, id));
        let end = if reached.is_ours_alone {
            // No other process can work on it as long as this one owns the store.
            drop((signals, reached));
            wait.for_end_by_any_way(way, until).await?
        } else {
            match wait.for_end(&*reached.store, signals, patience).await {
                Err(error) if error.is_unavailable() && way.changes_hands() => {
                    wait.for_end_by_any_way(way, until).await?
                }
                end => end?,
            }
        };
        wait::show(global, topic, id, &end)
    }
}

/// The grammar asks for a topic unless another job has one.
fn named(topic: Option<TopicName>) -> Result<TopicName, Usage> {
    topic.ok_or_else(|| Usage("no topic is named".into()))
}

/// Reads a priority by its name; help and errors list the names.
pub(super) fn priority() -> impl TypedValueParser<Value = Priority> {
    PossibleValuesParser::new(Priority::ALL.map(Priority::as_str)).try_map(|name| name.parse::<Priority>())
}

fn after_failed() -> impl TypedValueParser<Value = AfterFailed> {
    PossibleValuesParser::new(AfterFailed::ALL.map(AfterFailed::as_str)).try_map(|name| name.parse::<AfterFailed>())
}

/// What to push.
#[derive(Debug)]
struct Plan {
    spec: JobSpec,
    due: Due,
    count: u32,
    own_id: bool,
}

/// The plan, and how long to wait for its end, if at all.
fn plan(args: Args, topic: TopicId) -> anyhow::Result<(Plan, Option<Duration>)> {
    let body = args.body.read()?;
    let patience = args.wait.then_some(args.wait_timeout);
    let mut options = JobOptions::from(args.options);
    options.keep_result = patience.map(|patience| patience + ANSWER_GRACE).max(options.keep_result);
    let own_id = args.id.is_some();
    let spec = JobSpec { id: args.id.unwrap_or_else(JobId::generate), topic, body, metadata: args.meta, options };
    let due = args.at.map(Due::At).or(args.delay.map(Due::After)).unwrap_or_default();
    Ok((Plan { spec, due, count: args.count, own_id }, patience))
}

impl Plan {
    fn jobs(&self, count: u32) -> Vec<NewJob> {
        let id = || if self.own_id { self.spec.id.clone() } else { JobId::generate() };
        (0..count).map(|_| NewJob { spec: JobSpec { id: id(), ..self.spec.clone() }, due: self.due }).collect()
    }
}

/// A job that the server refuses is refused in the words, and with the exit code, that it has without a server.
fn as_without_server(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Refused { source, .. } if source.is::<WrongRequest>() => Usage(source.to_string()).into(),
        other => other.into(),
    }
}

/// Says under which ids the jobs are stored, since only these make a repeat harmless.
fn not_confirmed(jobs: &[NewJob], error: StoreError) -> anyhow::Error {
    let remedy = match jobs {
        [job] => {
            let id = &job.spec.id;
            format!("job {id} is not confirmed: repeat the push with this id (`--id {id}`), which stores no second job")
        }
        _ => "the jobs with the ids above are not confirmed: a repeat without these ids stores them again".into(),
    };
    anyhow::Error::from(error).context(remedy)
}

/// What became of some jobs.
pub(super) struct PushedJobs {
    jobs: Vec<NewJob>,
    /// Of each job; empty if they are not confirmed.
    pushed: Vec<Pushed>,
    warnings: BTreeSet<String>,
    unconfirmed: Option<StoreError>,
}

impl PushedJobs {
    const fn unconfirmed(jobs: Vec<NewJob>, error: StoreError) -> Self {
        Self { jobs, pushed: Vec::new(), warnings: BTreeSet::new(), unconfirmed: Some(error) }
    }

    /// Says to people what they may not expect of the topic, and whether anything does its jobs.
    pub(super) async fn warn(&self, global: &Global, reached: &Reached) {
        self.warnings.iter().for_each(|warning| screen::note(&format!("warning: {warning}")));
        let mut pushed = self.jobs.iter().zip(&self.pushed);
        if let Some((job, _)) = pushed.find(|(_, pushed)| **pushed == Pushed::Stored) {
            known::note_idle(global, reached, &job.spec.topic, !self.warnings.is_empty()).await;
        }
    }

    /// Prints the ids under which the jobs are known.
    ///
    /// # Errors
    /// A job is refused. Or the jobs are not confirmed: their ids are printed nevertheless.
    pub(super) fn show(self, global: &Global) -> anyhow::Result<()> {
        let Some(error) = self.unconfirmed else {
            return self.jobs.iter().zip(&self.pushed).try_for_each(|(job, pushed)| show(global, job, pushed));
        };
        self.jobs.iter().try_for_each(|job| print(global, job, &job.spec.id, "unconfirmed"))?;
        Err(not_confirmed(&self.jobs, error))
    }
}

/// Prints the id under which the job is known.
fn show(global: &Global, job: &NewJob, pushed: &Pushed) -> anyhow::Result<()> {
    let (id, status) = known_as(job, pushed);
    match pushed {
        Pushed::Stored => {}
        Pushed::Exists | Pushed::Duplicate(_) if global.json => {}
        Pushed::Exists => screen::note(&format!("note: job {id} is stored already; nothing was changed")),
        Pushed::Refused(no) => anyhow::bail!("failed to push job {id}: {no}"),
        Pushed::Duplicate(_) => {
            screen::note(&format!("note: job {id} has the same unique value; nothing was pushed"));
            if job.spec.options.unique.as_ref().is_some_and(|unique| unique.window.is_some()) {
                let topic = &job.spec.topic;
                screen::note(&format!(
                    "the value may be held for longer than that job: `gristmill unique show {topic} VALUE` says until when, `unique free` frees it"
                ));
            }
        }
    }
    print(global, job, id, status)
}

fn print(global: &Global, job: &NewJob, id: &JobId, status: &str) -> anyhow::Result<()> {
    if !global.json {
        return screen::line(id.as_str());
    }
    let TopicId { tenant, topic } = &job.spec.topic;
    let (tenant, topic) = (tenant.as_str(), topic.as_str());
    screen::document(&json!({ "id": id.as_str(), "tenant": tenant, "topic": topic, "status": status }))
}

fn known_as<'a>(job: &'a NewJob, pushed: &'a Pushed) -> (&'a JobId, &'static str) {
    match pushed {
        Pushed::Stored => (&job.spec.id, "stored"),
        Pushed::Exists => (&job.spec.id, "exists"),
        Pushed::Duplicate(other) => (other, "duplicate"),
        Pushed::Refused(_) => (&job.spec.id, "refused"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_core::job::Payload;

    fn plan_of(count: u32) -> Plan {
        let spec = JobSpec::new("resize-image".parse().unwrap(), Payload::default());
        Plan { spec, due: Due::Now, count, own_id: false }
    }

    #[test]
    fn many_jobs_have_ids_of_their_own() {
        let jobs = plan_of(2).jobs(2);
        assert_ne!(jobs[0].spec.id, jobs[1].spec.id);
    }
}
