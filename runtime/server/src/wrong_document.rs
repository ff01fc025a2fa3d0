//! What is wrong with a document, for people: which field, what is expected there, and where it stands. What serde says is for programmers.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Write as _};

use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;

use gristmill_core::json::object::Object;

/// Why a document cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WrongDocument {
    /// The field, such as `jobs[3].delay_ms`. Empty: the document.
    place: String,
    sentence: String,
    /// The line, unless it is the first one, and the column.
    at: Option<(Option<usize>, usize)>,
}

/// Reads a document that is an object.
///
/// # Errors
/// It is none, or says what no field takes.
pub(crate) fn read<T: DeserializeOwned>(document: &[u8]) -> Result<T, WrongDocument> {
    read_any::<Object<T>>(document).map(|Object(read)| read)
}

/// Reads a document of any form.
///
/// # Errors
/// It is none, or says what no field takes.
pub(crate) fn read_any<T: DeserializeOwned>(document: &[u8]) -> Result<T, WrongDocument> {
    let mut from = serde_json::Deserializer::from_slice(document);
    let read = serde_path_to_error::deserialize(&mut from);
    let read = read
        .map_err(|wrong| in_place_of_word::<T>(document, wrong.inner()).unwrap_or_else(|| WrongDocument::of(&wrong)))?;
    from.end().map_err(|wrong| WrongDocument::at("", &wrong))?;
    Ok(read)
}

/// Longer documents are not copied to find out which words there are.
const COPIED_BYTES: usize = 1 << 20;

/// Serde reports a number where one of some words is wanted as no value, and no more. For a text it names the words.
fn in_place_of_word<T: DeserializeOwned>(document: &[u8], wrong: &serde_json::Error) -> Option<WrongDocument> {
    if wrong.classify() != Category::Syntax || document.len() > COPIED_BYTES {
        return None;
    }
    let lines = document.split_inclusive(|byte| *byte == b'\n').take(wrong.line().checked_sub(1)?);
    let start = lines.map(<[u8]>::len).sum::<usize>() + wrong.column().checked_sub(1)?;
    let (before, value) = document.split_at_checked(start)?;
    let is_of_value = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let (value, behind) = value.split_at(value.iter().position(|byte| !is_of_value(byte)).unwrap_or(value.len()));
    serde_json::from_slice::<IgnoredAny>(value).ok()?;
    let as_text = [before, b"\"", value, b"\"", behind].concat();
    let mut from = serde_json::Deserializer::from_slice(&as_text);
    let said = serde_path_to_error::deserialize::<_, T>(&mut from).err().filter(|said| said.inner().is_data())?;
    Some(WrongDocument { at: WrongDocument::at("", wrong).at, ..WrongDocument::of(&said) })
}

impl WrongDocument {
    /// What made a reader of ours, or of a library, give up.
    pub(crate) fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(wrong) = error.downcast_ref() {
                return Some(Self::of(wrong));
            }
            if let Some(wrong) = error.downcast_ref::<serde_json::Error>() {
                return Some(Self::at("", wrong));
            }
            // Of a query: without line and column.
            if let Some(wrong) = error.downcast_ref::<serde_path_to_error::Error<serde::de::value::Error>>() {
                return Some(Self::saying(&ends(wrong.path()), &ends(wrong.inner()), None));
            }
            cause = error.source();
        }
        None
    }

    fn of(wrong: &serde_path_to_error::Error<serde_json::Error>) -> Self {
        Self::at(&ends(wrong.path()), wrong.inner())
    }

    fn at(path: &str, wrong: &serde_json::Error) -> Self {
        let (line, column) = (wrong.line(), wrong.column());
        if wrong.is_eof() && (line, column) == (1, 0) {
            return Self::saying(path, "this is no JSON: it is empty", None);
        }
        let said = ends(wrong);
        let message = said.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&said);
        let is_none = matches!(wrong.classify(), Category::Syntax | Category::Eof);
        let message = if is_none { Cow::from(format!("this is no JSON: {message}")) } else { message.into() };
        Self::saying(path, &message, (line > 0).then_some(((line > 1).then_some(line), column)))
    }

    fn saying(path: &str, message: &str, at: Option<(Option<usize>, usize)>) -> Self {
        // Alone, a dot is the document, and a question mark what nothing is known of.
        let path = path.trim_end_matches(['.', '?']);
        // A field that should not be there is named by the sentence.
        let named = ["unknown field `", "duplicate field `"].iter().find_map(|begin| message.strip_prefix(begin));
        let field = named.and_then(|rest| rest.split_once('`')).map_or("", |(field, _)| field);
        let place = path.strip_suffix(field).unwrap_or(path).trim_end_matches('.');
        Self { place: place.into(), sentence: sentence(message), at }
    }

    /// The same of a part of something larger, such as `jobs`.
    pub(crate) fn within(self, whole: &str) -> Self {
        Self { place: format!("{whole}{}", self.place), ..self }
    }

    /// The same of a line of a request that has a document in each.
    pub(crate) fn on_line(self, line: usize) -> Self {
        Self { at: self.at.map(|(_, column)| (Some(line), column)), ..self }
    }
}

impl fmt::Display for WrongDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.sentence)?;
        match self.at {
            Some((Some(line), column)) => write!(f, " (line {line}, column {column})"),
            Some((None, column)) => write!(f, " (column {column})"),
            None => Ok(()),
        }
    }
}

/// A text that names what a stranger sent, which may be as long as the document: its beginning and its end.
fn ends(shown: &impl fmt::Display) -> String {
    let mut ends = Ends::default();
    // Nothing is written that could fail.
    let _ = write!(ends, "{shown}");
    let gap = if ends.is_cut { "…" } else { "" };
    format!("{}{gap}{}", ends.head, ends.tail)
}

#[derive(Default)]
struct Ends {
    head: String,
    tail: String,
    is_cut: bool,
}

impl Ends {
    /// Bytes of each.
    const LENGTH: usize = 256;
}

impl fmt::Write for Ends {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = if self.tail.is_empty() { Self::LENGTH.saturating_sub(self.head.len()) } else { 0 };
        let (head, rest) = text.split_at(text.floor_char_boundary(room));
        self.head.push_str(head);
        self.tail.push_str(rest.split_at(rest.ceil_char_boundary(rest.len().saturating_sub(Self::LENGTH))).1);
        self.is_cut |= self.tail.len() > Self::LENGTH || rest.len() > Self::LENGTH;
        self.tail.drain(..self.tail.ceil_char_boundary(self.tail.len().saturating_sub(Self::LENGTH)));
        Ok(())
    }
}

/// What serde says, in words. What our own types say stays as it is.
pub(crate) fn sentence(message: &str) -> String {
    let quoted = |rest: &str| rest.split_once('`').map(|(name, rest)| (name.to_owned(), rest.to_owned()));
    if let Some((field, rest)) = message.strip_prefix("unknown field `").and_then(quoted) {
        return match rest.strip_prefix(", expected ") {
            Some(fields) => format!("there is no field `{field}`, only {}", fields.trim_start_matches("one of ")),
            None => format!("there is no field `{field}`"),
        };
    }
    if let Some((field, _)) = message.strip_prefix("missing field `").and_then(quoted) {
        return format!("`{field}` is missing");
    }
    if let Some((field, _)) = message.strip_prefix("duplicate field `").and_then(quoted) {
        return format!("`{field}` is there twice");
    }
    if let Some((word, rest)) = message.strip_prefix("unknown variant `").and_then(quoted) {
        let words = rest.trim_start_matches(", expected ").trim_start_matches("one of ");
        return format!("`{word}` is none of {words}");
    }
    // What is wrong with the text of a query.
    match message {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            return "expected a whole number".into();
        }
        "number too large to fit in target type" => return "the number is too large".into(),
        "provided string was not `true` or `false`" => return "expected true or false".into(),
        _ => {}
    }
    let mismatch = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    match mismatch.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((found, expected)) => format!("expected {}, not {}", expectation(expected), finding(found)),
        None => message.into(),
    }
}

fn expectation(serde: &str) -> &str {
    match serde {
        "a string" | "a borrowed string" | "string" => "a text",
        "u64" | "u32" | "u16" | "u8" | "usize" | "i64" | "i32" => "a whole number",
        "a nonzero u32" => "a whole number from 1 on",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        "unit" => "null",
        named if named.starts_with("struct ") => "an object",
        other => other,
    }
}

fn finding(serde: &str) -> String {
    let bare = |number: &str| number.trim_matches('`').to_owned();
    match serde.split_once(' ') {
        Some(("string", text)) => format!("the text {text}"),
        Some(("integer" | "boolean", value)) => bare(value),
        Some(("floating", rest)) => bare(rest.trim_start_matches("point ")),
        _ => match serde {
            "sequence" => "a list".into(),
            "map" => "an object".into(),
            "null" | "unit value" => "null".into(),
            other => other.into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;
    use gristmill_core::job::Priority;
    use gristmill_core::json::object;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Fields {
        wait_ms: Option<u64>,
        name: Option<String>,
        #[serde(default, deserialize_with = "object::maybe")]
        inner: Option<Inner>,
        jobs: Option<Vec<Object<Inner>>>,
        #[serde(default)]
        priority: Priority,
        burst: Option<NonZero<u32>>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Inner {
        to: String,
    }

    #[test]
    fn what_is_wrong_is_named_by_its_beginning_and_its_end() {
        let name = format!("begin{}end", "é".repeat(10_000));
        for document in [format!("{{\"{name}\": 1}}"), format!("{{\"jobs\": [{{\"{name}\": 1}}]}}")] {
            let said = read::<Fields>(document.as_bytes()).unwrap_err().to_string();
            assert!(said.len() < 2_000, "{} bytes", said.len());
            assert!(said.contains("there is no field `begin") && said.contains("end`, only"), "{said}");
        }
        let text = "é".repeat(400);
        assert_eq!(ends(&text[..512].to_owned()), text[..512], "what is short enough is whole");
    }

    #[test]
    fn what_is_wrong_with_a_document_is_said_in_words_and_where() {
        let cases = [
            (r#"{"wait_ms": "5s"}"#, "wait_ms: expected a whole number, not the text \"5s\" (column 16)"),
            (r#"{"wait_ms": -1}"#, "wait_ms: expected a whole number, not -1 (column 14)"),
            (r#"{"wait_ms": 1.5}"#, "wait_ms: expected a whole number, not 1.5 (column 15)"),
            (r#"{"burst": 0}"#, "burst: expected a whole number from 1 on, not 0 (column 11)"),
            (r#"{"burst": 0.5}"#, "burst: expected a whole number from 1 on, not 0.5 (column 13)"),
            (r#"{"name": [1]}"#, "name: expected a text, not a list (column 9)"),
            (r#"{"inner": 1}"#, "inner: expected an object, not 1 (column 11)"),
            (r#"{"inner": {}}"#, "inner: `to` is missing (column 12)"),
            ("{\n\"inner\": {\"ot\": 1}}", "inner: there is no field `ot`, only `to` (line 2, column 14)"),
            (r#"{"jobs": [{"to": "a"}, {"to": null}]}"#, "jobs[1].to: expected a text, not null (column 34)"),
            (
                r#"{"nmae": 1}"#,
                "there is no field `nmae`, only `wait_ms`, `name`, `inner`, `jobs`, `priority`, `burst` (column 7)",
            ),
            (r#"{"priority": 5}"#, "priority: `5` is none of `high`, `normal`, `low` (column 14)"),
            (
                "{\n\"priority\": true, \"name\": 1}",
                "priority: `true` is none of `high`, `normal`, `low` (line 2, column 13)",
            ),
            (r#"{"priority": 5, }"#, "priority: `5` is none of `high`, `normal`, `low` (column 14)"),
            (r#"{"priority": x}"#, "priority: this is no JSON: expected value (column 14)"),
            (r#"{"name": "a", "name": "b"}"#, "`name` is there twice (column 20)"),
            ("[]", "expected an object, not a list (column 0)"),
            (r#"{"name": }"#, "name: this is no JSON: expected value (column 10)"),
            ("{", "this is no JSON: EOF while parsing an object (column 1)"),
            ("", "this is no JSON: it is empty"),
            ("{} x", "this is no JSON: trailing characters (column 4)"),
        ];
        for (document, words) in cases {
            assert_eq!(read::<Fields>(document.as_bytes()).unwrap_err().to_string(), words, "{document}");
        }
    }

    #[test]
    fn a_wrong_number_in_a_query_is_named_with_what_is_wanted() {
        let said = |query: &str| {
            let uri = format!("/?{query}").parse().unwrap();
            WrongDocument::find(&axum::extract::Query::<Fields>::try_from_uri(&uri).unwrap_err()).unwrap().to_string()
        };
        assert_eq!(said("wait_ms=abc"), "wait_ms: expected a whole number");
        assert_eq!(said("wait_ms="), "wait_ms: expected a whole number");
        assert_eq!(said("wait_ms=99999999999999999999"), "wait_ms: the number is too large");
    }
}
