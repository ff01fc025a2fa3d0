//! `gristmill invoke`: one attempt of one component, here and now, with no queue.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::exit::Exit;
use super::global::{Global, TopicName};
use super::input::{Body, pair};
use super::table::facts;
use super::{describe, document, folder, sandbox, screen, used};
use gristmill_config::{Manifest, units};
use gristmill_core::admission::Targets;
use gristmill_core::job::{Due, JobOptions, JobSpec, Name, NewJob, Payload};
use gristmill_core::outcome::{FailureDetail, Outcome};
use gristmill_core::time::{Timestamp, millis};
use gristmill_core::topic::{Limits, Topic};
use gristmill_runner::handlers::Code;
use gristmill_sandbox::{Attempt, LogLine, LogSink, Report};

const PREVIEW_CHARS: usize = 160;

/// Run a component once, with no queue and no store
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The result goes to standard output, everything about it to standard error.
Limits, settings and secrets are those of the topic. Follow-up jobs are shown
and go nowhere.

Examples:
  gristmill invoke handlers/echo.wasm --data hello
  gristmill invoke handlers/resize-image.wasm --file cat.jpg --meta width=200 > small.jpg
  gristmill invoke mine.wasm --topic order-timeout --fuel 10M --attempt 3 --json")]
pub(super) struct Args {
    /// The component's file
    component: PathBuf,
    #[command(flatten)]
    body: Body,
    /// The topic whose job it is [default: the file's name]
    #[arg(long)]
    topic: Option<TopicName>,
    /// The topic's tenant, unless it is written before the topic [default: default]
    #[arg(long, value_name = "NAME", requires = "topic")]
    tenant: Option<Name>,
    /// Fuel, such as 500M
    #[arg(long, value_parser = |text: &str| units::COUNT.parse(text))]
    fuel: Option<u64>,
    /// Memory, such as 64MiB
    #[arg(long, value_name = "SIZE", value_parser = |text: &str| units::SIZE.parse(text))]
    memory: Option<u64>,
    /// Wall clock, such as 30s
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    timeout: Option<Duration>,
    /// Which attempt it is, from 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    attempt: u32,
    /// A header that the handler sees; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    meta: Vec<(String, String)>,
    /// A setting that the handler sees, over the topic's; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    config: Vec<(String, String)>,
}

/// As in the manifest.
fn some_time(text: &str) -> Result<Duration, String> {
    match units::duration(text).map_err(|wrong| wrong.to_string())? {
        Duration::ZERO => Err("a timeout is at least 1ms".into()),
        timeout => Ok(timeout),
    }
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let manifest = global.manifest()?;
    let topic = topic(&manifest, &args)?;
    let (path, body) = (args.component, args.body.read()?);
    let wasm = std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let component = sandbox::small(&manifest, sandbox::compiler(&manifest)?)?.load(&wasm).await;
    let component = component.with_context(|| format!("failed to load {}", path.display()))?;
    let lacking = topic.lacks(component.demands());
    if !lacking.is_empty() {
        let problem = manifest.missing_grants(&topic, &lacking).to_string();
        // `complain` begins with the same word.
        return Err(anyhow!("{}", problem.strip_prefix("error: ").unwrap_or(&problem)));
    }

    let spec = JobSpec { metadata: args.meta, ..JobSpec::new(topic.id.clone(), body) };
    let targets = folder::known_topics(&manifest).targets(&topic.id.tenant);
    attempt(&Code::Component(component), &topic, targets, spec, args.attempt).await.show(global, &topic.limits)
}

/// The topic with what the options say on top.
fn topic(manifest: &Manifest, args: &Args) -> anyhow::Result<Topic> {
    let named = args.topic.as_ref().map(|topic| topic.of(args.tenant.as_ref())).transpose()?;
    let mut topic = folder::topic_of(manifest, named.as_ref(), &args.component)?;
    let limits = &mut topic.limits;
    limits.fuel = args.fuel.unwrap_or(limits.fuel);
    limits.memory_bytes = args.memory.unwrap_or(limits.memory_bytes);
    limits.timeout = args.timeout.unwrap_or(limits.timeout);
    Arc::make_mut(&mut topic.grants).config.extend(args.config.iter().cloned());
    Ok(topic)
}

/// How an attempt went.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) report: Report,
    pub(super) lines: Vec<LogLine>,
    began: Timestamp,
    /// How many requests over HTTP the topic's attempts may send; none if it is not granted any.
    requests_max: Option<u32>,
    /// Neither fuel nor memory was counted.
    is_native: bool,
}

/// One attempt beside the queue: in a fresh instance, if it is a component; with the limits and grants of the topic. Its follow-up jobs may name `targets`
/// and go nowhere.
pub(super) async fn attempt(code: &Code, topic: &Topic, targets: Arc<Targets>, spec: JobSpec, attempt: u32) -> Ran {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let attempt = Attempt {
        attempt,
        max_attempts: topic.retry.attempts.max(attempt),
        adapter: topic.adapter.clone(),
        grants: Arc::clone(&topic.grants),
        targets,
        logs: LogSink::Collect(Arc::clone(&lines)),
        ..Attempt::at(spec, topic.limits)
    };
    let requests_max = topic.grants.http.as_ref().map(|http| http.requests);
    let began = Timestamp::now();
    let report = match code {
        Code::Component(component) => component.invoke(attempt).await,
        Code::Native(function) => function.invoke(attempt).await,
    };
    let lines = std::mem::take(&mut *lines.lock());
    Ran { report, lines, began, requests_max, is_native: matches!(code, Code::Native(_)) }
}

impl Ran {
    fn show(&self, global: &Global, limits: &Limits) -> anyhow::Result<Exit> {
        if global.json {
            screen::document(&self.as_document(limits))?;
        } else {
            screen::note(&facts(&self.about(limits)));
            if let Some(output) = self.output() {
                screen::result(&output.data)?;
            }
        }
        Ok(match self.report.outcome {
            Outcome::Complete(_) | Outcome::Snooze(_) => Exit::Done,
            _ => Exit::NotCompleted,
        })
    }

    /// The result, if there is one.
    pub(super) fn output(&self) -> Option<&Payload> {
        match &self.report.outcome {
            Outcome::Complete(output) => output.as_ref(),
            _ => None,
        }
    }

    /// Facts with their names, of which `log` and `follow-ups` have several lines.
    pub(super) fn about(&self, limits: &Limits) -> Vec<(&'static str, String)> {
        let Self { report, lines, began, .. } = self;
        let (fuel, memory) = (units::COUNT.about(report.fuel), units::SIZE.about(report.memory_peak));
        let mut facts = vec![("outcome", outcome(&report.outcome))];
        if !self.is_native {
            facts.push(("fuel", format!("{fuel} of {}", units::COUNT.about(limits.fuel))));
            facts.push(("memory", format!("{memory} of {}", units::SIZE.about(limits.memory_bytes))));
        }
        facts.extend([
            ("time", format!("{:.1?} of {}", report.duration, units::about_duration(limits.timeout))),
            ("used", used::in_words(&self.uses(limits))),
        ]);
        if !report.follow_ups.is_empty() {
            let lines: Vec<_> = report.follow_ups.iter().map(|new| follow_up(new, *began)).collect();
            facts.push(("follow-ups", lines.join("\n")));
        }
        if !lines.is_empty() {
            let lines: Vec<_> = lines.iter().map(log_line).collect();
            facts.push(("log", lines.join("\n")));
        }
        if report.log_lines_dropped > 0 {
            facts.push(("dropped", format!("{} log lines over the log-limit", report.log_lines_dropped)));
        }
        facts
    }

    fn uses(&self, limits: &Limits) -> Vec<used::Use> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let report = &self.report;
        let mut uses = Vec::new();
        if !self.is_native {
            uses.push(("fuel", report.fuel, limits.fuel));
            uses.push(("memory", report.memory_peak, limits.memory_bytes));
            uses.push(("host calls", report.host_calls, limits.host_calls));
            uses.push(("log", report.log_bytes, limits.log_bytes));
        }
        uses.push(("time", micros(report.duration), micros(limits.timeout)));
        uses.push(("follow-ups", report.follow_ups.len() as u64, limits.follow_ups.into()));
        if let Some(most) = self.requests_max {
            uses.push(("requests", report.requests, most.into()));
        }
        if let Some(output) = self.output() {
            uses.push(("output", output.data.len() as u64, limits.output_bytes));
        }
        uses
    }

    pub(super) fn as_document(&self, limits: &Limits) -> Value {
        let Self { report, lines, began, .. } = self;
        let (name, text) = in_words(&report.outcome);
        let line = |line: &LogLine| {
            let level = line.level.as_str().to_lowercase();
            json!({ "level": level, "source": line.source, "message": line.message, "fields": line.fields })
        };
        json!({
            "outcome": name,
            "message": text,
            "output": self.output().map(document::payload),
            "fuel": report.fuel,
            "memory_peak_bytes": report.memory_peak,
            "nearest_limit": used::nearest(&self.uses(limits)),
            "duration_us": u64::try_from(report.duration.as_micros()).unwrap_or(u64::MAX),
            "follow_ups": report.follow_ups.iter().map(|new| document::follow_up(new, millis(due_in(new, *began)))).collect::<Vec<_>>(),
            "log": lines.iter().map(line).collect::<Vec<_>>(),
            "log_lines_dropped": report.log_lines_dropped,
        })
    }
}

/// Its name, and what there is to say.
pub(super) fn outcome(outcome: &Outcome) -> String {
    let (name, text) = in_words(outcome);
    if text.is_empty() { name.into() } else { format!("{name}: {text}") }
}

/// A stable name, and what there is to say.
fn in_words(outcome: &Outcome) -> (&'static str, String) {
    match outcome {
        Outcome::Complete(None) => ("complete", String::new()),
        Outcome::Complete(Some(output)) => {
            let kind = output.content_type.as_deref().map(|kind| format!(", {kind}")).unwrap_or_default();
            ("complete", format!("{}{kind}", units::SIZE.about(output.data.len() as u64)))
        }
        Outcome::Snooze(after) => ("snooze", format!("again in {}", units::about_duration(*after))),
        Outcome::Retry { detail, after: None } => ("retry", detail_in_words(detail)),
        Outcome::Retry { detail, after: Some(after) } => {
            ("retry", format!("in {}: {}", units::about_duration(*after), detail_in_words(detail)))
        }
        Outcome::Reject(detail) => ("rejected", detail_in_words(detail)),
        Outcome::OutOfFuel { limit } => ("fuel-exhausted", format!("all {} are used up", units::COUNT.about(*limit))),
        Outcome::MemoryExceeded { limit, .. } => {
            ("memory-exceeded", format!("asked for more than {}", units::SIZE.about(*limit)))
        }
        Outcome::TimedOut { limit } => ("timeout", format!("ran longer than {}", units::about_duration(*limit))),
        Outcome::Trapped { message, backtrace } => ("trap", format!("{message}\n{backtrace}").trim_end().into()),
        Outcome::LimitExceeded { limit, allowed } => ("limit", format!("went over {}", limit.in_words(*allowed))),
        Outcome::HostFault(fault) => ("not-run", format!("host fault: {fault}")),
        Outcome::PoolFull | Outcome::HandlerMissing | Outcome::ShuttingDown | Outcome::Killed => {
            ("not-run", outcome.kind().to_string())
        }
        Outcome::TenantFull { limit, .. } => ("tenant-full", format!("see `{limit}`")),
        Outcome::Expired => ("expired", String::new()),
        Outcome::PredecessorFailed { job, ended } => ("predecessor", format!("job {job} is {ended}")),
        Outcome::LeaseExpired => ("lease-expired", String::new()),
        Outcome::WorkerDied => ("worker-died", String::new()),
    }
}

fn detail_in_words(detail: &FailureDetail) -> String {
    let FailureDetail { code, message, context } = detail;
    let context = match context {
        None => String::new(),
        Some(context) if describe::is_text(context) => format!("\n{}", String::from_utf8_lossy(&context.data)),
        Some(context) => format!("\n{}", describe::payload(context)),
    };
    format!("{code}: {message}{context}")
}

fn follow_up(new: &NewJob, began: Timestamp) -> String {
    let due = match due_in(new, began) {
        Duration::ZERO => String::new(),
        wait => format!(" in {}", units::about_duration(wait)),
    };
    let body = screen::preview(&new.spec.body.data, PREVIEW_CHARS);
    format!("{}{due}{}: {body}", new.spec.topic, linked(&new.spec.options))
}

/// Without ids, which differ from run to run.
fn linked(links: &JobOptions) -> String {
    let after = match links.after.len() {
        0 => String::new(),
        1 => " after another job".into(),
        jobs => format!(" after {jobs} jobs"),
    };
    format!(
        "{}{after}{}",
        if links.open { " once sealed" } else { "" },
        if links.batch.is_some() { " in a batch" } else { "" }
    )
}

/// From the beginning of the attempt: a minute is a minute, however long the guest ran on.
fn due_in(new: &NewJob, began: Timestamp) -> Duration {
    match new.due {
        Due::Now => Duration::ZERO,
        Due::After(wait) => wait,
        Due::At(at) => at.since(began),
    }
}

/// In one line.
pub(super) fn log_line(line: &LogLine) -> String {
    // What a guest prints has no level of its own: the stream says as much.
    let level = if line.source == "log" { line.level.as_str() } else { line.source };
    format!("{level:<8} {}  {}", line.message, line.fields_in_words()).trim_end().replace('\n', "\\n")
}
