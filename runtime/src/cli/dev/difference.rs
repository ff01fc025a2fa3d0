//! What differs between two runs of the same job.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;
use similar::DiffTag;
use similar::algorithms::{Capture, Replace, myers};

use super::super::invoke::{self, Ran};
use gristmill_config::units;
use gristmill_core::outcome::Outcome;

/// What is compared of a run: what is the same for the same component and job, as far as the handler wants it to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Compared {
    outcome: String,
    /// JSON has a line for each value in it.
    result: String,
    log: String,
    fuel: u64,
}

impl Compared {
    pub(super) fn of(ran: &Ran) -> Self {
        let outcome = match &ran.report.outcome {
            // Its size is that of the result.
            Outcome::Complete(_) => "complete".to_owned(),
            outcome => invoke::outcome(outcome),
        };
        let result = ran.output().map(|output| in_lines(&output.data)).unwrap_or_default();
        let log: Vec<_> = ran.lines.iter().map(invoke::log_line).collect();
        Self { outcome, result, log: log.join("\n"), fuel: ran.report.fuel }
    }

    /// One line for each that went (`-`) or came (`+`), under the name of what it belongs to; none if all is as `before`.
    pub(super) fn difference(&self, before: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        let texts = [
            ("outcome", &before.outcome, &self.outcome),
            ("result", &before.result, &self.result),
            ("log", &before.log, &self.log),
        ];
        for (name, old, new) in texts {
            let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
            let mut changes = Replace::new(Capture::new());
            let Ok(()) = myers::diff(&mut changes, &old, 0..old.len(), &new, 0..new.len());
            for change in changes.into_inner().into_ops().iter().filter(|change| change.tag() != DiffTag::Equal) {
                let (gone, came) = (old.get(change.old_range()), new.get(change.new_range()));
                for (sign, texts) in [('-', gone), ('+', came)] {
                    lines.extend(texts.into_iter().flatten().map(|text| format!("{name:7} {sign} {text}")));
                }
            }
        }
        if self.fuel != before.fuel {
            lines.push(format!("fuel    {}", fuel(before.fuel, self.fuel)));
        }
        lines
    }
}

/// `+1.2k: 22k, now 23.2k (+5.5 %)`
fn fuel(before: u64, now: u64) -> String {
    let sign = if now > before { '+' } else { '-' };
    let about = |fuel| units::COUNT.about(fuel);
    let share = match before {
        0 => String::new(),
        before => format!(" ({sign}{:.1} %)", now.abs_diff(before) as f64 / before as f64 * 100.0),
    };
    format!("{sign} {}: {}, now {}{share}", about(now.abs_diff(before)), about(before), about(now))
}

fn in_lines(data: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(data) else {
        let mut hasher = DefaultHasher::new();
        data.hash(&mut hasher);
        return format!("{} bytes of binary data, with the checksum {:016x}", data.len(), hasher.finish());
    };
    let json = serde_json::from_str::<Value>(text).ok().filter(|value| value.is_object() || value.is_array());
    json.and_then(|value| serde_json::to_string_pretty(&value).ok()).unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(outcome: &str, result: &str, log: &[&str], fuel: u64) -> Compared {
        Compared { outcome: outcome.into(), result: in_lines(result.as_bytes()), log: log.join("\n"), fuel }
    }

    #[test]
    fn what_changed_of_a_result_a_log_and_the_fuel_is_shown_and_nothing_else() {
        let before = run("complete", r#"{"name":"Ada","greeting":"Welcome"}"#, &["INFO a", "INFO b"], 20_000);
        let now = run("complete", r#"{"greeting":"Hello","name":"Ada"}"#, &["INFO a", "INFO c", "INFO b"], 21_000);
        let expected = [
            r#"result  -   "greeting": "Welcome","#,
            r#"result  +   "greeting": "Hello","#,
            "log     + INFO c",
            "fuel    + 1k: 20k, now 21k (+5.0 %)",
        ];
        assert_eq!(now.difference(&before), expected);
        assert!(now.difference(&now.clone()).is_empty());
    }

    #[test]
    fn another_end_is_a_difference() {
        let before = run("complete", "ok", &[], 100);
        let now = run("rejected: bad: no name", "", &[], 50);
        let expected = [
            "outcome - complete",
            "outcome + rejected: bad: no name",
            "result  - ok",
            "fuel    - 50: 100, now 50 (-50.0 %)",
        ];
        assert_eq!(now.difference(&before), expected);
    }

    #[test]
    fn binary_results_of_one_size_differ() {
        assert_eq!(in_lines(&[0xff, 1]), in_lines(&[0xff, 1]));
        assert_ne!(in_lines(&[0xff, 1]), in_lines(&[0xff, 2]));
    }
}
