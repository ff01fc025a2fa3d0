//! What `check` says to people.

use std::collections::BTreeSet;

use super::super::screen;
use super::super::table::{Table, facts};
use super::super::used;
use super::examine::{Checked, Examined};
use gristmill_config::{Diagnostic, Manifest, units};
use gristmill_core::job::TopicId;
use gristmill_sandbox::Kind;

/// Topics of a component that the table shows.
const TOPICS: usize = 3;

/// The whole folder: a line for each component, and every problem.
pub(super) fn folder(manifest: &Manifest, checked: &[Checked], problems: &[Diagnostic]) -> anyhow::Result<()> {
    let folder = &manifest.handlers.folder;
    if manifest.missing_folder().is_none() && !folder.exists() {
        screen::note(&format!("note: there is no folder {}: put components there", folder.display()));
    }
    if !checked.is_empty() {
        table(checked).print()?;
    }
    for checked in checked {
        refusal(checked)?;
    }
    list(problems)?;
    let bad = checked.iter().filter(|checked| checked.component.is_err()).count() + problems.len();
    let end = if bad == 0 { "no problems".to_owned() } else { units::counted(bad, "problem", "problems") };
    let space = if checked.is_empty() && problems.is_empty() { "" } else { "\n" };
    let topics: BTreeSet<&TopicId> = manifest
        .topics
        .keys()
        .chain(checked.iter().flat_map(|checked| &checked.topics).map(|topic| &topic.id))
        .collect();
    let components = units::counted(checked.len(), "component", "components");
    let topics = units::counted(topics.len(), "topic", "topics");
    screen::line(&format!("{space}{components}, {topics}, {end}"))
}

/// Some files: all about each of them.
pub(super) fn files(checked: &[Checked], problems: &[Diagnostic]) -> anyhow::Result<()> {
    for (index, checked) in checked.iter().enumerate() {
        match &checked.component {
            Ok(examined) => {
                let space = if index == 0 { "" } else { "\n" };
                screen::line(&format!("{space}{}", facts(&about(checked, examined)).trim_end()))?;
            }
            Err(_) => refusal(checked)?,
        }
    }
    list(problems)
}

fn refusal(Checked { file, component, .. }: &Checked) -> anyhow::Result<()> {
    let Err(problem) = component else { return Ok(()) };
    screen::line_folded(&format!("\nerror: {} cannot be used\n  {}", file.path.display(), screen::clean(problem)), 2)
}

fn list(problems: &[Diagnostic]) -> anyhow::Result<()> {
    problems.iter().try_for_each(|problem| screen::line_rendered(|colour| format!("\n{}", problem.render(colour))))
}

fn table(checked: &[Checked]) -> Table {
    let mut table =
        Table::new(&["COMPONENT", "VERSION", "LANGUAGE", ">SIZE", ">MEMORY", ">START FUEL", "TOPICS", "IMPORTS"]);
    for checked in checked {
        let file = checked.file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of = |read: fn(&Examined) -> String| checked.component.as_ref().map(read).unwrap_or_default();
        table.row([
            file,
            checked.component.as_ref().map_or_else(|_| "refused".into(), |it| it.component.version().to_string()),
            of(|it| it.producers.language.clone().unwrap_or_else(|| "-".into())),
            units::SIZE.about(checked.file.bytes),
            of(|it| units::SIZE.about(it.started.memory_bytes)),
            of(|it| units::COUNT.about(it.started.fuel)),
            some_topics(checked),
            of(|it| short(it.component.imports())),
        ]);
    }
    table
}

fn about(checked: &Checked, examined: &Examined) -> Vec<(&'static str, String)> {
    let Examined { component, producers, started, .. } = examined;
    let made = match component.kind() {
        Kind::Component => String::new(),
        Kind::CoreModule => ", a core module: made a component as it is loaded".to_owned(),
    };
    let tools: Vec<_> = producers.tools.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let grants: Vec<_> = component.demands().grants.iter().map(|capability| capability.name()).collect();
    let adapters: Vec<_> = component.demands().adapters.iter().map(|adapter| adapter.adapter_name()).collect();
    let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { text };
    vec![
        ("file", checked.file.path.display().to_string()),
        ("version", component.version().to_string()),
        ("language", producers.language.clone().unwrap_or_else(|| "unknown".into())),
        ("tools", or_none(tools.join("\n"))),
        ("size", format!("{}{made}", units::SIZE.about(checked.file.bytes))),
        ("memory", format!("{} at start", units::SIZE.about(started.memory_bytes))),
        ("fuel", format!("{} to start", units::COUNT.about(started.fuel))),
        ("used", format!("{} by the start", used::in_words(&examined.uses()))),
        ("adapter", adapters.join(" or ")),
        ("exports", component.exports().join("\n")),
        ("imports", or_none(component.imports().join("\n"))),
        ("grants", or_none(grants.join(" "))),
        ("topics", or_none(topics(checked).join("\n"))),
    ]
}

/// The topics that it serves, each with what it does not grant.
fn topics(checked: &Checked) -> Vec<String> {
    let topic = |topic: &gristmill_core::topic::Topic| {
        let lacking: Vec<_> = checked.lacking(topic).iter().map(|capability| capability.name()).collect();
        let lacking = if lacking.is_empty() { String::new() } else { format!("(lacks {})", lacking.join(", ")) };
        format!("{}{lacking}", topic.id)
    };
    checked.topics.iter().map(topic).collect()
}

/// Some of them, those first that lack something: a component may serve hundreds.
fn some_topics(checked: &Checked) -> String {
    let mut topics = topics(checked);
    topics.sort_by_key(|topic| !topic.contains('('));
    let more = topics.len().saturating_sub(TOPICS);
    topics.truncate(TOPICS);
    match (topics.is_empty(), more) {
        (true, _) => "-".into(),
        (false, 0) => topics.join(" "),
        (false, more) => format!("{} and {more} more", topics.join(" ")),
    }
}

/// `log queue wasi:cli wasi:io`: the whole names say the same version over and over.
fn short(imports: &[String]) -> String {
    let (mut job, mut wasi) = (Vec::new(), Vec::new());
    for import in imports {
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
