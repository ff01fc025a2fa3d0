//! Whether the schema by which editors check a manifest has the keys that the manifest's reader knows.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::{Manifest, ManifestError};

/// What the reader knows in a section: it says so of a key that resembles none.
fn known(section: &str) -> BTreeSet<String> {
    let text =
        if section.is_empty() { "zzzzzzzzzzzz = 1".to_owned() } else { format!("[{section}]\nzzzzzzzzzzzz = 1") };
    let Err(error @ ManifestError::Invalid { .. }) = Manifest::parse(&text, Path::new("m.toml")) else {
        panic!("{section}: an unknown key was taken");
    };
    let said = error.render(false);
    let keys = said.split_once("known here: ").unwrap_or_else(|| panic!("{said}")).1.lines().next().unwrap_or_default();
    let listed: BTreeSet<_> = keys.split(", ").map(str::to_owned).collect();
    assert_eq!(listed.len(), keys.split(", ").count(), "a key is named twice: {keys}");
    listed
}

#[test]
fn the_schema_has_the_keys_that_are_known() {
    let schema = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/gristmill.schema.json"),
    );
    let schema: Value = serde_json::from_str(&schema.unwrap()).unwrap();
    let topic = "/$defs/topic/properties";
    let sections = [
        ("", "/properties".to_owned()),
        ("store", "/$defs/store/properties".into()),
        ("topics.a", topic.into()),
        ("topics.a.per-key", format!("{topic}/per-key/properties")),
        ("topics.a.http", format!("{topic}/http/properties")),
        ("topics.a.schedule.b", format!("{topic}/schedule/additionalProperties/properties")),
        ("topics.a.backoff", format!("{topic}/backoff/anyOf/1/properties")),
        ("defaults", "/$defs/defaults/properties".into()),
        ("limits", "/$defs/limits/properties".into()),
        ("tenants.a", "/properties/tenants/additionalProperties/properties".into()),
        ("tenants.a.bounds", "/properties/tenants/additionalProperties/properties/bounds/properties".into()),
    ];
    let plain = ["server", "http", "page", "lmstfy", "handlers", "otel", "journal", "audit"];
    let plain = plain.map(|name| (name, format!("/properties/{name}/properties")));
    for (section, place) in sections.into_iter().chain(plain) {
        let keys = schema.pointer(&place).and_then(Value::as_object).unwrap_or_else(|| panic!("no {place}"));
        let (keys, mut known): (BTreeSet<String>, _) = (keys.keys().cloned().collect(), known(section));
        if section == "defaults" {
            // Some are known only so that the reader reports that they have no place there.
            known.retain(|key| keys.contains(key));
        }
        assert_eq!(keys, known, "[{section}]: correct docs/reference/manifest.md and run packaging/schema.py");
    }
}
