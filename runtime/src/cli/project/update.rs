//! `gristmill update`: gives a project the SDK of this version.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use serde_json::json;

use super::super::exit::{Exit, Usage};
use super::super::global::Global;
use super::super::screen;
use super::file::{FILE, HandlerFile};
use super::language::Language;
use super::{new, template};

/// Bring a project's SDK files to those of this version
///
/// They are the files that `gristmill new` wrote into `gristmill-guest/`: what connects the language to the runner, and the contract. Without
/// --yes it only says which of them differ. A file that you have changed is also replaced: look at what your version control shows.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill update
  gristmill update services/thumbnail --yes")]
pub(in crate::cli) struct Args {
    /// The project's folder, which has a handler.toml
    #[arg(default_value = ".")]
    project: PathBuf,
    /// Do it
    #[arg(long)]
    yes: bool,
}

pub(in crate::cli) fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let Args { project, yes } = args;
    let differing = Differing::of(&project)?;
    if yes {
        for (path, text) in &differing.sdk {
            new::write(&project.join(path), text)
                .with_context(|| format!("failed to write {path} in {}", project.display()))?;
        }
    }
    differing.show(global, &project, yes)?;
    Ok(Exit::Done)
}

/// Files of a project that are not those of a new one.
struct Differing {
    /// Each with its new text.
    sdk: Vec<(String, String)>,
    /// Settings of the build, which are the user's. The SDK may need theirs to be changed.
    settings: Vec<String>,
    /// The project has nothing of the SDK's package: it was made when an SDK was files beside the handler.
    is_former: bool,
}

impl Differing {
    fn of(project: &Path) -> anyhow::Result<Self> {
        let file = HandlerFile::read(project)?;
        let language = Language::from_str(&file.language, true).map_err(|_| {
            let problem = format!("`language = \"{}\"` in {}", file.language, project.join(FILE).display());
            Usage(format!("{problem} is none of those that `gristmill new` writes: there is no SDK to update"))
        })?;
        let files = template::files(language, file.name()?.as_str())?;
        let mut package = files.iter().filter(|(path, _)| template::is_package(path)).peekable();
        let is_former = package.peek().is_some() && package.all(|(path, _)| !project.join(path).exists());
        let mut differing = Self { sdk: Vec::new(), settings: Vec::new(), is_former };
        for (path, text) in files {
            if is_the_same(&project.join(&path), &text)? {
                continue;
            }
            if template::is_sdk(&path) {
                differing.sdk.push((path, text));
            } else if template::is_build_setting(&path) {
                differing.settings.push(path);
            }
        }
        differing.sdk.sort();
        Ok(differing)
    }

    fn show(&self, global: &Global, project: &Path, done: bool) -> anyhow::Result<()> {
        let sdk: Vec<_> = self.sdk.iter().map(|(path, _)| path.as_str()).collect();
        if global.json {
            let status = match (sdk.is_empty(), done) {
                (true, _) => "up-to-date",
                (false, true) => "updated",
                (false, false) => "dry-run",
            };
            return screen::document(&json!({
                "path": project.to_string_lossy(), "status": status, "files": sdk, "settings": self.settings,
            }));
        }
        if sdk.is_empty() {
            screen::note(&format!("{} has the SDK of this version", project.display()));
            return Ok(());
        }
        let did = if done { "updated" } else { "would be updated" };
        for path in sdk {
            screen::note(&format!("{did}: {path}"));
        }
        if !self.settings.is_empty() {
            let new = "may need what a new project has (`gristmill new NAME --lang … --path DIR` writes one)";
            screen::note(&format!("yours, and not changed: {}. They {new}", self.settings.join(", ")));
        }
        if self.is_former {
            screen::note(
                "this project builds with an older SDK, whose files are beside its handler. To move to this one: take over \
                 the settings and the imports of a new project, then delete those files",
            );
        }
        let next = if done { "`gristmill build --test` tries it" } else { "nothing was written: add --yes to do it" };
        screen::note(next);
        Ok(())
    }
}

fn is_the_same(path: &Path, text: &str) -> anyhow::Result<bool> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(bytes == text.as_bytes()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(anyhow!("failed to read {}: {error}", path.display())),
    }
}
