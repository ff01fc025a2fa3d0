//! How a topic calls its component: `adapter`; for a program `args` and `[topics.NAME.exit-codes]`, for a server of HTTP `path`
//! and `[topics.NAME.status-codes]`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::diagnostic::did_you_mean;
use super::read::Section;
use gristmill_core::topic::{Adapter, CodeMeaning, Program, Proxy};

/// The keys that belong to one topic.
pub(super) const KEYS: [&str; 5] = ["adapter", "args", "exit-codes", "path", "status-codes"];

/// The keys of one adapter, with what it is.
const OWN_KEYS: [(&str, Kind, &str); 4] = [
    ("args", Kind::Command, "a program: write adapter = \"command\" too"),
    ("exit-codes", Kind::Command, "a program: write adapter = \"command\" too"),
    ("path", Kind::Proxy, "a server of HTTP: write adapter = \"proxy\" too"),
    ("status-codes", Kind::Proxy, "a server of HTTP: write adapter = \"proxy\" too"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Handler,
    Command,
    Proxy,
}

pub(super) fn adapter(topic: &mut Section<'_>) -> Adapter {
    let mut kind = Kind::Handler;
    topic.choice(
        "adapter",
        &[("handler", Kind::Handler), ("command", Kind::Command), ("proxy", Kind::Proxy)],
        &mut kind,
    );
    for (key, _, what) in OWN_KEYS.into_iter().filter(|(_, of, _)| *of != kind) {
        topic.misplaced(key, &format!("it belongs to {what}"));
    }
    match kind {
        Kind::Handler => Adapter::Handler,
        Kind::Command => Adapter::Command(Arc::new(program(topic))),
        Kind::Proxy => Adapter::Proxy(Arc::new(proxy(topic))),
    }
}

fn program(topic: &mut Section<'_>) -> Program {
    let must = "an array of strings such as [\"--verbose\"]";
    let args = topic.list("args", must, "is no argument", |text| Ok(text.to_owned())).unwrap_or_default();
    let args = args.into_iter().map(|(text, _)| text).collect();
    Program { args, exit_codes: meanings(topic, "exit-codes", 0, 255) }
}

fn proxy(topic: &mut Section<'_>) -> Proxy {
    let mut proxy = Proxy { status_codes: meanings(topic, "status-codes", 100, 599), ..Proxy::default() };
    let is_path =
        |path: &&str| path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    let must = "a path such as \"/hooks?from=jobs\", of ASCII characters without spaces";
    if let Some(path) = topic.read("path", must, |value| value.as_str().filter(is_path)) {
        proxy.path = path.to_owned();
    }
    proxy
}

/// What some codes mean, by code: `65 = "dead"`.
fn meanings(topic: &mut Section<'_>, key: &'static str, min: u16, max: u16) -> BTreeMap<u16, CodeMeaning> {
    let Some(section) = topic.section(key) else { return BTreeMap::new() };
    let problems = section.problems();
    let title = section.title().to_owned();
    let mut meanings = BTreeMap::new();
    for (written, span, value) in section.entries() {
        let Some(code) = written.parse().ok().filter(|code| (min..=max).contains(code)) else {
            problems.report(span, format!("`{written}` is no code of {title}"), format!("a code is {min} to {max}"));
            continue;
        };
        let words = CodeMeaning::WORDS.map(|(word, _)| word);
        let word = value.get_ref().as_str();
        match CodeMeaning::WORDS.into_iter().find(|(known, _)| word == Some(*known)) {
            Some((_, meaning)) => _ = meanings.insert(code, meaning),
            None => {
                let title = format!("`{written}` in {title} must be \"ack\", \"retry\" or \"dead\"");
                let hint = word.and_then(|word| did_you_mean(word, words.into_iter()));
                problems.add(problems.at(value.span(), title).label(hint.unwrap_or_default()));
            }
        }
    }
    meanings
}
