//! Reads a query.

use super::error::QueryError;
use super::field::{JobField, STATES};
use super::number::Number;
use super::pattern::Pattern;
use super::{Comparison, Condition, Test};
use gristmill_config::units;
use gristmill_core::time::millis;

/// What holding a job against a query may cost.
const MOST_CONDITIONS: usize = 16;
const MOST_CHARS: usize = 2000;
const MOST_PATTERNS: usize = 16;

/// A character, and whether it stands in quotes, where it has no other meaning.
type Char = (char, bool);

pub(super) fn conditions(text: &str) -> Result<Vec<Condition>, QueryError> {
    if text.chars().count() > MOST_CHARS {
        let problem = format!("it has more than {MOST_CHARS} characters: use fewer values");
        return Err(QueryError { at: MOST_CHARS + 1, term: "…".into(), problem });
    }
    let mut conditions = Vec::new();
    for term in terms(text)? {
        if conditions.len() == MOST_CONDITIONS {
            return Err(term.error(format!("there are more than {MOST_CONDITIONS} conditions: leave some out")));
        }
        conditions.push(term.condition().map_err(|problem| term.error(problem))?);
        if conditions.iter().map(Condition::patterns).sum::<usize>() > MOST_PATTERNS {
            return Err(term.error(format!("there are more than {MOST_PATTERNS} values with `*`: use fewer")));
        }
        let is_possible = |state: &str| conditions.iter().all(|condition| condition.name_fits(&JobField::State, state));
        if !STATES.iter().any(|state| is_possible(state)) {
            let problem = "no state fits all conditions up to here: write `state:ready,dead` for jobs in any of these";
            return Err(term.error(problem.into()));
        }
    }
    Ok(conditions)
}

/// A condition as it was written.
struct Term {
    /// Where it begins, from 1 on.
    at: usize,
    written: String,
    /// Without quotes.
    chars: Vec<Char>,
}

/// Cuts a query where there are blanks outside of quotes.
fn terms(text: &str) -> Result<Vec<Term>, QueryError> {
    let mut terms: Vec<Term> = Vec::new();
    let (mut is_quoted, mut is_within) = (false, false);
    let mut chars = text.chars().enumerate();
    while let Some((index, char)) = chars.next() {
        if char.is_whitespace() && !is_quoted {
            is_within = false;
            continue;
        }
        if !is_within {
            terms.push(Term { at: index + 1, written: String::new(), chars: Vec::new() });
            is_within = true;
        }
        let Some(term) = terms.last_mut() else { continue };
        term.written.push(char);
        match char {
            '"' => {
                is_quoted = !is_quoted;
                // So that `""` is a text without characters, and not none.
                term.chars.push(('\0', true));
            }
            '\\' if is_quoted => {
                let escaped = chars.next().map_or('\\', |(_, escaped)| escaped);
                term.written.push(escaped);
                term.chars.push((escaped, true));
            }
            _ => term.chars.push((char, is_quoted)),
        }
    }
    match terms.last() {
        Some(term) if is_quoted => Err(term.error("a quote is not closed: end the text with `\"`".into())),
        _ => Ok(terms),
    }
}

impl Term {
    fn error(&self, problem: String) -> QueryError {
        QueryError { at: self.at, term: self.written.clone(), problem }
    }

    fn condition(&self) -> Result<Condition, String> {
        let (is_negated, chars) = match self.chars.as_slice() {
            [('-', false), rest @ ..] => (true, rest),
            chars => (false, chars),
        };
        let operator = chars.iter().position(|char| matches!(char, (':' | '<' | '>', false)));
        let Some((name, [(operator, _), value @ ..])) = operator.map(|at| chars.split_at(at)) else {
            let words = text_of(chars);
            if words.is_empty() {
                return Err("there is no text: write a word, or a condition such as `state:dead`".into());
            }
            if let Some((name, _)) = chars.iter().position(|char| *char == ('=', false)).map(|at| chars.split_at(at))
                && field(name).is_ok()
            {
                let name = text_of(name);
                return Err(format!(
                    "write `{name}:` in place of `{name}=`, or put quotes around it to look for the text"
                ));
            }
            if let Some(remedy) = of_other_languages(chars, &words) {
                return Err(format!("{remedy}; put quotes around it to look for the word"));
            }
            return Ok(Condition { is_negated, field: JobField::Anything, test: Test::Word(words) });
        };
        if name.is_empty() {
            return Err(format!(
                "there is no field before `{operator}`: write a condition without blanks, as in `age>1h`"
            ));
        }
        let quote = "put quotes around a text that is no condition";
        let field = field(name).map_err(|problem| format!("{problem}; {quote}"))?;
        let name = text_of(name);
        if value.is_empty() {
            let example =
                if field.is_time() { format!("as in `{name}{operator}1h`") } else { format!("or `{name}:*` for any") };
            return Err(format!("there is no value behind `{name}{operator}`: write it without a blank, {example}"));
        }
        let test = match operator {
            ':' => equality(&field, &name, value)?,
            '<' => bound(&field, &name, Comparison::Less, Comparison::AtMost, value)?,
            _ => bound(&field, &name, Comparison::Greater, Comparison::AtLeast, value)?,
        };
        Ok(Condition { is_negated, field, test })
    }
}

/// The field of a name. A dot in quotes is part of a name within a body.
fn field(name: &[Char]) -> Result<JobField, String> {
    let parts: Vec<String> = name.split(|char| *char == ('.', false)).map(text_of).collect();
    JobField::of(&parts)
}

/// What to write instead of a word by which other languages join conditions. In quotes it is a word like others.
fn of_other_languages(chars: &[Char], word: &str) -> Option<&'static str> {
    if chars.iter().any(|(_, is_quoted)| *is_quoted) {
        return None;
    }
    match word {
        "AND" => Some("all conditions of a query hold: leave `AND` out"),
        "OR" => Some("conditions cannot be joined by or: write the values of one field with commas, as in `key:a,b`"),
        "NOT" => Some("write `-` before the condition in place of `NOT`, as in `-key:a`"),
        _ => None,
    }
}

fn equality(field: &JobField, name: &str, value: &[Char]) -> Result<Test, String> {
    if field.is_time() {
        return Err(format!("`{name}` is a length of time: write `{name}>1h` or `{name}<1h`"));
    }
    let patterns: Vec<Pattern> = value.split(|char| *char == (',', false)).map(pattern).collect();
    if let Some(choices) = field.choices()
        && let Some(wrong) = patterns.iter().find(|pattern| !choices.iter().any(|choice| pattern.fits(choice)))
    {
        let wrong = wrong.as_literal().map_or_else(|| "this".into(), |wrong| format!("`{wrong}`"));
        return Err(format!("{wrong} is no {name}: use {}", choices.join(", ")));
    }
    Ok(Test::Is(patterns))
}

fn pattern(value: &[Char]) -> Pattern {
    Pattern(value.split(|char| *char == ('*', false)).map(text_of).collect())
}

fn bound(
    field: &JobField,
    name: &str,
    exclusive: Comparison,
    inclusive: Comparison,
    value: &[Char],
) -> Result<Test, String> {
    let (comparison, value) = match value {
        [('=', false), rest @ ..] => (inclusive, rest),
        value => (exclusive, value),
    };
    let text = text_of(value);
    if field.is_time() {
        let length = units::duration(&text).map_err(|error| error.to_string())?;
        let millis = millis(length).to_string();
        return Number::parse(&millis).map(|millis| Test::Compare(comparison, millis.into_owned())).ok_or(millis);
    }
    if !field.is_number() {
        return Err(format!("`{name}` cannot be compared: write `{name}:VALUE`"));
    }
    let number = Number::parse(&text).map(Number::into_owned);
    number
        .map(|number| Test::Compare(comparison, number))
        .ok_or_else(|| format!("`{text}` is no number: write one such as `{name}>3`"))
}

fn text_of(chars: &[Char]) -> String {
    chars.iter().map(|(char, _)| *char).filter(|char| *char != '\0').collect()
}
