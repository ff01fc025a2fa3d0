//! What a topic's handler may reach: `clock`, `random`, `config`, `env`, `secrets`, `enqueue`.

use std::collections::BTreeMap;
use std::path::Path;

use super::diagnostic::Span;
use super::exposure::warn_if_exposed;
use super::read::{NAME_RULE, Problems, Section, Value};
use super::regular_file::read_regular;
use gristmill_core::job::Name;
use gristmill_core::topic::{Capability, Grants};

/// Keys and certificates are shorter by far; a path to a disk image is a mistake.
const SECRET_BYTES: u64 = 1 << 20;

/// Whether the secrets of topics are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrets {
    Read,
    Skip,
}

/// The capabilities that are either there or not.
pub(super) fn switches(section: &mut Section<'_>, grants: &mut Grants) {
    for capability in Capability::switches() {
        let mut granted = grants.switches.contains(&capability);
        section.boolean(capability.name(), &mut granted);
        if granted {
            grants.switches.insert(capability)
        } else {
            grants.switches.remove(&capability)
        };
    }
}

/// Strings by name, from `[… .config]`.
pub(super) fn config(topic: &mut Section<'_>) -> BTreeMap<String, String> {
    let Some(section) = topic.section("config") else { return BTreeMap::new() };
    let problems = section.problems();
    let mut config = BTreeMap::new();
    for (key, _, value) in section.entries() {
        match value.get_ref().as_str() {
            Some(text) => _ = config.insert(key.to_owned(), text.to_owned()),
            None => problems.add(
                problems
                    .at(value.span(), format!("the setting `{key}` must be a string"))
                    .label("put it in quotes: handlers get strings and read them as they like"),
            ),
        }
    }
    config
}

/// Bytes by name, from `[… .secrets]`: read once, when the manifest is. Paths are relative to `folder`, the manifest's.
pub(super) fn secrets(topic: &mut Section<'_>, folder: &Path, secrets: Secrets) -> BTreeMap<String, Vec<u8>> {
    let Some(section) = topic.section("secrets") else { return BTreeMap::new() };
    if secrets == Secrets::Skip {
        return BTreeMap::new();
    }
    let problems = section.problems();
    let read = |(key, _, value): (&str, Span, Value<'_>)| Some((key.to_owned(), secret(key, value, folder, problems)?));
    section.entries().filter_map(read).collect()
}

/// Environment variables by name, from `[… .env]`: written out, or read from where a secret could stand.
pub(super) fn env(topic: &mut Section<'_>, folder: &Path, secrets: Secrets) -> BTreeMap<String, String> {
    let Some(section) = topic.section("env") else { return BTreeMap::new() };
    let problems = section.problems();
    let mut variables = BTreeMap::new();
    for (key, place, value) in section.entries() {
        if key.is_empty() || key.contains(['=', '\0']) {
            problems.add(problems.at(place, format!("`{key}` cannot be the name of an environment variable")));
        } else if let Some(text) = value.get_ref().as_str() {
            variables.insert(key.to_owned(), text.to_owned());
        } else if secrets == Secrets::Read
            && let Some(bytes) = secret(key, value, folder, problems)
        {
            match String::from_utf8(bytes) {
                Ok(text) => _ = variables.insert(key.to_owned(), text),
                Err(_) => problems.add(
                    problems
                        .at(value.span(), format!("the variable `{key}` is not UTF-8"))
                        .label("give bytes as a secret: put it into [… .secrets]"),
                ),
            }
        }
    }
    variables
}

/// What `{ env = "NAME" }` or `{ file = "path" }` points at. A file's last line break is cut off, because most
/// editors add one.
pub(super) fn secret(key: &str, value: Value<'_>, folder: &Path, problems: &Problems) -> Option<Vec<u8>> {
    let table = value.get_ref().as_table();
    let only = table.filter(|table| table.len() == 1).and_then(|table| table.iter().next());
    let entry = only.and_then(|(kind, place)| Some((kind.get_ref().as_ref(), place.get_ref().as_str()?, place.span())));
    let read = match entry {
        Some(("env", name, span)) => environment(name).map_err(|problem| (span, problem)),
        Some(("file", path, span)) => file(&folder.join(path)).map_err(|problem| (span, problem)),
        _ => {
            let title = format!("`{key}` must say where it stands");
            let help = "write { env = \"NAME\" } or { file = \"path\" }; secrets do not belong into a manifest";
            problems.add(problems.at(value.span(), title).help(help).redacted());
            return None;
        }
    };
    read.map_err(|(span, problem)| problems.add(problems.at(span, format!("`{key}` cannot be read")).label(problem)))
        .ok()
}

fn environment(name: &str) -> Result<Vec<u8>, String> {
    match std::env::var(name) {
        Ok(value) => Ok(value.into_bytes()),
        Err(std::env::VarError::NotPresent) => Err(format!("the environment has no variable `{name}`")),
        Err(std::env::VarError::NotUnicode(_)) => Err(format!("the variable `{name}` is not UTF-8: use a file")),
    }
}

fn file(path: &Path) -> Result<Vec<u8>, String> {
    match read_regular(path, SECRET_BYTES) {
        Err(error) => Err(format!("{}: {error}", path.display())),
        Ok(mut bytes) => {
            warn_if_exposed(path);
            if bytes.last() == Some(&b'\n') {
                bytes.truncate(bytes.len() - 1 - usize::from(bytes.ends_with(b"\r\n")));
            }
            Ok(bytes)
        }
    }
}

/// Topics that a grant names, with the place of each; `None` if the key is absent: those that a handler may `enqueue` to, and its
/// `predecessors`, of whose jobs it learns the results.
pub(super) fn topics(topic: &mut Section<'_>, key: &'static str) -> Option<Vec<(Name, Span)>> {
    let must = "an array of topics such as [\"notify\"]";
    topic.list(key, must, "is no name", |text| text.parse().map_err(|_| NAME_RULE.to_owned()))
}
