//! What `check` says to programs. Described in `docs/reference/cli.md`.

use serde_json::{Value, json};

use super::super::used;
use super::examine::{Checked, Examined};
use gristmill_config::Diagnostic;
use gristmill_core::job::Name;
use gristmill_core::topic::Capability;
use gristmill_sandbox::Kind;

pub(super) fn component(checked: &Checked) -> Value {
    let Checked { file, topics, component } = checked;
    let examined = component.as_ref().ok();
    let of = |read: fn(&Examined) -> Value| examined.map(read);
    let names = |capabilities: &[Capability]| capabilities.iter().map(|it| it.name()).collect::<Vec<_>>();
    let topics: Vec<_> = topics
        .iter()
        .map(|topic| json!({ "topic": topic.id.to_string(), "grants_missing": names(&checked.lacking(topic)) }))
        .collect();
    json!({
        "kind": "component",
        "handler": file.name.as_ref().ok().map(Name::as_str),
        "path": file.path.to_string_lossy(),
        "component_bytes": file.bytes,
        "core_module": of(|it| json!(it.component.kind() == Kind::CoreModule)),
        "version": of(|it| json!(it.component.version().to_string())),
        "language": of(|it| json!(it.producers.language)),
        "tools": of(|it| it.producers.tools.iter().map(|(name, version)| json!({ "name": name, "version": version })).collect()),
        "imports": of(|it| json!(it.component.imports())),
        "exports": of(|it| json!(it.component.exports())),
        "adapters": of(|it| it.component.demands().adapters.iter().map(|adapter| adapter.adapter_name()).collect()),
        "self_test": of(|it| json!(it.component.has_self_test())),
        "grants_needed": examined.map(|it| names(&it.component.demands().grants)),
        "topics": topics,
        "start_fuel": of(|it| json!(it.started.fuel)),
        "start_memory_bytes": of(|it| json!(it.started.memory_bytes)),
        "nearest_limit": of(|it| used::nearest(&it.uses())),
        "problem": component.as_ref().err(),
    })
}

pub(super) fn problem(problem: &Diagnostic) -> Value {
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
