//! What a topic's handler may reach: `clock`, `random`, `config`, `env`, `secrets`, `enqueue`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::diagnostic::Span;
use super::exposure::warn_if_exposed;
use super::http_grant::{self, patterns};
use super::read::{NAME_RULE, Problems, Section, Value};
use super::regular_file::read_regular;
use gristmill_core::http_grant::{HostPattern, WITHHELD_BYTES, Withheld, WithheldKind};
use gristmill_core::job::Name;
use gristmill_core::topic::{Capability, Grants};

/// Keys and certificates are shorter by far; a path to a disk image is a mistake.
const SECRET_BYTES: u64 = 1 << 20;

/// The key of a secret that names the hosts which it may go to.
const HOSTS: &str = "hosts";

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

/// Bytes by name, from `[… .secrets]`: read once, when the manifest is. Paths are relative to `folder`, the manifest's. Those with `hosts`
/// go to `withheld`.
pub(super) fn secrets(
    topic: &mut Section<'_>,
    folder: &Path,
    secrets: Secrets,
    withheld: &mut Vec<WrittenSecret>,
) -> BTreeMap<String, Vec<u8>> {
    let Some(section) = topic.section("secrets") else { return BTreeMap::new() };
    if secrets == Secrets::Skip {
        return BTreeMap::new();
    }
    let of_handler = |(key, _, value): (&str, Span, Value<'_>)| {
        let span = value.span();
        let bytes = granted(WithheldKind::Secret, key, value, &section, folder, withheld)?;
        if bytes.is_empty() {
            let help = "does the variable or the file that it comes from lack its value?";
            section.problems().report(span, format!("`{key}` in {} is empty", section.title()), help);
        }
        Some((key.to_owned(), bytes))
    };
    section.clone().entries().filter_map(of_handler).collect()
}

/// Environment variables by name, from `[… .env]`: written out, or read from where a secret could stand.
pub(super) fn env(
    topic: &mut Section<'_>,
    folder: &Path,
    secrets: Secrets,
    withheld: &mut Vec<WrittenSecret>,
) -> BTreeMap<String, String> {
    let Some(section) = topic.section("env") else { return BTreeMap::new() };
    let problems = section.problems();
    let mut variables = BTreeMap::new();
    for (key, place, value) in section.clone().entries() {
        if key.is_empty() || key.contains(['=', '\0']) {
            problems.add(problems.at(place, format!("`{key}` cannot be the name of an environment variable")));
        } else if let Some(text) = value.get_ref().as_str() {
            variables.insert(key.to_owned(), text.to_owned());
        } else if secrets == Secrets::Read
            && let Some(bytes) = granted(WithheldKind::Variable, key, value, &section, folder, withheld)
            && let Some(text) = text_of(key, value, bytes, problems)
        {
            variables.insert(key.to_owned(), text);
        }
    }
    variables
}

fn text_of(key: &str, value: Value<'_>, bytes: Vec<u8>, problems: &Problems) -> Option<String> {
    let text = String::from_utf8(bytes);
    if text.is_err() {
        problems.add(
            problems
                .at(value.span(), format!("the variable `{key}` is not UTF-8"))
                .label("give bytes as a secret: put it into [… .secrets]"),
        );
    }
    text.ok()
}

/// A secret that no handler sees, and where its hosts stand.
#[derive(Debug)]
pub(super) struct WrittenSecret {
    pub(super) secret: Arc<Withheld>,
    hosts: Vec<(HostPattern, Span)>,
}

/// The bytes of a secret, if the handler may have them. If it names `hosts`, it goes to `withheld`.
fn granted(
    kind: WithheldKind,
    key: &str,
    value: Value<'_>,
    section: &Section<'_>,
    folder: &Path,
    withheld: &mut Vec<WrittenSecret>,
) -> Option<Vec<u8>> {
    let problems = section.problems();
    let place = value.get_ref().as_table().and_then(|table| table.get(HOSTS));
    let bytes = secret(key, value, place.is_some(), folder, problems)?;
    let Some(place) = place else { return Some(bytes) };
    let bytes = if kind == WithheldKind::Variable { text_of(key, value, bytes, problems)?.into_bytes() } else { bytes };
    let mut table = Section::new(section.inner_name(key), value.get_ref().as_table()?, problems);
    let hosts = patterns(&mut table, HOSTS).unwrap_or_default();
    if place.get_ref().as_array().is_some_and(|hosts| hosts.is_empty()) {
        let help = "name them, as in hosts = [\"api.example.com\"], or leave `hosts` out: then the handler gets the secret itself";
        problems.report(place.span(), format!("`hosts` of `{key}` names no host"), help);
    }
    if !WITHHELD_BYTES.contains(&bytes.len()) {
        let (least, most) = (WITHHELD_BYTES.start(), WITHHELD_BYTES.end());
        let title = format!("`{key}` has {} bytes, and a secret with `hosts` has {least} to {most}", bytes.len());
        let help = "it is looked for in answers, where a short one is found by chance; a long one fits into no header. Leave `hosts` out if the handler may have it";
        problems.report(value.span(), title, help);
    }
    let patterns = hosts.iter().map(|(pattern, _)| pattern.clone()).collect();
    let secret = Arc::new(Withheld { kind, name: key.to_owned(), bytes, hosts: patterns });
    withheld.push(WrittenSecret { secret, hosts });
    None
}

/// Reports hosts of secrets that the topic may not send requests to.
pub(super) fn check_hosts(topic: &Section<'_>, withheld: &[WrittenSecret], http: Option<&http_grant::Written>) {
    let allowed = http.map_or(&[][..], |http| &http.allow);
    for WrittenSecret { secret, hosts } in withheld {
        for (host, place) in hosts.iter().filter(|(host, _)| !allowed.iter().any(|(allowed, _)| allowed.covers(host))) {
            let title =
                format!("`{}` may go to `{host}`, and {} may send no requests there", secret.name, topic.title());
            let help = format!("add \"{host}\" to `allow` in {}, or remove it here", topic.inner_name("http"));
            topic.problems().report(place.clone(), title, help);
        }
    }
}

/// What `{ env = "NAME" }` or `{ file = "path" }` points at, beside `hosts` if it has them. A file's last line break is cut off, because most
/// editors add one.
pub(super) fn secret(
    key: &str,
    value: Value<'_>,
    has_hosts: bool,
    folder: &Path,
    problems: &Problems,
) -> Option<Vec<u8>> {
    let table = value.get_ref().as_table();
    let keys = 1 + usize::from(has_hosts);
    let only = table.filter(|table| table.len() == keys);
    let only = only.and_then(|table| table.iter().find(|(kind, _)| !has_hosts || kind.get_ref() != HOSTS));
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

#[cfg(test)]
mod tests {
    use super::super::{Manifest, ManifestError};
    use super::*;

    fn read(text: &str, folder: &Path) -> Result<Arc<Grants>, ManifestError> {
        let manifest = Manifest::parse(text, &folder.join("gristmill.toml"))?;
        Ok(Arc::clone(&manifest.topics[&"a".parse().unwrap()].grants))
    }

    #[test]
    fn a_secret_file_is_read_without_its_last_line_break() {
        let folder = tempfile::tempdir().unwrap();
        for (content, secret) in [("key\n", "key"), ("key\r\n", "key"), ("key\n\n", "key\n"), ("key", "key")] {
            std::fs::write(folder.path().join("key"), content).unwrap();
            let grants = read("[topics.a.secrets]\nkey = { file = \"key\" }", folder.path()).unwrap();
            assert_eq!(grants.secrets["key"], secret.as_bytes());
        }
    }

    #[test]
    fn a_secret_with_hosts_is_kept_from_the_handler() {
        let text = r#"
            [topics.a]
            env = { TZ = "UTC", KEY = { env = "CARGO_PKG_NAME", hosts = ["hooks.example.com"] } }
            [topics.a.secrets]
            plain = { env = "CARGO_PKG_NAME" }
            key = { hosts = ["hooks.example.com", "http://a.example.org:8080"], env = "CARGO_PKG_NAME" }
            [topics.a.http]
            allow = ["hooks.example.com", "http://*.example.org:8080"]
        "#;
        let grants = read(text, Path::new("")).unwrap();
        let name = env!("CARGO_PKG_NAME");
        let withheld = |kind, key: &str, hosts: &[&str]| {
            let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
            Arc::new(Withheld { kind, name: key.into(), bytes: name.into(), hosts })
        };
        let expected = [
            withheld(WithheldKind::Variable, "KEY", &["hooks.example.com"]),
            withheld(WithheldKind::Secret, "key", &["hooks.example.com", "http://a.example.org:8080"]),
        ];
        assert_eq!(grants.withheld, expected);
        assert_eq!((grants.env.len(), grants.secrets.len()), (1, 1), "the handler gets no others");
        assert_eq!((grants.all_env()["KEY"], grants.all_secrets()["key"]), (name, name.as_bytes()));
        assert!(!format!("{grants:?}").contains(name));
    }

    #[test]
    fn a_secret_with_hosts_has_8_bytes_to_16_kib() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[topics.a.secrets]\nkey = { file = \"key\", hosts = [\"b.example\"] }\n[topics.a.http]\nallow = [\"b.example\"]";
        for (bytes, is_good) in [(0, false), (7, false), (8, true), (16 << 10, true), ((16 << 10) + 1, false)] {
            std::fs::write(folder.path().join("key"), "k".repeat(bytes)).unwrap();
            match read(text, folder.path()) {
                Ok(_) => assert!(is_good, "{bytes}"),
                Err(error) => assert!(!is_good && error.to_string().contains(&format!("has {bytes} bytes")), "{error}"),
            }
        }
    }
}
