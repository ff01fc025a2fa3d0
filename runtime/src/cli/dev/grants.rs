//! Writes grants into a manifest, and leaves everything else in it as it is.

use anyhow::Context;
use toml_edit::{DocumentMut, Item, TableLike};

use gristmill_config::Manifest;
use gristmill_core::job::TopicId;
use gristmill_core::topic::Capability;

/// What a topic does not grant to its handler.
pub(super) type Lacking = (TopicId, Vec<Capability>);

/// Adds the lines to the manifest's file, with what people wrote there as it is.
///
/// # Errors
/// There is no file, or it cannot be read or written.
pub(super) fn write(manifest: &Manifest, lacking: &[Lacking]) -> anyhow::Result<()> {
    let path = manifest.file.as_ref().context("there is no manifest: write the lines into a gristmill.toml")?;
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.with_context(|| format!("failed to read {}", path.display()))?,
    };
    let text = granted(&text, lacking)?;
    std::fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
}

/// # Errors
/// The text is no TOML.
fn granted(text: &str, lacking: &[Lacking]) -> anyhow::Result<String> {
    let mut document: DocumentMut = text.parse().context("the manifest is no TOML")?;
    for (topic, lacking) in lacking {
        // As people indent them in a terminal, not in a file.
        let lines = Manifest::lines_that_grant(topic, lacking).replace("\n  ", "\n");
        let lines: DocumentMut = lines.parse().context("the lines are no TOML")?;
        merge(document.as_table_mut(), lines.as_table());
    }
    Ok(document.to_string())
}

/// Adds what is not there. What is there stays, but for a grant that was denied.
fn merge(into: &mut dyn TableLike, lines: &dyn TableLike) {
    for (key, new) in lines.iter() {
        match into.get_mut(key) {
            None => _ = into.insert(key, placed_anew(new.clone())),
            Some(there) if there.as_bool() == Some(false) => {
                // With the comment behind it.
                let decor = there.as_value().map(|value| value.decor().clone());
                *there = new.clone();
                if let Some((value, decor)) = there.as_value_mut().zip(decor) {
                    *value.decor_mut() = decor;
                }
            }
            Some(there) => {
                if let Some((there, new)) = there.as_table_like_mut().zip(Item::as_table_like(new)) {
                    merge(there, new);
                }
            }
        }
    }
}

/// Without the places of the lines in their own text: behind what is there.
fn placed_anew(mut item: Item) -> Item {
    if let Some(table) = item.as_table_mut() {
        table.set_position(None);
        for (_, item) in table.iter_mut() {
            *item = placed_anew(std::mem::take(item));
        }
    }
    item
}

#[cfg(test)]
mod tests {
    use gristmill_core::topic::Capability::{Clock, Http, Random};

    use super::*;

    #[test]
    fn grants_are_added_to_the_topic_and_comments_stay() {
        let manifest = "# ours\n[defaults]\nattempts = 3 # enough\n\n[topics.report]\ntimeout = \"5s\"\nclock = false # why?\n\n[topics.mail]\n";
        let lacking = [
            ("report".parse().unwrap(), vec![Clock, Random, Http]),
            ("acme/mail".parse().unwrap(), vec![Clock]),
            ("a.b".parse().unwrap(), vec![Clock]),
        ];
        let granted = granted(manifest, &lacking).unwrap();
        let lines: Vec<_> = granted.lines().filter(|line| !line.is_empty()).map(str::trim_start).collect();
        let report = ["[topics.report]", "timeout = \"5s\"", "clock = true # why?", "random = true"];
        assert_eq!(lines[..3], ["# ours", "[defaults]", "attempts = 3 # enough"]);
        assert_eq!(lines[3..7], report, "{granted}");
        assert!(lines.contains(&"[topics.report.http]") && lines.contains(&"[tenants.acme.topics.mail]"), "{granted}");
        let manifest = Manifest::parse(&granted, std::path::Path::new("gristmill.toml")).unwrap();
        let topic = &manifest.topics[&"acme/mail".parse().unwrap()];
        assert!(topic.grants.switches.contains(&Clock), "{granted}");
        assert!(manifest.topics.contains_key(&"a.b".parse().unwrap()), "{granted}");
    }

    #[test]
    fn a_manifest_that_is_no_toml_is_left_alone() {
        assert!(granted("[topics", &[]).is_err());
    }
}
