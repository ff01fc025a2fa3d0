//! `gristmill replay --native`: a project's handler does a recorded attempt again in a process of this machine, where the language's own debugger can hold it.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use tokio::signal::unix::{SignalKind, signal};

use super::super::exit::Usage;
use super::super::native::{Debugger, Mode, Process};
use super::super::{project, screen};
use gristmill_core::job::Name;
use gristmill_core::topic::Adapter;
use gristmill_runner::native::outcome;
use gristmill_sandbox::{NativeReplay, Recording, ReplayInput, Replayed};

/// When a debugger takes over: at once if that is wanted, or else only where there is a person to use it.
pub(super) fn debugger(is_wanted: bool, has_reader: bool) -> Debugger {
    let is_watched = has_reader && io::stdin().is_terminal() && io::stderr().is_terminal();
    match is_wanted {
        true => Debugger::AtFirst,
        false if is_watched => Debugger::AtTerminal,
        false => Debugger::Off,
    }
}

/// Waits for the handler's end for as long as it takes. `handler` is whose job it is. Returns what is to be said beside the verdict, too.
///
/// # Errors
/// There is no such project, it makes another handler or cannot be started; or the recording cannot be replayed.
pub(super) async fn replay(
    recording: &Arc<Recording>,
    input: ReplayInput,
    project: &Path,
    handler: Option<&Name>,
    debugger: Debugger,
) -> anyhow::Result<(Replayed, Vec<String>)> {
    let native = project::native(project)?.ok_or_else(|| {
        let folder = project.display();
        Usage(format!(
            "--native: handler.toml in {folder} has no key `native`, the line that starts the handler without a component; new projects in \
             JavaScript, TypeScript and Python have it"
        ))
    })?;
    if let Some(handler) = handler.filter(|handler| **handler != native.name) {
        let (folder, name) = (project.display(), &native.name);
        return Err(Usage(format!("the job is one of the handler `{handler}`, and {folder} makes `{name}`")).into());
    }
    let mut replay = NativeReplay::new(recording, input)?;
    let is_handler = matches!(replay.attempt().adapter, Adapter::Handler);
    ensure!(is_handler, "the attempt was one of a program, which has no native form: replay it without --native");
    project::set_up(project).await?;
    // Ctrl-C is for the handler, or for its debugger.
    let _interrupts = signal(SignalKind::interrupt()).context("failed to listen for signals")?;
    screen::note(&format!("`{}` runs natively in {}: {}", native.name, project.display(), native.line));
    let grants = Arc::clone(&replay.attempt().grants);
    let mut process = Process::start(&native.line, project, Mode::Replay { debugger, env: &grants.env }).await?;
    let ended = match process.attempt(&mut replay).await {
        Ok(ended) => ended,
        Err(error) => Err(process.ended(error).await),
    };
    let most = replay.attempt().limits.output_bytes;
    Ok(replay.end(outcome(ended).within(most)))
}
