//! Rules of the stores, each broken in one place: what the conformance suite and the model must find.

use std::fs;
use std::path::Path;

use serde::Deserialize;

/// A rule, and how it is broken.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// The rule in words.
    pub rule: String,
    /// From the root of the sources.
    pub file: String,
    /// What stands there exactly once.
    pub text: String,
    pub replacement: String,
}

#[derive(Deserialize)]
struct List {
    mutant: Vec<Mutant>,
}

/// The mutants of a store, `redis` or `embedded`.
pub fn of(root: &Path, store: &str) -> Vec<Mutant> {
    let list = root.join("tests/mutants").join(store).with_extension("toml");
    let text = fs::read_to_string(&list).unwrap_or_else(|error| panic!("{}: {error}", list.display()));
    let list: List = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", list.display()));
    list.mutant
}

impl Mutant {
    /// How often its text is found; it must be once.
    pub fn found(&self, root: &Path) -> usize {
        fs::read_to_string(root.join(&self.file)).map_or(0, |text| text.matches(&self.text).count())
    }

    /// Breaks the rule in these sources, and tells how to mend it: what the file said before.
    pub fn apply(&self, root: &Path) -> String {
        let file = root.join(&self.file);
        let before = fs::read_to_string(&file).unwrap();
        fs::write(&file, before.replacen(&self.text, &self.replacement, 1)).unwrap();
        before
    }
}
