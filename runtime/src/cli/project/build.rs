//! `gristmill build`: from a project to a component in the handlers folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::json;

use super::super::exit::Exit;
use super::super::global::Global;
use super::super::{sandbox, screen};
use super::commands;
use super::file::HandlerFile;
use super::serving::{LocalServer, Serving};
use gristmill_config::{Manifest, units};
use gristmill_core::job::Name;
use gristmill_sandbox::{Component, Kind};

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
  gristmill build thumbnail --manifest gristmill.toml")]
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
}

pub(in crate::cli) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let Args { project, test, wait_timeout } = args;
    let file = HandlerFile::read(&project)?;
    let (name, manifest) = (file.name()?, global.manifest_without_secrets()?);
    screen::note(&format!("building `{name}`, written in {}", file.language));
    make(&file, &project, test)?;
    let wasm = project.join(&file.component);
    let wasm = std::fs::read(&wasm).with_context(|| format!("the lines of handler.toml left no {}", wasm.display()))?;
    let component = sandbox::small(&manifest)?.load(&wasm).await;
    let component = component.with_context(|| format!("failed to load {}", file.component.display()))?;
    let mut server = server(global, &manifest, &name, &component, wait_timeout).await.unwrap_or_else(|error| {
        screen::note(&format!("note: whether a running server takes it over is not known: {error:#}"));
        None
    });
    let folder = &manifest.handlers.folder;
    if std::fs::read(folder.join(format!("{name}.wasm"))).is_ok_and(|before| before == wasm)
        && let Some(server) = &mut server
    {
        server.forget_refusals();
    }
    let dropped = drop_in(folder, &name, &wasm)?;
    let serving = match server {
        None => Serving::Unknown,
        Some(server) => server.wait_for(&component.version().to_string(), wait_timeout).await?,
    };
    show(global, &manifest, &file, &component, &dropped, wasm.len() as u64, &serving)?;
    Ok(serving.exit())
}

/// The server that is to take the component over, for the topics that grant what it imports. `None`: there is nothing to wait for.
async fn server(
    global: &Global,
    manifest: &Manifest,
    name: &Name,
    component: &Component,
    wait_timeout: Duration,
) -> anyhow::Result<Option<LocalServer>> {
    if wait_timeout.is_zero() {
        return Ok(None);
    }
    let topics = manifest.topics_of(name).into_iter().filter(|topic| topic.lacks(component.demands()).is_empty());
    Ok(LocalServer::find(&global.way(manifest)?, topics.map(|topic| topic.id).collect()).await?)
}

/// From sources to the component's file. Blocks: there is nothing else to do meanwhile.
fn make(file: &HandlerFile, project: &Path, test: bool) -> anyhow::Result<()> {
    commands::look_for(&file.needs, &std::env::var_os("PATH").unwrap_or_default())?;
    commands::run(&file.setup, project)?;
    if test {
        commands::run(&file.test, project)?;
    }
    commands::run(&file.build, project)
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

fn show(
    global: &Global,
    manifest: &Manifest,
    file: &HandlerFile,
    component: &Component,
    dropped: &Path,
    bytes: u64,
    serving: &Serving,
) -> anyhow::Result<()> {
    let lacking: Vec<_> = manifest
        .topics_of(&file.name()?)
        .into_iter()
        .map(|topic| (topic.lacks(component.demands()), topic))
        .filter(|(lacking, _)| !lacking.is_empty())
        .map(|(lacking, topic)| manifest.missing_grants(&topic, &lacking))
        .collect();
    if global.json {
        let titles: Vec<_> = lacking.iter().map(|problem| problem.title()).collect();
        screen::document(&json!({
            "handler": file.name,
            "language": file.language,
            "path": dropped.to_string_lossy(),
            "component_bytes": bytes,
            "version": component.version().to_string(),
            "problems": titles,
            "served": serving.is_served(),
            "refused": serving.refused(),
        }))?;
        return Ok(());
    }
    let (size, version) = (units::SIZE.about(bytes), component.version());
    let made = match component.kind() {
        Kind::Component => "a component",
        Kind::CoreModule => "a core module, made a component as it is loaded",
    };
    screen::note(&format!("{}: {size}, {made}, version {version}", dropped.display()));
    for problem in lacking {
        screen::note(&format!("\n{}", problem.render(screen::note_has_colour())));
    }
    serving.note();
    Ok(())
}
