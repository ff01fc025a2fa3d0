//! `gristmill check`: whether the manifest and the components are good, without running anything.

use serde_json::{Value, json};

use super::exit::Exit;
use super::folder::{self, Found};
use super::global::Global;
use super::table::Table;
use super::{sandbox, screen};
use crate::config::{Diagnostic, Manifest, ManifestError, units};
use crate::job::{Name, TopicId};
use crate::wasm::{Component, Sandbox};

/// Check the manifest and every component in the handlers folder, and run nothing
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every problem is shown, not only the first; the exit code is 1 if there is
one. Nothing is sent to the store.

Examples:
  gristmill check
  gristmill check --manifest staging.toml --json | jq 'select(.kind == \"problem\")'")]
pub(super) struct Args {}

/// A component file, and what the sandbox says of it.
#[derive(Debug)]
struct Checked {
    found: Found,
    component: Result<Component, String>,
}

pub(super) async fn run(global: &Global, _: Args) -> anyhow::Result<Exit> {
    let manifest = match global.manifest() {
        Ok(manifest) => manifest,
        Err(error) => match error.downcast_ref() {
            Some(invalid @ ManifestError::Invalid { .. }) => return refuse(global, invalid),
            // There is nothing to check.
            _ => return Err(error),
        },
    };
    let checked = check_all(&manifest).await?;
    let missing = missing(&manifest, &checked);
    if global.json {
        checked.iter().try_for_each(|checked| screen::document(&checked.document()))?;
        missing.iter().try_for_each(|problem| screen::document(&problem_document(problem)))?;
    } else {
        report(&manifest, &checked, &missing)?;
    }
    let bad = checked.iter().filter(|checked| checked.component.is_err()).count() + missing.len();
    Ok(if bad == 0 { Exit::Done } else { Exit::Failed })
}

fn refuse(global: &Global, error: &ManifestError) -> anyhow::Result<Exit> {
    if global.json {
        for problem in error.problems() {
            screen::document(&problem_document(problem))?;
        }
    } else {
        screen::line(&error.render(screen::out_has_colour()))?;
    }
    Ok(Exit::Failed)
}

async fn check_all(manifest: &Manifest) -> anyhow::Result<Vec<Checked>> {
    let files = folder::scan(&manifest.handlers)?;
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let sandbox = sandbox::small(manifest)?;
    let mut checked = Vec::new();
    for found in files {
        let component = match &found.name {
            Ok(_) => load(&sandbox, manifest, &found).await,
            Err(problem) => Err(problem.clone()),
        };
        checked.push(Checked { found, component });
    }
    Ok(checked)
}

async fn load(sandbox: &Sandbox, manifest: &Manifest, found: &Found) -> Result<Component, String> {
    let bytes = found.read(manifest.handlers.component_bytes).map_err(|error| format!("{error:#}"))?;
    sandbox.load(&bytes).await.map_err(|error| format!("{:#}", anyhow::Error::new(error)))
}

/// The topics whose handler is not there, or is refused.
fn missing(manifest: &Manifest, checked: &[Checked]) -> Vec<Diagnostic> {
    let available: Vec<Name> = checked
        .iter()
        .filter(|checked| checked.component.is_ok())
        .filter_map(|checked| checked.found.name.clone().ok())
        .collect();
    let without = manifest.topics.values().filter(|topic| !available.contains(&topic.handler));
    without.map(|topic| manifest.missing_handler(&topic.id, &available)).collect()
}

fn report(manifest: &Manifest, checked: &[Checked], missing: &[Diagnostic]) -> anyhow::Result<()> {
    if !checked.is_empty() {
        table(manifest, checked).print()?;
    }
    for Checked { found, component } in checked {
        if let Err(problem) = component {
            screen::line(&format!("\nerror: {} cannot be used\n  {}", found.path.display(), screen::clean(problem)))?;
        }
    }
    for problem in missing {
        screen::line(&format!("\n{}", problem.render(screen::out_has_colour())))?;
    }
    let bad = checked.iter().filter(|checked| checked.component.is_err()).count() + missing.len();
    let end = match bad {
        0 => "no problems".to_owned(),
        1 => "1 problem".to_owned(),
        bad => format!("{bad} problems"),
    };
    let space = if checked.is_empty() && missing.is_empty() { "" } else { "\n" };
    let of = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (components, topics) = (of(checked.len(), "component"), of(topics(manifest, checked).len(), "topic"));
    screen::line(&format!("{space}{components}, {topics}, {end}"))
}

fn table(manifest: &Manifest, checked: &[Checked]) -> Table {
    let mut table = Table::new(&["COMPONENT", "VERSION", ">SIZE", "TOPICS", "IMPORTS"]);
    for Checked { found, component } in checked {
        let file = found.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let topics: Vec<_> = topics_of(manifest, found).iter().map(ToString::to_string).collect();
        table.row([
            file,
            component.as_ref().map_or_else(|_| "refused".into(), |component| component.version().to_string()),
            units::SIZE.about(found.bytes),
            if topics.is_empty() { "-".into() } else { topics.join(" ") },
            component.as_ref().map(short_imports).unwrap_or_default(),
        ]);
    }
    table
}

/// `log queue wasi:cli wasi:io`: the whole names say the same version over and over. `--json` has them.
fn short_imports(component: &Component) -> String {
    let (mut job, mut wasi) = (Vec::new(), Vec::new());
    for import in component.imports() {
        let name = import.split('@').next().unwrap_or(import);
        if let Some(interface) = name.strip_prefix("gristmill:job/") {
            job.push(interface);
        } else {
            wasi.push(name.split('/').next().unwrap_or(name));
        }
    }
    wasi.sort_unstable();
    wasi.dedup();
    job.retain(|interface| *interface != "types");
    if job.is_empty() && wasi.is_empty() { "nothing".into() } else { [job, wasi].concat().join(" ") }
}

/// The topics that a component serves.
fn topics_of(manifest: &Manifest, found: &Found) -> Vec<TopicId> {
    let Ok(name) = &found.name else { return Vec::new() };
    let named = manifest.topics.values().filter(|topic| topic.handler == *name).map(|topic| topic.id.clone());
    let auto = manifest.auto_topic(name).id;
    let makes_one = manifest.handlers.auto_topics && !manifest.topics.contains_key(&auto);
    named.chain(makes_one.then_some(auto)).collect()
}

fn topics(manifest: &Manifest, checked: &[Checked]) -> std::collections::BTreeSet<TopicId> {
    let made = checked.iter().flat_map(|checked| topics_of(manifest, &checked.found));
    manifest.topics.keys().cloned().chain(made).collect()
}

impl Checked {
    fn document(&self) -> Value {
        let Self { found, component } = self;
        let loaded = component.as_ref().ok();
        json!({
            "kind": "component",
            "handler": found.name.as_ref().ok().map(Name::as_str),
            "path": found.path.to_string_lossy(),
            "component_bytes": found.bytes,
            "version": loaded.map(|component| component.version().to_string()),
            "imports": loaded.map(Component::imports),
            "self_test": loaded.map(Component::has_self_test),
            "problem": component.as_ref().err(),
        })
    }
}

fn problem_document(problem: &Diagnostic) -> Value {
    let place = problem.place();
    json!({
        "kind": "problem",
        "title": problem.title(),
        "path": problem.path().to_string_lossy(),
        "line": place.map(|(line, _)| line),
        "column": place.map(|(_, column)| column),
        "message": problem.to_string(),
    })
}
