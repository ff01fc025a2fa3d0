//! `handler.toml`: how a project's component is made. Reference for people: `docs/guides/handlers.md`.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use serde::Deserialize;

use gristmill_core::job::Name;

pub(super) const FILE: &str = "handler.toml";

/// Its schema for editors is docs/reference/handler.schema.json.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct HandlerFile {
    /// The handler's name, and so its topic's.
    pub(super) name: String,
    /// For people.
    pub(super) language: String,
    #[serde(default)]
    pub(super) needs: Vec<Need>,
    /// Shell lines; cheap when there is nothing to do.
    #[serde(default)]
    pub(super) setup: Vec<String>,
    #[serde(default)]
    pub(super) test: Vec<String>,
    /// A shell line that starts a process which does jobs without a component, for `dev --native`.
    pub(super) native: Option<String>,
    /// Shell lines, the last of which leaves `component`.
    pub(super) build: Vec<String>,
    /// Relative to the project's folder.
    pub(super) component: PathBuf,
}

/// A program that must be there.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Need {
    pub(super) command: String,
    /// What to do if it is not.
    pub(super) hint: String,
}

impl HandlerFile {
    /// # Errors
    /// There is none, or it makes no sense; the message has the place.
    pub(super) fn read(project: &Path) -> anyhow::Result<Self> {
        let path = project.join(FILE);
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!(
                "{} is no handler's project (`gristmill new` writes one): failed to read {}",
                project.display(),
                path.display()
            )
        })?;
        toml::from_str(&text).map_err(|error| anyhow!("{}: {}", path.display(), error.to_string().trim_end()))
    }

    pub(super) fn name(&self) -> anyhow::Result<Name> {
        self.name.parse().with_context(|| format!("`name` in {FILE}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written anew by `UPDATE_SCHEMA=1 cargo test -p gristmill schema`.
    #[test]
    fn the_schema_for_editors_is_that_of_the_type() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/handler.schema.json");
        let made = serde_json::to_string_pretty(&schemars::schema_for!(HandlerFile)).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(&path, &made).unwrap();
        }
        let differs = "run `UPDATE_SCHEMA=1 cargo test -p gristmill schema`";
        assert!(std::fs::read_to_string(path).is_ok_and(|text| text == made), "{differs}");
    }

    #[test]
    fn a_mistake_is_shown_at_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let read = || HandlerFile::read(folder.path()).unwrap_err();
        assert!(format!("{:#}", read()).contains("no handler's project"));
        std::fs::write(folder.path().join(FILE), "name = \"a\"\nlanguage = \"c\"\nbiuld = []\n").unwrap();
        let error = format!("{:#}", read());
        assert!(error.contains("handler.toml") && error.contains("line 3") && error.contains("biuld"), "{error}");
    }
}
