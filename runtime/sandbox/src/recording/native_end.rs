//! How the end of a native replay compares with the recorded one: by its outcome, its output, and its log lines, but no fuel. Where each engine has its own
//! words, as for an exception that nothing caught, its name and its place have to be the same.

use super::boundary::is_asked_natively;
use super::{RecordedLine, Recording, ReplayVerdict};
use crate::guest_log::in_words;

/// As the SDKs of Python, JavaScript and TypeScript log an exception that ends an attempt, with a field for each of its texts.
const UNCAUGHT: &str = "uncaught exception";

/// `notes` gets what is to be said besides.
pub(super) fn verdict(recorded: &Recording, again: Option<&Recording>, notes: &mut Vec<String>) -> ReplayVerdict {
    let Some(again) = again else { return ReplayVerdict::Differs(vec!["it could not be run here".to_owned()]) };
    if let Some(diverged) = &again.diverged {
        return ReplayVerdict::AsksElse(diverged.clone());
    }
    note_random(recorded, notes);
    let mut differences = Vec::new();
    let (before, now) = (recorded.lines(), again.lines());
    let is_thrown = now.iter().flatten().any(|line| line.message == UNCAUGHT);
    if recorded.end.outcome != again.end.outcome {
        differences.push(format!("outcome: {} was recorded, now it is {}", recorded.end.outcome, again.end.outcome));
    } else if recorded.end.digest != again.end.digest && !is_thrown {
        differences.push(format!("output: it is {} again, with another result or message", again.end.outcome));
    }
    let mut asked = recorded.calls.iter().enumerate().filter(|(_, call)| is_asked_natively(recorded.name(call)));
    if let Some((place, call)) = asked.nth(again.calls.len()) {
        differences.push(format!("calls: call {} was {}, and is not made now", place + 1, recorded.in_words(call)));
    }
    match (before, now) {
        (Some(before), Some(now)) => differences.extend(first_other(recorded, &before, &now, notes)),
        _ => notes.push("a secret is in the log lines: they are not compared".to_owned()),
    }
    if differences.is_empty() { ReplayVerdict::Same } else { ReplayVerdict::Differs(differences) }
}

fn note_random(recorded: &Recording, notes: &mut Vec<String>) {
    let is_random = |name: &str| name.starts_with("random.") || name.starts_with("insecure");
    if recorded.calls.iter().any(|call| is_random(recorded.name(call))) {
        notes.push("it asked for random numbers: a native run makes its own, which are others".to_owned());
    }
}

/// The first line that differs, in words. Lines that the log limit kept out of the recording are not missed.
fn first_other(
    recorded: &Recording,
    before: &[RecordedLine],
    now: &[RecordedLine],
    notes: &mut Vec<String>,
) -> Option<String> {
    let is_cut = recorded.end.lines_dropped > 0;
    let place = (0..before.len().max(now.len())).find(|place| match (before.get(*place), now.get(*place)) {
        (Some(before), Some(now)) => !are_alike(before, now, notes),
        (None, Some(_)) => !is_cut,
        _ => true,
    })?;
    let (number, before, now) = (place + 1, shown(before.get(place)), shown(now.get(place)));
    Some(format!("log: line {number} was {before}, and is now {now}"))
}

fn shown(line: Option<&RecordedLine>) -> String {
    let Some(RecordedLine { message, fields, .. }) = line else { return "no line".to_owned() };
    match fields.first() {
        Some((_, text)) if message == UNCAUGHT => {
            let Thrown { words, place } = Thrown::of(text);
            format!("{words:?} at {}", place.unwrap_or_else(|| "no place that is known".to_owned()))
        }
        Some(_) => format!("{message:?} with {}", in_words(fields)),
        None => format!("{message:?}"),
    }
}

/// A native handler makes fewer calls, so that how many came before a line says nothing.
fn are_alike(before: &RecordedLine, now: &RecordedLine, notes: &mut Vec<String>) -> bool {
    // StarlingMonkey prints what `console` writes; the SDKs log it.
    if matches!(before.source.as_str(), "stdout" | "stderr") && now.source == "log" {
        return before.message == now.message && now.fields.is_empty();
    }
    let kind = |line: &RecordedLine| (line.level.clone(), line.source.clone(), line.message.clone());
    if kind(before) != kind(now) {
        return false;
    }
    if before.fields == now.fields {
        return true;
    }
    if now.message != UNCAUGHT {
        return false;
    }
    let text = |line: &RecordedLine| line.fields.first().map(|(_, text)| text.clone()).unwrap_or_default();
    let (before, now) = (text(before), text(now));
    let (before, now) = (Thrown::of(&before), Thrown::of(&now));
    if before.words != now.words {
        notes.push(format!("the exception was {:?}, and is now {:?}", before.words, now.words));
    }
    before.name() == now.name() && before.place == now.place
}

/// An exception, as far as two engines say the same of it.
struct Thrown<'a> {
    /// Such as `TypeError: no grain`.
    words: &'a str,
    /// The innermost place in the author's files, such as `handler.py:12`.
    place: Option<String>,
}

impl<'a> Thrown<'a> {
    /// Of a traceback, as Python has it, whose words are at its end, or a stack of JavaScript, whose words are at its beginning.
    fn of(text: &'a str) -> Self {
        let mut in_python = text.lines().filter_map(|line| {
            let (file, rest) = line.strip_prefix("  File \"")?.split_once("\", line ")?;
            Some((file, rest.split(',').next()?))
        });
        let in_javascript = text.lines().filter_map(|line| {
            let place = line.strip_prefix("    at ")?.trim_end_matches(')');
            place.rsplit(['(', ' ']).next()?.rsplit_once(':')
        });
        let is_own = |(file, _): &(&str, &str)| {
            !file.starts_with(['/', '.', '<'])
                && !["site-packages/", "node_modules/", "gristmill_guest/", "gristmill-guest/"]
                    .iter()
                    .any(|folder| file.contains(folder))
        };
        let place = |(file, line): (&str, &str)| format!("{file}:{line}");
        match text.rfind("\n  File \"") {
            Some(last) => {
                let after = text.get(last + 1..).unwrap_or_default();
                let words = after.split_inclusive('\n').skip_while(|line| line.starts_with(' ')).map(str::len);
                let words = after.len() - words.sum::<usize>();
                Self {
                    words: after.get(words..).unwrap_or_default().trim_end(),
                    place: in_python.rfind(is_own).map(place),
                }
            }
            None => Self {
                words: text.split("\n    at ").next().unwrap_or_default(),
                place: in_javascript.filter(is_own).map(place).next(),
            },
        }
    }

    fn name(&self) -> &str {
        self.words.split(':').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thrown(text: &str) -> (&str, Option<String>) {
        let Thrown { words, place } = Thrown::of(text);
        (words, place)
    }

    #[test]
    fn the_words_and_the_place_of_an_exception_are_found_in_what_each_engine_writes() {
        let python = "Traceback (most recent call last):\n  File \"handler.py\", line 12, in go\n    lib.meal()\n    ~~~~~~~~^^\n  \
            File \"lib.py\", line 3, in meal\n    return wheat\n  File \"/usr/lib/python3/json.py\", line 5, in loads\n    loads()\n\
            ValueError: two\nlines";
        assert_eq!(thrown(python), ("ValueError: two\nlines", Some("lib.py:3".to_owned())));
        let stack = "TypeError: no grain\n    at parse (gristmill-guest/index.js:3)\n    at grind (handler.ts:9)\n    at handler.ts:20";
        assert_eq!(thrown(stack), ("TypeError: no grain", Some("handler.ts:9".to_owned())));
        assert_eq!(thrown("RangeError: deep"), ("RangeError: deep", None));
    }

    #[test]
    fn a_line_that_an_engine_printed_is_alike_one_that_was_logged_with_the_same_text_and_nothing_else() {
        let line = |source: &str, message: &str, fields: &[(&str, &str)]| RecordedLine {
            after: 0,
            level: "INFO".to_owned(),
            source: source.to_owned(),
            message: message.to_owned(),
            fields: fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        };
        let printed = line("stdout", "rye", &[]);
        let are_alike = |before: &RecordedLine, now: &RecordedLine| are_alike(before, now, &mut Vec::new());
        assert!(are_alike(&printed, &line("log", "rye", &[])) && are_alike(&printed, &printed));
        assert!(!are_alike(&printed, &line("log", "oat", &[])));
        assert!(!are_alike(&printed, &line("log", "rye", &[("a", "b")])));
        assert!(!are_alike(&line("log", "rye", &[]), &printed) && !are_alike(&printed, &line("stderr", "rye", &[])));
    }
}
