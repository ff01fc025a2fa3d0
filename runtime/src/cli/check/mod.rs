//! `gristmill check`: whether the manifest and the components are good, without doing a job.

mod document;
mod examine;
mod show;

use std::path::PathBuf;

use self::examine::Checked;
use super::exit::Exit;
use super::folder::{self, ComponentFile};
use super::global::Global;
use super::{sandbox, screen};
use gristmill_config::{Diagnostic, Manifest, ManifestError};
use gristmill_core::job::Name;
use gristmill_server::try_tls;

/// Check the manifest and components: what made them, what they import, which grants they need
///
/// Looks at every component in the handlers folder, or at the files that are named, wherever they are. Each is started
/// once, in a sandbox, and does no job.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every problem is shown, not only the first; the exit code is 1 if there is
one. Nothing is sent to the store.

Examples:
  gristmill check
  gristmill check build/thumbnail.wasm
  gristmill check --manifest staging.toml --json | jq 'select(.kind == \"problem\")'")]
pub(super) struct Args {
    /// Check these files only, and show all about them
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let manifest = match global.manifest() {
        Ok(manifest) => manifest,
        Err(error) => match error.downcast_ref() {
            Some(invalid @ ManifestError::Invalid { .. }) => return refuse(global, invalid),
            // There is nothing to check.
            _ => return Err(error),
        },
    };
    let whole = args.files.is_empty();
    let files = if whole { folder::scan(&manifest.handlers)? } else { folder::named(args.files)? };
    let checked = check_all(&manifest, files).await?;
    let mut problems: Vec<_> = checked.iter().flat_map(|checked| checked.missing_grants(&manifest)).collect();
    if whole {
        problems.extend(manifest.unwritable_logs());
        problems.extend(manifest.missing_folder());
        let unusable = manifest.http.tls.clone().and_then(|tls| try_tls(tls).err());
        problems.extend(unusable.map(|error| manifest.unusable_certificate(&format!("{error:#}"))));
        problems.extend(missing_handlers(&manifest, &checked));
    }
    if global.json {
        checked.iter().try_for_each(|checked| screen::document(&document::component(checked)))?;
        problems.iter().try_for_each(|problem| screen::document(&document::problem(problem)))?;
    } else if whole {
        show::folder(&manifest, &checked, &problems)?;
    } else {
        show::files(&checked, &problems)?;
    }
    let bad = checked.iter().filter(|checked| checked.component.is_err()).count() + problems.len();
    Ok(if bad == 0 { Exit::Done } else { Exit::Failed })
}

fn refuse(global: &Global, error: &ManifestError) -> anyhow::Result<Exit> {
    if global.json {
        for problem in error.problems() {
            screen::document(&document::problem(problem))?;
        }
    } else {
        screen::line_rendered(|colour| error.render(colour))?;
    }
    Ok(Exit::Failed)
}

async fn check_all(manifest: &Manifest, files: Vec<ComponentFile>) -> anyhow::Result<Vec<Checked>> {
    // Also of an empty folder: a runner does not start without a cache.
    let sandbox = sandbox::small(manifest, sandbox::compiler(manifest)?)?;
    let mut checked = Vec::new();
    for file in files {
        checked.push(Checked::examine(file, manifest, &sandbox).await);
    }
    Ok(checked)
}

/// The topics whose handler is not there, or is refused.
fn missing_handlers(manifest: &Manifest, checked: &[Checked]) -> Vec<Diagnostic> {
    let good = checked.iter().filter(|checked| checked.component.is_ok());
    let available: Vec<Name> = good.filter_map(|checked| checked.file.name.clone().ok()).collect();
    let without = manifest.topics.values().filter(|topic| !topic.external && !available.contains(&topic.handler));
    without.map(|topic| manifest.missing_handler(&topic.id, &available)).collect()
}
