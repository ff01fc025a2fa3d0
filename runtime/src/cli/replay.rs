//! `gristmill replay`: runs a recorded attempt again, with the answers that the host gave it then, and says whether it ends in the same way.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use clap::ArgGroup;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::exit::{Exit, Usage};
use super::global::{Global, tenant_of};
use super::store::Served;
use super::table::{Table, facts};
use super::{invoke, replay_native, replay_steps, sandbox, screen};
use gristmill_config::{Manifest, units};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::json::Base64;
use gristmill_core::outcome::Outcome;
use gristmill_sandbox::{
    Component, LogLine, LogSink, Recording, ReplayInput, ReplayVerdict, Replayed, Sandbox, Version,
};
use gristmill_store::look_up;

/// Jobs in one answer to `--against`.
const PAGE: usize = 200;

/// Run a recorded attempt again, without a queue and without the world
///
/// The handler gets the same job and the same answers of the host: time, random numbers, settings, responses, state. A replay sends nothing and stores nothing.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("what").required(true).args(["of", "against"]))]
#[command(after_help = "\
Exit codes: 0 it ended as recorded, or completes with another --component; 1 it
did not. Secrets are in no recording: those of the manifest here are used.

Examples:
  gristmill replay 01KAFQ6Y8D2Z0V9X5T3N7M1R4C
  gristmill replay 01KAFQ6Y8D2Z0V9X5T3N7M1R4C --component build/mail.wasm
  gristmill replay 01KAFQ6Y8D2Z0V9X5T3N7M1R4C --step
  gristmill replay 01KAFQ6Y8D2Z0V9X5T3N7M1R4C --native --debug
  gristmill replay 01KAFQ6Y8D2Z0V9X5T3N7M1R4C --export failed.json
  gristmill replay failed.json
  gristmill replay --against 'state:dead topic:mail' --component build/mail.wasm")]
pub(super) struct Args {
    /// The job's id, or a file that --export wrote
    #[arg(value_name = "JOB|FILE")]
    of: Option<String>,
    /// Whose job it is [default: default]
    #[arg(long, value_name = "NAME")]
    tenant: Option<Name>,
    /// Run this component [default: the one in the handlers folder]
    #[arg(long, value_name = "FILE")]
    component: Option<PathBuf>,
    /// Walk through the calls of the host, with the log lines between them
    ///
    /// At a terminal it waits for Enter after each call, and q ends it.
    #[arg(long, conflicts_with_all = ["export", "against"])]
    step: bool,
    /// Have the project in this folder do it natively, in CPython or Node.js, with no component [default: the folder here]
    ///
    /// Nothing is sent: requests, times, states and settings are answered from the recording, call by call. At a terminal, `breakpoint()` in Python and the
    /// exception that ends the attempt open pdb. A native run has no fuel, no limits, and random numbers of its own.
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true, default_missing_value = ".")]
    #[arg(conflicts_with_all = ["export", "against", "component"])]
    native: Option<PathBuf>,
    /// Stop before the handler's first line, in pdb here, or in a debugger that attaches to Node.js
    #[arg(long, requires = "native")]
    debug: bool,
    /// Write the job and its recording into a file instead of running it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["component", "against"])]
    export: Option<PathBuf>,
    /// Run the recorded jobs that fit a query, with a line for each
    #[arg(long, value_name = "QUERY", requires = "component")]
    against: Option<String>,
}

/// What a replay needs, as a file has it.
#[derive(Debug, Serialize, Deserialize)]
struct Exported {
    /// Of this form.
    gristmill_replay: u8,
    #[serde(with = "Base64")]
    body: Vec<u8>,
    #[serde(with = "Base64")]
    recording: Vec<u8>,
}

const FORM: u8 = 1;

/// A recorded attempt and the job's body.
struct Recorded {
    recording: Arc<Recording>,
    body: Vec<u8>,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let tenant = tenant_of(args.tenant.as_ref());
    let manifest = global.manifest_here()?;
    if let (Some(query), Some(component)) = (&args.against, &args.component) {
        return against(global, &manifest, &tenant, query, component).await;
    }
    let of = args.of.as_deref().unwrap_or_default();
    let exported = if Path::new(of).is_file() { read_file(Path::new(of))? } else { fetch(global, &tenant, of).await? };
    if let Some(path) = &args.export {
        let text = serde_json::to_vec_pretty(&exported)?;
        std::fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))?;
        return Ok(Exit::Done);
    }
    let recorded = Recorded::of(&exported)?;
    let topic = recorded.topic()?;
    if let Some(project) = &args.native {
        return natively(global, &manifest, &recorded, &topic, project, &args).await;
    }
    let is_another = args.component.is_some();
    let path = args.component.unwrap_or_else(|| component_of(&manifest, &topic));
    let component = load(&sandbox::small(&manifest, sandbox::compiler(&manifest)?)?, &path).await?;
    let head = &recorded.recording.head;
    if component.version().0 != head.component && !is_another {
        bail!(
            "the attempt ran version {}, and {} is version {}\nname the file of that version with --component",
            Version(head.component),
            path.display(),
            component.version(),
        );
    }
    let (replayed, lines) = recorded.replay(&component, &manifest, &topic).await?;
    let shown = Shown { is_stepped: args.step && !global.json, notes: None };
    show(global, &recorded.recording, &replayed, &lines, &shown)?;
    Ok(match is_good(&replayed, component.version().0 == head.component) {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

/// The attempt again, by the handler in a project's folder.
async fn natively(
    global: &Global,
    manifest: &Manifest,
    recorded: &Recorded,
    topic: &TopicId,
    project: &Path,
    args: &Args,
) -> anyhow::Result<Exit> {
    let (input, lines) = recorded.input(manifest, topic);
    let handler = manifest.topics.get(topic).map(|topic| &topic.handler);
    let debugger = replay_native::debugger(args.debug, !global.json);
    let (replayed, notes) = replay_native::replay(&recorded.recording, input, project, handler, debugger).await?;
    let lines = std::mem::take(&mut *lines.lock());
    let shown = Shown { is_stepped: args.step && !global.json, notes: Some(notes) };
    show(global, &recorded.recording, &replayed, &lines, &shown)?;
    Ok(match &replayed.verdict {
        ReplayVerdict::Same => Exit::Done,
        ReplayVerdict::Differs(_) | ReplayVerdict::AsksElse(_) => Exit::Failed,
    })
}

/// Ended as recorded; or, with another component, completed.
fn is_good(replayed: &Replayed, is_same: bool) -> bool {
    let completes = matches!(replayed.report.outcome, Outcome::Complete(_) | Outcome::Snooze(_));
    match &replayed.verdict {
        ReplayVerdict::Same => is_same || completes,
        ReplayVerdict::Differs(_) => !is_same && completes,
        ReplayVerdict::AsksElse(_) => false,
    }
}

fn component_of(manifest: &Manifest, topic: &TopicId) -> PathBuf {
    let handler = manifest.topics.get(topic).map_or(&topic.topic, |topic| &topic.handler);
    manifest.handlers.folder.join(format!("{handler}.wasm"))
}

pub(super) async fn load(sandbox: &Sandbox, path: &Path) -> anyhow::Result<Component> {
    let wasm = std::fs::read(path)
        .with_context(|| format!("failed to read the component {}: name one with --component", path.display()))?;
    sandbox.load(&wasm).await.with_context(|| format!("failed to load {}", path.display()))
}

fn read_file(path: &Path) -> anyhow::Result<Exported> {
    let text = std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
    let exported: Exported = serde_json::from_slice(&text)
        .with_context(|| format!("{} is no file that `gristmill replay --export` wrote", path.display()))?;
    match exported.gristmill_replay {
        FORM => Ok(exported),
        form => bail!("{} has form {form}, and this version reads form {FORM}", path.display()),
    }
}

async fn fetch(global: &Global, tenant: &Name, of: &str) -> anyhow::Result<Exported> {
    let id = of.parse().map_err(|error| Usage(format!("`{of}` is no file, and no job: {error}")))?;
    let server = global.way(&global.manifest_without_secrets()?)?.served().await?;
    let exported = exported(&server, tenant, &id).await;
    server.end().await;
    exported
}

async fn exported(server: &Served, tenant: &Name, id: &JobId) -> anyhow::Result<Exported> {
    let none = || {
        anyhow!(
            "no recording of job {id} is kept: its topic's `record` says of which attempts there is one, and the oldest make room for others"
        )
    };
    let recording = server.recording(tenant, id).await?.ok_or_else(none)?;
    let view = look_up(&**server, tenant, id).await?;
    let job = view.and_then(|view| view.job).ok_or_else(|| anyhow!("job {id} is over, and its body is gone"))?;
    Ok(Exported { gristmill_replay: FORM, body: job.spec.body.data, recording })
}

impl Recorded {
    fn of(exported: &Exported) -> anyhow::Result<Self> {
        let recording = Arc::new(Recording::parse(&exported.recording)?);
        Ok(Self { recording, body: exported.body.clone() })
    }

    fn topic(&self) -> anyhow::Result<TopicId> {
        let head = &self.recording.head;
        Ok(TopicId { tenant: head.tenant.parse()?, topic: head.topic.parse()? })
    }

    async fn replay(
        &self,
        component: &Component,
        manifest: &Manifest,
        topic: &TopicId,
    ) -> anyhow::Result<(Replayed, Vec<LogLine>)> {
        let (input, lines) = self.input(manifest, topic);
        let replayed = component.replay(&self.recording, input).await?;
        let lines = std::mem::take(&mut *lines.lock());
        Ok((replayed, lines))
    }

    /// What the recording does not have, and where the log lines go.
    fn input(&self, manifest: &Manifest, topic: &TopicId) -> (ReplayInput, Arc<Mutex<Vec<LogLine>>>) {
        let grants = manifest.topics.get(topic).map(|topic| Arc::clone(&topic.grants)).unwrap_or_default();
        let lines = Arc::<Mutex<Vec<LogLine>>>::default();
        let input = ReplayInput {
            body: self.body.clone(),
            secrets: grants
                .all_secrets()
                .into_iter()
                .map(|(name, secret)| (name.to_owned(), secret.to_vec()))
                .collect(),
            env: grants.all_env().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            logs: LogSink::Collect(Arc::clone(&lines)),
        };
        (input, lines)
    }
}

/// How a replay is shown.
struct Shown {
    /// The calls go before the rest, with the log lines.
    is_stepped: bool,
    /// Of a native replay: what is to be said beside the verdict.
    notes: Option<Vec<String>>,
}

fn show(
    global: &Global,
    recording: &Recording,
    replayed: &Replayed,
    lines: &[LogLine],
    shown: &Shown,
) -> anyhow::Result<()> {
    let (report, head, is_native) = (&replayed.report, &recording.head, shown.notes.is_some());
    if shown.is_stepped {
        replay_steps::walk(replayed.again.as_deref().unwrap_or(recording))?;
    }
    if global.json {
        return screen::document(&json!({
            "job": head.job,
            "attempt": head.attempt,
            "verdict": word(&replayed.verdict),
            "detail": details(&replayed.verdict),
            "recorded": { "outcome": recording.end.outcome, "fuel": recording.end.fuel },
            "outcome": report.outcome.kind(),
            "fuel": (!is_native).then_some(report.fuel),
            "native": is_native,
            "notes": shown.notes,
            "calls": recording.calls().collect::<Vec<_>>(),
            "log": lines.iter().map(invoke::log_line).collect::<Vec<_>>(),
        }));
    }
    let mut about = vec![
        ("job", format!("{} (attempt {}), recorded as {}", head.job, head.attempt, recording.end.outcome)),
        ("calls", format!("{} of the host", recording.calls().len())),
    ];
    if !matches!(replayed.verdict, ReplayVerdict::AsksElse(_)) {
        about.push(("outcome", invoke::outcome(&report.outcome)));
        if !is_native {
            about.push(("fuel", units::COUNT.about(report.fuel)));
        }
    }
    if !lines.is_empty() && !shown.is_stepped {
        about.push(("log", lines.iter().map(invoke::log_line).collect::<Vec<_>>().join("\n")));
    }
    if let Some(notes) = shown.notes.as_ref().filter(|notes| !notes.is_empty()) {
        about.push(("note", notes.join("\n")));
    }
    let said = said(&replayed.verdict, is_native).to_owned();
    about.push(("verdict", [vec![said], details(&replayed.verdict)].concat().join("\n")));
    screen::note(&facts(&about));
    match &report.outcome {
        Outcome::Complete(Some(output)) => screen::result(&output.data),
        _ => Ok(()),
    }
}

fn word(verdict: &ReplayVerdict) -> &'static str {
    match verdict {
        ReplayVerdict::Same => "same",
        ReplayVerdict::Differs(_) => "differs",
        ReplayVerdict::AsksElse(_) => "asks-else",
    }
}

fn said(verdict: &ReplayVerdict, is_native: bool) -> &'static str {
    match verdict {
        ReplayVerdict::Same if is_native => "same as recorded: outcome, output and log; no fuel is counted natively",
        ReplayVerdict::Same => "same as recorded: outcome, output, log and fuel",
        ReplayVerdict::Differs(_) => "it ends in another way than recorded",
        ReplayVerdict::AsksElse(_) => "it asks something else of the host than was recorded",
    }
}

fn details(verdict: &ReplayVerdict) -> Vec<String> {
    match verdict {
        ReplayVerdict::Same => Vec::new(),
        ReplayVerdict::Differs(differences) => differences.clone(),
        ReplayVerdict::AsksElse(diverged) => vec![diverged.to_string()],
    }
}

/// All recorded jobs that fit, with another component.
async fn against(
    global: &Global,
    manifest: &Manifest,
    tenant: &Name,
    query: &str,
    path: &Path,
) -> anyhow::Result<Exit> {
    let component = load(&sandbox::small(manifest, sandbox::compiler(manifest)?)?, path).await?;
    let server = global.way(&global.manifest_without_secrets()?)?.served().await?;
    let judged = judge(&server, &component, manifest, tenant, query, usize::MAX).await;
    server.end().await;
    let judged = judged?;
    let count = |word: &str| judged.iter().filter(|(_, verdict, _)| *verdict == word).count();
    if global.json {
        for (job, verdict, detail) in &judged {
            screen::document(&json!({ "job": job, "verdict": verdict.replace(' ', "-"), "detail": detail }))?;
        }
    } else if judged.is_empty() {
        screen::note("there is no such job");
    } else {
        let mut table = Table::new(&["JOB", "VERDICT", "DETAIL"]).last_below();
        for (job, verdict, detail) in &judged {
            table.row([job.to_string(), (*verdict).to_owned(), detail.clone()]);
        }
        table.print()?;
        screen::note(&counts(&judged));
    }
    Ok(if count("mended") == judged.len() { Exit::Done } else { Exit::Failed })
}

/// How many of each kind.
pub(super) fn counts(judged: &[Judged]) -> String {
    let count = |word: &str| judged.iter().filter(|(_, verdict, _)| *verdict == word).count();
    let words = ["mended", "still fails", "asks something else", "not replayed"];
    words.map(|word| format!("{} {word}", count(word))).join(", ")
}

/// A job, what another component makes of it, and the detail.
pub(super) type Judged = (JobId, &'static str, String);

/// Judges the first `most` jobs that fit.
pub(super) async fn judge(
    server: &Served,
    component: &Component,
    manifest: &Manifest,
    tenant: &Name,
    query: &str,
    most: usize,
) -> anyhow::Result<Vec<Judged>> {
    let (mut judged, mut after) = (Vec::new(), None);
    loop {
        let page = server.find(tenant, query, after.as_ref(), PAGE).await?;
        for view in page.jobs.into_iter().take(most - judged.len()) {
            let (verdict, detail) = match judge_one(server, component, manifest, tenant, &view.id).await {
                Ok(known) => known,
                Err(error) => ("not replayed", format!("{error:#}")),
            };
            judged.push((view.id, verdict, detail));
        }
        after = page.next;
        if after.is_none() || judged.len() >= most {
            return Ok(judged);
        }
    }
}

async fn judge_one(
    server: &Served,
    component: &Component,
    manifest: &Manifest,
    tenant: &Name,
    id: &JobId,
) -> anyhow::Result<(&'static str, String)> {
    let recorded = Recorded::of(&exported(server, tenant, id).await?)?;
    let topic = recorded.topic()?;
    let (replayed, _) = recorded.replay(component, manifest, &topic).await?;
    Ok(match &replayed.verdict {
        ReplayVerdict::AsksElse(diverged) => ("asks something else", diverged.to_string()),
        _ if is_good(&replayed, false) => ("mended", String::new()),
        _ => ("still fails", invoke::outcome(&replayed.report.outcome).lines().next().unwrap_or_default().to_owned()),
    })
}
