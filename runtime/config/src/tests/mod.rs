//! Whole manifests: the good ones and what they come to, the bad ones and how they are shown.
//!
//! A bad manifest is `tests/NAME.toml`, its message `tests/NAME.txt`; `UPDATE_SNAPSHOTS=1` writes the messages anew.

mod ranges;
mod refused;
mod schema;
mod sections;
mod topics;

use std::path::Path;

use super::Manifest;
use gristmill_core::job::TopicId;
use gristmill_core::topic::Topic;

pub(super) fn parse(text: &str) -> Manifest {
    Manifest::parse(text, Path::new("/etc/gristmill/gristmill.toml")).unwrap_or_else(|error| panic!("{error}"))
}

fn id(text: &str) -> TopicId {
    text.parse().unwrap()
}

fn topic(text: &str) -> Topic {
    parse(text).topics.remove(&id("a")).unwrap()
}

fn topic_of(manifest: &Manifest, name: &str) -> Topic {
    manifest.topics[&id(name)].clone()
}

pub(super) fn problems(text: &str) -> String {
    Manifest::parse(text, Path::new("gristmill.toml")).unwrap_err().to_string()
}
