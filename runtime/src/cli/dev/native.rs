//! Projects whose jobs are done natively, by processes of the machine, while their handlers are written: `dev --native`.
//!
//! The runner keeps all its rules, as the jobs are those of a native handler: leases, retries, follow-up jobs, states. What a component has
//! besides, its sandbox, is not there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use parking_lot::Mutex;

use super::super::exit::Usage;
use super::super::native::{Mode, Process};
use super::super::project::{self, NativeProject};
use super::super::screen;
use super::jobs;
use crate::Builder;
use gristmill_core::job::Name;
use gristmill_runner::native::{HandlerError, NativeJob, Output};

/// Attempts at once: each has a process of its own.
pub(super) const PROCESSES: u32 = 16;
/// How long a process may take to import the handler.
const PATIENCE: Duration = Duration::from_secs(60);
/// How soon a job is tried again that came while no process was idle. It uses no attempt.
const NOT_YET: Duration = Duration::from_secs(1);

/// Ends of the names of sources of handlers that can be native.
const SOURCES: [&str; 9] = ["toml", "py", "js", "cjs", "mjs", "jsx", "ts", "mts", "tsx"];

/// The processes of each project that has some.
pub(super) type Native = BTreeMap<PathBuf, Arc<Processes>>;

/// Of those of these projects that say how.
///
/// # Errors
/// None does.
pub(super) fn native(projects: &[PathBuf]) -> Result<Native, Usage> {
    // What is wrong with a project is shown when it is built.
    let found = projects.iter().filter_map(|project| {
        let native = project::native(project).ok()??;
        Some((project.clone(), Arc::new(Processes::new(native.name, project))))
    });
    let native: Native = found.collect();
    if native.is_empty() {
        return Err(Usage(
            "--native: no handler.toml here has the key `native`, the line that starts the handler without a component; new projects in \
             JavaScript, TypeScript and Python have it"
                .into(),
        ));
    }
    Ok(native)
}

/// Has the runner that is built give their jobs to them.
///
/// # Errors
/// Never: they are names already.
pub(super) fn register(native: &Native, mut builder: Builder) -> anyhow::Result<Builder> {
    for processes in native.values() {
        let name = &processes.name;
        screen::note(&format!(
            "warning: `{name}` runs natively, as a process of this machine: no sandbox holds, no limit of fuel and memory, no grant of clock, \
             random and http. `gristmill build` makes the component that runs in production"
        ));
        let processes = Arc::clone(processes);
        builder = builder.handler(name.as_str(), move |job| Arc::clone(&processes).attempt(job))?;
    }
    Ok(builder)
}

/// Whether a handler may have written this file below its project: a process of this machine can, and must not start itself anew by it.
pub(super) fn is_output(project: &Path, path: &Path) -> bool {
    let is_source = path.extension().is_some_and(|extension| SOURCES.iter().any(|source| extension == *source));
    let is_named = ["requirements.txt", "package.json"].iter().any(|name| path.ends_with(name))
        || path.starts_with(project.join(jobs::FOLDER));
    path.starts_with(project) && !is_source && !is_named
}

/// The processes of a project, each of which does one job at a time.
#[derive(Debug)]
pub(super) struct Processes {
    name: Name,
    project: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The shell line that starts a process.
    line: String,
    /// Which version of the sources serves.
    version: u64,
    /// The sources of now are those of that version.
    is_current: bool,
    /// Of that version.
    idle: Vec<Process>,
    /// Another one of that version is being started.
    is_starting: bool,
}

impl Processes {
    fn new(name: Name, project: &Path) -> Self {
        Self { name, project: project.to_owned(), state: Mutex::default() }
    }

    /// Has the sources of now serve, from the next attempt on. If they do not load, the processes that are there go on.
    ///
    /// # Errors
    /// A line of the project fails, or the handler cannot be imported.
    pub(super) async fn restart(&self) -> anyhow::Result<NativeProject> {
        self.state.lock().is_current = false;
        let native = project::native(&self.project)?.context("handler.toml has no key `native` any more")?;
        ensure!(native.name == self.name, "the handler is now called `{}`: start `gristmill dev` again", native.name);
        project::set_up(&self.project).await?;
        let start = Process::start(&native.line, &self.project, Mode::Jobs);
        let process = tokio::time::timeout(PATIENCE, start).await.context("the handler is still not imported")??;
        let mut state = self.state.lock();
        let (line, version) = (native.line.clone(), state.version + 1);
        let next = State { line, version, is_current: true, idle: vec![process], is_starting: false };
        let before = std::mem::replace(&mut *state, next);
        drop(state);
        drop(before);
        Ok(native)
    }

    async fn attempt(self: Arc<Self>, mut job: NativeJob) -> Result<Output, HandlerError> {
        let Some((version, mut process)) = self.take() else { return Ok(Output::Snooze(NOT_YET)) };
        match process.attempt(&mut job).await {
            Ok(ending) => {
                let mut state = self.state.lock();
                if state.version == version {
                    state.idle.push(process);
                }
                ending
            }
            Err(error) => Err(process.ended(error).await),
        }
    }

    /// An idle process, and the version of the sources that it has. `None`: none is idle. Then one is started for the next try, beside the
    /// attempt: what an import takes is no time of a job's.
    fn take(self: &Arc<Self>) -> Option<(u64, Process)> {
        let mut state = self.state.lock();
        while let Some(mut process) = state.idle.pop() {
            if process.is_alive() {
                return Some((state.version, process));
            }
        }
        if state.is_current && !std::mem::replace(&mut state.is_starting, true) {
            tokio::spawn(Arc::clone(self).start_another(state.version, state.line.clone()));
        }
        None
    }

    async fn start_another(self: Arc<Self>, version: u64, line: String) {
        let started = tokio::time::timeout(PATIENCE, Process::start(&line, &self.project, Mode::Jobs)).await;
        let mut state = self.state.lock();
        if state.version != version {
            return;
        }
        state.is_starting = false;
        match started {
            Ok(Ok(process)) => state.idle.push(process),
            Ok(Err(error)) => screen::note(&format!("`{}` has no further process: {error:#}", self.name)),
            Err(_) => {
                screen::note(&format!("`{}` has no further process: the handler is still not imported", self.name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_native_handler_writes_below_its_project_is_no_source() {
        let is_output = |path: &str| is_output(Path::new("/p/a"), Path::new(path));
        assert!(is_output("/p/a/out.csv") && is_output("/p/a/data/jobs.db"));
        let sources = [
            "handler.py",
            "lib/mail.py",
            "handler.ts",
            "handler.toml",
            "requirements.txt",
            "package.json",
            "jobs/ada.json",
        ];
        assert!(!sources.iter().any(|source| is_output(&format!("/p/a/{source}"))));
        assert!(!is_output("/p/b/src/lib.rs") && !is_output("/p/gristmill.toml"));
    }
}
