//! Rules of the stores, each broken in one place: what the conformance suite and the model must find.
//!
//! What Redis and SQLite are told stands word for word in the built program, and that is where it is changed: nothing is
//! built anew, so a mutant takes seconds.

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
    /// What takes its place, no longer than that.
    pub replacement: String,
}

#[derive(Deserialize)]
struct List {
    mutant: Vec<Mutant>,
}

/// The mutants of a store, `redis` or `embedded`.
pub fn of(root: &Path, store: &str) -> Vec<Mutant> {
    let list = root.join("tests/store/mutants").join(store).with_extension("toml");
    let text = fs::read_to_string(&list).unwrap_or_else(|error| panic!("{}: {error}", list.display()));
    let list: List = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", list.display()));
    list.mutant
}

impl Mutant {
    /// How often its text is found in its file; it must be once.
    pub fn found(&self, root: &Path) -> usize {
        fs::read_to_string(root.join(&self.file)).map_or(0, |text| text.matches(&self.text).count())
    }

    /// The program with the rule broken, wherever the text stands in it: some scripts begin alike. None: it is not there.
    pub fn break_in(&self, program: &[u8]) -> Option<Vec<u8>> {
        let (text, replacement) = (self.text.as_bytes(), self.padded());
        let mut broken = program.to_vec();
        let mut from = 0;
        while let Some(place) = find(&broken[from..], text) {
            broken[from + place..][..text.len()].copy_from_slice(&replacement);
            from += place + text.len();
        }
        (from > 0).then_some(broken)
    }

    /// The replacement in the length of the text: neither Lua nor SQL minds blanks at the end of a line.
    fn padded(&self) -> Vec<u8> {
        let blanks =
            " ".repeat(self.text.len().checked_sub(self.replacement.len()).expect("a replacement is no longer"));
        match self.replacement.strip_suffix('\n') {
            Some(line) => format!("{line}{blanks}\n").into(),
            None => format!("{}{blanks}", self.replacement).into(),
        }
    }
}

fn find(program: &[u8], text: &[u8]) -> Option<usize> {
    // Comparing first bytes first: a hundred megabytes are looked through for each mutant.
    let first = *text.first()?;
    let mut from = 0;
    while let Some(place) = program[from..].iter().position(|byte| *byte == first) {
        if program[from + place..].starts_with(text) {
            return Some(from + place);
        }
        from += place + 1;
    }
    None
}
