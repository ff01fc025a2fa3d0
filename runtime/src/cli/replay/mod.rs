//! `gristmill replay`: runs a recorded attempt again, with the answers that the host gave it then, and says whether it ends in the same way.

mod against;
mod exported;
mod native;
mod steps;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ArgGroup;
use serde_json::json;

use self::against::Which;
use self::exported::{Exported, Recorded};
use super::exit::Exit;
use super::global::{Global, tenant_of};
use super::table::facts;
use super::{invoke, sandbox, screen};
use gristmill_config::{Manifest, units};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::outcome::Outcome;
use gristmill_sandbox::{Component, LogLine, Recording, ReplayVerdict, Replayed, Sandbox};

pub(super) use against::judge_last;

/// Run a recorded attempt again, without a queue and without the world
///
/// The handler gets the same job and the same answers of the host: time, random numbers, settings, responses, state. A replay sends nothing and stores nothing.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("what").required(true).args(["of", "against", "recorded"]))]
#[command(after_help = "\
Exit codes: 0 it ended as recorded, or completes with another --component (with
--against and --recorded: all of them); 1 it did not, or there was none. Secrets are in no recording: those of the manifest here are used.

Examples:
  gristmill replay 01KAFQ6Y8D2Z0V9X5T3N7M1R4C
  gristmill replay 01KAFQ6Y8D2Z0V9X5T3N7M1R4C --component build/mail.wasm
  gristmill replay 01KAFQ6Y8D2Z0V9X5T3N7M1R4C --step
  gristmill replay 01KAFQ6Y8D2Z0V9X5T3N7M1R4C --native --debug
  gristmill replay 01KAFQ6Y8D2Z0V9X5T3N7M1R4C --export failed.json
  gristmill replay failed.json
  gristmill replay --against 'state:dead topic:mail' --component build/mail.wasm
  gristmill replay --against state:dead
  gristmill replay --recorded mail --last 1000 --component build/mail.wasm")]
pub(super) struct Args {
    /// The job's id, or a file that --export wrote
    #[arg(value_name = "JOB|FILE")]
    of: Option<String>,
    /// Whose job it is [default: default]
    #[arg(long, value_name = "NAME")]
    tenant: Option<Name>,
    /// Run this component [default: the version that was recorded, from the handlers folder, the file or the server]
    #[arg(long, value_name = "FILE")]
    component: Option<PathBuf>,
    /// Walk through the calls of the host, with the log lines between them
    ///
    /// At a terminal it waits for Enter after each call, and q ends it.
    #[arg(long, conflicts_with_all = ["export", "against", "recorded"])]
    step: bool,
    /// Have the project in this folder do it natively, in CPython or Node.js, with no component [default: the folder here]
    ///
    /// Nothing is sent: requests, times, states and settings are answered from the recording, call by call. At a terminal, `breakpoint()` in Python and the
    /// exception that ends the attempt open pdb. A native run has no fuel, no limits, and random numbers of its own.
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true, default_missing_value = ".")]
    #[arg(conflicts_with_all = ["export", "against", "recorded", "component"])]
    native: Option<PathBuf>,
    /// Stop before the handler's first line, in pdb here, or in a debugger that attaches to Node.js
    #[arg(long, requires = "native")]
    debug: bool,
    /// Write the job and its recording into a file instead of running it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["component", "against", "recorded"])]
    export: Option<PathBuf>,
    /// Run the recorded jobs that fit a query, with a line for each
    ///
    /// With a component: whether they complete now. Without: whether each ends as it was recorded, by the version that it had then.
    #[arg(long, value_name = "QUERY")]
    against: Option<String>,
    /// Run the topic's latest recorded jobs, completed ones among them, with a line for each
    ///
    /// The topic's `record` says of which jobs there are recordings. One that completed, and with the component no longer does, has regressed.
    #[arg(long, value_name = "TOPIC")]
    recorded: Option<Name>,
    /// At most this many of them [default: all]
    #[arg(long, value_name = "N", requires = "recorded")]
    last: Option<usize>,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let tenant = tenant_of(args.tenant.as_ref());
    let manifest = global.manifest_here()?;
    let which = match (args.against.clone(), args.recorded.clone()) {
        (Some(query), _) => Some(Which::Fit(tenant.clone(), query)),
        (None, Some(topic)) => {
            let topic = TopicId { tenant: tenant.clone(), topic };
            Some(Which::Recorded(topic, args.last.unwrap_or(usize::MAX)))
        }
        (None, None) => None,
    };
    if let Some(which) = which {
        return against::run(global, &manifest, which, args.component.as_deref()).await;
    }
    let of = args.of.as_deref().unwrap_or_default();
    let exported = match Path::new(of) {
        path if path.is_file() => Exported::read(path)?,
        _ => Exported::fetch(global, &manifest, &tenant, of).await?,
    };
    if let Some(path) = &args.export {
        exported.write(path)?;
        return Ok(Exit::Done);
    }
    let recorded = exported.recorded()?;
    let topic = recorded.topic()?;
    if let Some(project) = &args.native {
        return natively(global, &manifest, &recorded, &topic, project, &args).await;
    }
    let sandbox = sandbox::small(&manifest, sandbox::compiler(&manifest)?)?;
    let component = match &args.component {
        Some(path) => load(&sandbox, path).await?,
        None => exported.load(&sandbox, &manifest, &recorded).await?,
    };
    let (replayed, lines) = recorded.replay(&component, &manifest, &topic).await?;
    let is_good = is_good(&replayed, component.version() == recorded.version());
    let is_mended = is_good && !recorded.recording.end.completed();
    let shown = Shown { is_stepped: args.step && !global.json, is_mended, notes: None };
    show(global, &recorded.recording, &replayed, &lines, &shown)?;
    Ok(match is_good {
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
    let debugger = native::debugger(args.debug, !global.json);
    let (replayed, notes) = native::replay(&recorded.recording, input, project, handler, debugger).await?;
    let lines = std::mem::take(&mut *lines.lock());
    let shown = Shown { is_stepped: args.step && !global.json, is_mended: false, notes: Some(notes) };
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

pub(super) async fn load(sandbox: &Sandbox, path: &Path) -> anyhow::Result<Component> {
    let wasm = std::fs::read(path).with_context(|| format!("failed to read the component {}", path.display()))?;
    sandbox.load(&wasm).await.with_context(|| format!("failed to load {}", path.display()))
}

/// How a replay is shown.
struct Shown {
    /// The calls go before the rest, with the log lines.
    is_stepped: bool,
    /// Another component completes what failed.
    is_mended: bool,
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
        steps::walk(replayed.again.as_deref().unwrap_or(recording))?;
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
    let said = said(&replayed.verdict, is_native, shown.is_mended).to_owned();
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

fn said(verdict: &ReplayVerdict, is_native: bool, is_mended: bool) -> &'static str {
    match verdict {
        ReplayVerdict::Same if is_native => "same as recorded: outcome, output and log; no fuel is counted natively",
        ReplayVerdict::Same => "same as recorded: outcome, output, log and fuel",
        ReplayVerdict::Differs(_) if is_mended => "mended: it failed as recorded, and now completes",
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
