//! What the conditions of a query ask of payloads: each body is read once for all values in it, and once for all words.

use std::collections::HashMap;

use super::body::Tree;
use super::field::{JobField, head};
use super::number::Number;
use super::pattern::Pattern;
use super::words::Words;
use super::{Comparison, Condition, Test};
use crate::inspect::JobView;
use crate::off_runtime::off_runtime;

/// Larger bodies are read beside the runtime's threads.
const LARGE_BODY: usize = 64 << 10;

/// The conditions about values in bodies, and about words. Each is known by its bit.
#[derive(Debug, Clone, Default)]
pub(super) struct PayloadTests {
    tree: Tree,
    of_paths: Vec<PathTests>,
    of_values: u32,
    words: Words,
    /// Those that are to hold, and not their opposites.
    wanted: u32,
}

/// What is asked of the values that one path leads to.
#[derive(Debug, Clone, Default)]
struct PathTests {
    literals: HashMap<String, u32>,
    patterns: Vec<(u32, Pattern)>,
    compared: Vec<(u32, Comparison, Number<'static>)>,
}

impl PayloadTests {
    pub(super) fn of(conditions: &[Condition]) -> Self {
        let mut tests = Self::default();
        for (n, condition) in conditions.iter().enumerate() {
            let bit = 1 << n;
            match (&condition.field, &condition.test) {
                (JobField::Body(path), test) => tests.add_value(bit, path, test),
                (_, Test::Word(word)) => tests.words.add(bit, word),
                _ => continue,
            }
            tests.wanted |= if condition.is_negated { 0 } else { bit };
        }
        tests
    }

    fn add_value(&mut self, bit: u32, path: &[String], test: &Test) {
        let number = self.tree.add(path, self.of_paths.len());
        if number == self.of_paths.len() {
            self.of_paths.push(PathTests::default());
        }
        self.of_values |= bit;
        let Some(of_path) = self.of_paths.get_mut(number) else { return };
        match test {
            Test::Compare(comparison, bound) => of_path.compared.push((bit, *comparison, bound.clone())),
            Test::Word(_) => {}
            Test::Is(patterns) => patterns.iter().for_each(|pattern| match pattern.as_literal() {
                Some(text) => *of_path.literals.entry(text.to_owned()).or_default() |= bit,
                None => of_path.patterns.push((bit, pattern.clone())),
            }),
        }
    }

    /// Whether each of them holds for a job, or does not, as it is to be. Lets others run while it reads a large body.
    pub(super) async fn hold(&self, view: &JobView) -> bool {
        let spec = view.job.as_ref().map(|job| &job.spec);
        let body = view.body();
        // Values give no turn to others, and a large body may have half a million.
        let values = match body.len() > LARGE_BODY {
            true => off_runtime(|| self.values_in(body)),
            false => self.values_in(body),
        };
        if values != self.wanted & self.of_values {
            return false;
        }
        let failure = view.failure().map(|failure| &failure.detail);
        let of_failure = failure.map(|detail| [detail.code.as_str(), head(&detail.message)]);
        let of_job = spec.map(|spec| {
            [spec.options.key.as_deref(), spec.options.unique.as_ref().map(|unique| unique.value.as_str())]
        });
        let metadata = spec.into_iter().flat_map(|spec| &spec.metadata).map(|(_, value)| value.as_str());
        let texts = of_failure.into_iter().flatten().chain(of_job.into_iter().flatten().flatten()).chain(metadata);
        let mut found = self.words.within(view.id.as_str());
        for text in texts {
            found |= self.words.within(text);
        }
        self.words.within_body(body, found).await == self.wanted & !self.of_values
    }

    /// The conditions about values that hold for a body.
    fn values_in(&self, body: &[u8]) -> u32 {
        if self.tree.is_empty() {
            return 0;
        }
        let mut hold = 0;
        let mut found = |path: usize, text: &str| {
            if let Some(of_path) = self.of_paths.get(path) {
                hold |= of_path.hold(text, hold);
            }
        };
        if self.tree.read(body, &mut found) { hold } else { 0 }
    }
}

impl PathTests {
    /// Those that hold for a text, without the patterns and comparisons that are known to hold.
    fn hold(&self, text: &str, known: u32) -> u32 {
        let mut hold = self.literals.get(text).copied().unwrap_or(0);
        for (bit, pattern) in self.patterns.iter().filter(|(bit, _)| known & bit == 0) {
            hold |= if pattern.fits(text) { *bit } else { 0 };
        }
        let Some(number) = (!self.compared.is_empty()).then(|| Number::parse(text)).flatten() else { return hold };
        for (bit, comparison, bound) in &self.compared {
            hold |= if comparison.holds(&number, bound) { *bit } else { 0 };
        }
        hold
    }
}
