//! `gristmill build`: from a project to a component in the handlers folder.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::json;

use super::super::exit::Exit;
use super::super::global::Global;
use super::super::{sandbox, screen};
use super::commands;
use super::file::HandlerFile;
use gristmill_config::{Manifest, units};
use gristmill_core::job::Name;
use gristmill_sandbox::{Component, Kind};

/// Build a handler's project and drop the component into the handlers folder
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Runs the lines of the project's handler.toml, checks the component that they
make, and puts it into the folder that the manifest names. A running runner
takes it over at once.

Examples:
  gristmill build
  gristmill build thumbnail --test
  gristmill build thumbnail --manifest gristmill.toml")]
pub(in crate::cli) struct Args {
    /// The project's folder
    #[arg(default_value = ".")]
    project: PathBuf,
    /// Run the project's own tests before
    #[arg(long)]
    test: bool,
}

pub(in crate::cli) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let Args { project, test } = args;
    let file = HandlerFile::read(&project)?;
    let (name, manifest) = (file.name()?, global.manifest_without_secrets()?);
    screen::note(&format!("building `{name}`, written in {}", file.language));
    make(&file, &project, test)?;
    let wasm = project.join(&file.component);
    let wasm = std::fs::read(&wasm).with_context(|| format!("the lines of handler.toml left no {}", wasm.display()))?;
    let component = sandbox::small(&manifest)?.load(&wasm).await;
    let component = component.with_context(|| format!("failed to load {}", file.component.display()))?;
    let dropped = drop_in(&manifest.handlers.folder, &name, &wasm)?;
    show(global, &manifest, &file, &component, &dropped, wasm.len() as u64)
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
) -> anyhow::Result<Exit> {
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
        }))?;
        return Ok(Exit::Done);
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
    Ok(Exit::Done)
}
