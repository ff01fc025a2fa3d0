//! `gristmill build`: from a project to a component in the handlers folder.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use serde_json::{Value, json};

use super::super::exit::Exit;
use super::super::global::Global;
use super::super::{document, sandbox, screen, signals};
use super::commands;
use super::file::HandlerFile;
use super::serving::{LocalServer, Serving};
use super::watch::Watch;
use gristmill_config::{Diagnostic, Manifest, units};
use gristmill_core::job::Name;
use gristmill_core::topic::Limits;
use gristmill_sandbox::{CompilerProcess, Component, Kind, Sandbox};

/// Build a handler's project and drop the component into the handlers folder
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Runs the lines of the project's handler.toml, checks the component that they
make, and puts it into the folder that the manifest names. If the project's
server runs on this machine, waits until it serves the new version.

Examples:
  gristmill build
  gristmill build thumbnail --test
  gristmill build && gristmill push thumbnail --file cat.jpg --wait
  gristmill build thumbnail --manifest gristmill.toml
  gristmill build --watch            # again after each save, for a runner elsewhere")]
pub(in crate::cli) struct Args {
    /// The project's folder
    #[arg(default_value = ".")]
    project: PathBuf,
    /// Run the project's own tests before
    #[arg(long)]
    test: bool,
    /// How long a running server may take to serve it; 0s: do not wait
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = units::duration)]
    wait_timeout: Duration,
    /// Build again whenever a source changes, until Ctrl-C
    #[arg(long, conflicts_with = "wait_timeout")]
    watch: bool,
}

pub(in crate::cli) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let end = signals::end()?;
    tokio::select! {
        done = work(global, &args) => done,
        () = end.first.cancelled() => if args.watch { Ok(Exit::Done) } else { bail!("a signal ended the build") },
    }
}

async fn work(global: &Global, Args { project, test, wait_timeout, watch }: &Args) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    // Here and not in a child process, whose low priority is for servers: a person waits, and on a busy machine it would run out of time.
    let compiler = if *watch { CompilerProcess::Incremental } else { CompilerProcess::This };
    let sandbox = sandbox::small(&manifest, compiler)?;
    let steps = if *test { BuildSteps::TestAndBuild } else { BuildSteps::Build };
    if !watch {
        let checked = check(project, &manifest, &sandbox, steps).await?;
        return serve(global, &manifest, checked, *wait_timeout).await;
    }
    let mut watch = Watch::start(project, &manifest);
    loop {
        if let Err(error) = build_again(global, project, &sandbox, steps).await {
            screen::note(&format!("error: {error:#}"));
        }
        screen::note("waiting for changes");
        watch.changed().await;
    }
}

/// By the manifest as it is now.
async fn build_again(global: &Global, project: &Path, sandbox: &Sandbox, steps: BuildSteps) -> anyhow::Result<()> {
    let manifest = global.manifest_without_secrets()?;
    build(project, &manifest, sandbox, steps).await?.show(global, &Serving::Unknown)
}

/// Drops a component into the handlers folder, and waits for a running server.
async fn serve(global: &Global, manifest: &Manifest, checked: Checked, wait_timeout: Duration) -> anyhow::Result<Exit> {
    let mut server = server(global, manifest, &checked, wait_timeout).await.unwrap_or_else(|error| {
        screen::note(&format!("note: whether a running server takes it over is not known: {error:#}"));
        None
    });
    let version = checked.component.version().to_string();
    if checked.is_in(&manifest.handlers.folder)
        && let Some(server) = &mut server
    {
        server.forget_refusals();
    }
    let built = checked.drop_into(manifest)?;
    let serving = match server {
        None => Serving::Unknown,
        Some(server) => server.wait_for(&version, wait_timeout).await?,
    };
    built.show(global, &serving)?;
    Ok(if built.lacking.is_empty() { serving.exit() } else { Exit::Failed })
}

/// The server that is to take the component over, for the topics that grant what it imports. `None`: there is nothing to wait for.
async fn server(
    global: &Global,
    manifest: &Manifest,
    checked: &Checked,
    wait_timeout: Duration,
) -> anyhow::Result<Option<LocalServer>> {
    if wait_timeout.is_zero() {
        return Ok(None);
    }
    let topics = manifest.topics_of(&checked.name).into_iter();
    let topics = topics.filter(|topic| topic.lacks(checked.component.demands()).is_empty());
    Ok(LocalServer::find(&global.way(manifest)?, topics.map(|topic| topic.id).collect()).await?)
}

/// What a build made.
struct Checked {
    name: Name,
    language: String,
    component: Component,
    wasm: Vec<u8>,
    /// As in [`Built`].
    took: (Duration, Duration),
}

/// What a build made, and dropped into the handlers folder.
#[derive(Debug)]
pub(in crate::cli) struct Built {
    pub(in crate::cli) name: Name,
    language: String,
    pub(in crate::cli) component: Component,
    pub(in crate::cli) dropped: PathBuf,
    bytes: u64,
    /// Of each topic of it that does not grant what it imports.
    lacking: Vec<Diagnostic>,
    /// Of the lines of the project, and of the check that follows, which compiles the component.
    pub(in crate::cli) took: (Duration, Duration),
}

/// Which lines of a project are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum BuildSteps {
    /// None: the component is there.
    None,
    Build,
    /// Also those of its tests, before.
    TestAndBuild,
}

/// From a project's sources to a checked component in the handlers folder of `manifest`. What fails on the way leaves the folder
/// as it is. Dropping the future ends the project's tools.
///
/// # Errors
/// There is no project, a line of it fails, or the component fails a check.
pub(in crate::cli) async fn build(
    project: &Path,
    manifest: &Manifest,
    sandbox: &Sandbox,
    steps: BuildSteps,
) -> anyhow::Result<Built> {
    check(project, manifest, sandbox, steps).await?.drop_into(manifest)
}

/// From a project's sources to a component that starts, and has a handler that can be called.
async fn check(project: &Path, manifest: &Manifest, sandbox: &Sandbox, steps: BuildSteps) -> anyhow::Result<Checked> {
    let file = HandlerFile::read(project)?;
    let name = file.name()?;
    let mut built = Duration::ZERO;
    if steps != BuildSteps::None {
        screen::note(&format!("building `{name}`, written in {}", file.language));
        let began = Instant::now();
        make(&file, project, steps).await?;
        built = began.elapsed();
    }
    let made = Instant::now();
    let wasm = project.join(&file.component);
    let wasm = std::fs::read(&wasm).with_context(|| format!("the lines of handler.toml left no {}", wasm.display()))?;
    let component = sandbox.load(&wasm).await;
    let component = component.with_context(|| format!("failed to load {}", file.component.display()))?;
    let limits = manifest.topics_of(&name).into_iter().map(|topic| topic.limits).reduce(Limits::narrowest);
    let limits = limits.unwrap_or_default();
    let unfit = |problem| anyhow!("{} is not used: {problem}", file.component.display());
    component.try_start(&limits).await.map_err(unfit)?;
    component.self_test(&limits).await.map_err(unfit)?;
    Ok(Checked { name, language: file.language, component, wasm, took: (built, made.elapsed()) })
}

impl Checked {
    /// Whether the folder has this very component.
    fn is_in(&self, folder: &Path) -> bool {
        std::fs::read(folder.join(format!("{}.wasm", self.name))).is_ok_and(|there| there == self.wasm)
    }

    fn drop_into(self, manifest: &Manifest) -> anyhow::Result<Built> {
        let Self { name, language, component, wasm, took } = self;
        let dropped = drop_in(&manifest.handlers.folder, &name, &wasm)?;
        let lacking = lacking(manifest, &name, &component);
        Ok(Built { name, language, component, dropped, bytes: wasm.len() as u64, lacking, took })
    }
}

/// Fetches what the project needs.
pub(super) async fn set_up(file: &HandlerFile, project: &Path) -> anyhow::Result<()> {
    commands::look_for(&file.needs, &std::env::var_os("PATH").unwrap_or_default())?;
    commands::run(&file.setup, project).await
}

/// From sources to the component's file.
async fn make(file: &HandlerFile, project: &Path, steps: BuildSteps) -> anyhow::Result<()> {
    set_up(file, project).await?;
    if steps == BuildSteps::TestAndBuild {
        commands::run(&file.test, project).await?;
    }
    commands::run(&file.build, project).await
}

/// Written beside its place and renamed, so that no reader sees half a component.
fn drop_in(folder: &Path, name: &Name, wasm: &[u8]) -> anyhow::Result<PathBuf> {
    let target = folder.join(format!("{name}.wasm"));
    let failed = || format!("failed to write {}", target.display());
    std::fs::create_dir_all(folder).with_context(failed)?;
    let landing = folder.join(format!(".{name}.wasm.{}", std::process::id()));
    std::fs::write(&landing, wasm).with_context(failed)?;
    let renamed = std::fs::rename(&landing, &target).with_context(failed);
    if renamed.is_err() {
        let _ = std::fs::remove_file(&landing);
    }
    renamed.map(|()| target)
}

fn lacking(manifest: &Manifest, name: &Name, component: &Component) -> Vec<Diagnostic> {
    let topics = manifest.topics_of(name).into_iter();
    let lacking = topics.map(|topic| (topic.lacks(component.demands()), topic));
    lacking
        .filter(|(lacking, _)| !lacking.is_empty())
        .map(|(lacking, topic)| manifest.missing_grants(&topic, &lacking))
        .collect()
}

impl Built {
    fn show(&self, global: &Global, serving: &Serving) -> anyhow::Result<()> {
        if global.json {
            let more = [("served", serving.is_served().into()), ("refused", serving.refused().into())];
            return screen::document(&document::with(self.as_document(), more));
        }
        screen::line(&self.in_words())?;
        self.note_problems();
        serving.note();
        Ok(())
    }

    pub(in crate::cli) fn as_document(&self) -> Value {
        let titles: Vec<_> = self.lacking.iter().map(|problem| problem.title()).collect();
        json!({
            "handler": self.name.as_str(),
            "language": self.language,
            "path": self.dropped.to_string_lossy(),
            "component_bytes": self.bytes,
            "version": self.component.version().to_string(),
            "problems": titles,
        })
    }

    /// What was made.
    pub(in crate::cli) fn in_words(&self) -> String {
        let (size, version) = (units::SIZE.about(self.bytes), self.component.version());
        let made = match self.component.kind() {
            Kind::Component => "a component",
            Kind::CoreModule => "a core module, made a component as it is loaded",
        };
        format!("{}: {size}, {made}, version {version}", self.dropped.display())
    }

    /// Says to people which lines the manifest lacks.
    pub(in crate::cli) fn note_problems(&self) {
        for problem in &self.lacking {
            screen::note_rendered(|colour| format!("\n{}", problem.render(colour)));
        }
    }
}
