//! Reads tables of a manifest key by key, and collects every mistake on the way instead of stopping at the first.

use std::cell::RefCell;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Diagnostic, Source, Span, did_you_mean};
use super::paths::unseen;
use super::ranges::Bounds;
use gristmill_core::job::Name;

/// A value with its place.
pub(super) type Value<'t> = &'t Spanned<DeValue<'t>>;

/// What is wrong with one manifest, gathered while it is read.
#[derive(Debug)]
pub(super) struct Problems {
    source: Source,
    found: RefCell<Vec<Diagnostic>>,
}

impl Problems {
    pub(super) fn of(source: Source) -> Self {
        Self { source, found: RefCell::default() }
    }

    /// Of the manifest.
    pub(super) fn path(&self) -> &Path {
        &self.source.path
    }

    pub(super) fn at(&self, span: Span, title: impl Into<String>) -> Diagnostic {
        self.source.complain(Some(span), title)
    }

    pub(super) fn add(&self, problem: Diagnostic) {
        self.found.borrow_mut().push(problem);
    }

    /// Adds a mistake with its remedy.
    pub(super) fn report(&self, span: Span, title: impl Into<String>, help: impl Into<String>) {
        self.add(self.at(span, title).help(help));
    }

    /// How many there are so far.
    pub(super) fn count(&self) -> usize {
        self.found.borrow().len()
    }

    /// In the order of the text.
    pub(super) fn into_vec(self) -> Vec<Diagnostic> {
        let mut found = self.found.into_inner();
        found.sort_by_key(Diagnostic::start);
        found
    }
}

/// A table that is being read. Every key asked for counts as known; [`Section::finish`] reports the others.
#[derive(Debug, Clone)]
pub(super) struct Section<'t> {
    /// As it is written: `[topics.resize-image]`.
    name: String,
    table: &'t DeTable<'t>,
    known: Vec<&'static str>,
    problems: &'t Problems,
}

impl<'t> Section<'t> {
    pub(super) fn new(name: String, table: &'t DeTable<'t>, problems: &'t Problems) -> Self {
        Self { name, table, known: Vec::new(), problems }
    }

    pub(super) fn problems(&self) -> &'t Problems {
        self.problems
    }

    /// As it is written.
    pub(super) fn title(&self) -> &str {
        &self.name
    }

    pub(super) fn value(&mut self, key: &'static str) -> Option<Value<'t>> {
        self.known.push(key);
        self.table.get(key)
    }

    /// A value that the reading function accepts; a refusal is reported with what the key must be.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        must: &str,
        read: impl FnOnce(&'t DeValue<'t>) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(key)?;
        let read = read(value.get_ref());
        if read.is_none() {
            self.problems.add(self.mismatch(key, value, must));
        }
        read
    }

    /// An IP address with a port, or `None` for `"off"`; and its place.
    pub(super) fn address(&mut self, key: &'static str, example: &str) -> Option<(Option<SocketAddr>, Span)> {
        let value = self.value(key)?;
        let must = format!("an IP address with a port such as \"{example}\", or \"off\"");
        let text = self.string(key, value, &must)?;
        let address = if text == "off" { Some(None) } else { text.parse().ok().map(Some) };
        if address.is_none() {
            self.problems.add(self.problems.at(value.span(), format!("`{key}` in {} must be {must}", self.name)));
        }
        Some((address?, value.span()))
    }

    /// The string at a key that was asked for; anything else is reported.
    pub(super) fn string<'v>(&self, key: &str, value: &'v Spanned<DeValue<'_>>, must: &str) -> Option<&'v str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.problems.add(self.mismatch(key, value, must));
        }
        text
    }

    /// An array of strings, each of which `parse` accepts or says how to write; `None` if the key is absent.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        must: &str,
        mistake: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<(T, Span)>> {
        let array = self.read(key, must, DeValue::as_array)?;
        let mut list = Vec::new();
        for value in array {
            match value.get_ref().as_str().map(|text| (text, parse(text))) {
                Some((_, Ok(item))) => list.push((item, value.span())),
                Some((text, Err(help))) => self.problems.report(value.span(), format!("`{text}` {mistake}"), help),
                None => self.problems.add(self.problems.at(value.span(), format!("`{key}` must be {must}"))),
            }
        }
        Some(list)
    }

    fn mismatch(&self, key: &str, value: Value<'_>, must: &str) -> Diagnostic {
        let label = format!("this is {}", kind(value.get_ref()));
        self.problems.at(value.span(), format!("`{key}` in {} must be {must}", self.name)).label(label)
    }

    pub(super) fn boolean(&mut self, key: &'static str, slot: &mut bool) {
        if let Some(value) = self.read(key, "`true` or `false`", DeValue::as_bool) {
            *slot = value;
        }
    }

    pub(super) fn path(&mut self, key: &'static str) -> Option<PathBuf> {
        let value = self.value(key)?;
        let text = self.string(key, value, "a path")?;
        if text.is_empty() {
            self.problems.add(self.problems.at(value.span(), format!("`{key}` in {} is empty", self.name)));
        } else if let Some(problem) = unseen(text) {
            let title = format!("`{key}` in {} is no path", self.name);
            self.problems.add(self.problems.at(value.span(), title).label(problem));
        } else {
            return Some(PathBuf::from(text));
        }
        None
    }

    pub(super) fn name(&mut self, key: &'static str) -> Option<Name> {
        let value = self.value(key)?;
        name(self.string(key, value, "a name")?, value.span(), self.problems)
    }

    /// A bounded setting; leaves the slot alone if the key is absent or its value is refused.
    pub(super) fn quantity<T: FromBase>(&mut self, bounds: &Bounds, slot: &mut T) {
        if let Some(value) = self.limit(bounds) {
            *slot = value;
        }
    }

    /// A bounded setting that may be left out; `None` also if its value is refused.
    pub(super) fn limit<T: FromBase>(&mut self, bounds: &Bounds) -> Option<T> {
        self.value(bounds.key).and_then(|value| self.bounded(bounds, bounds.key, value))
    }

    /// Holds `value` to `bounds`, under the key that it stands at.
    pub(super) fn bounded<T: FromBase>(&self, bounds: &Bounds, key: &str, value: Value<'t>) -> Option<T> {
        let scale = bounds.scale;
        let out_of_range = || {
            let title = format!("`{key}` in {} is out of range", self.name);
            self.problems.at(value.span(), title).label(format!("allowed: {}", bounds.range()))
        };
        let malformed = |problem: String| {
            let title = format!("`{key}` in {} is not {}", self.name, scale.what);
            let help = format!("{}; allowed: {}", scale.remedy(), bounds.range());
            self.problems.at(value.span(), title).label(problem).help(help)
        };
        let base = match value.get_ref() {
            DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) if !scale.bare => {
                    Err(malformed(format!("it needs a unit: write \"{number}s\" or \"{number}ms\"")))
                }
                number => number.ok().and_then(|number| u64::try_from(number).ok()).ok_or_else(out_of_range),
            },
            // A number without units does not stand in quotes: a reader would have to guess what the string `"32"` means.
            DeValue::String(text) if scale.has_units() => scale.parse(text).map_err(|bad| malformed(bad.problem)),
            _ => {
                let must = format!("{} such as {}, {}", scale.what, scale.example, bounds.range());
                Err(self.mismatch(key, value, &must))
            }
        };
        match base {
            Ok(base) if (bounds.min..=bounds.max).contains(&base) => return Some(T::from_base(base)),
            Ok(_) => self.problems.add(out_of_range()),
            Err(problem) => self.problems.add(problem),
        }
        None
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&mut self, key: &'static str, choices: &[(&str, T)], slot: &mut T) {
        let Some(value) = self.value(key) else { return };
        let quoted: Vec<_> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let must = quoted.join(" or ");
        let Some(written) = self.string(key, value, &must) else { return };
        match choices.iter().find(|(word, _)| *word == written) {
            Some((_, choice)) => *slot = *choice,
            None => {
                let title = format!("`{key}` in {} must be {must}", self.name);
                let hint = did_you_mean(written, choices.iter().map(|(word, _)| *word));
                self.problems.add(self.problems.at(value.span(), title).label(hint.unwrap_or_default()));
            }
        }
    }

    /// The table at `key`, if there is one.
    pub(super) fn section(&mut self, key: &'static str) -> Option<Section<'t>> {
        let table = self.read(key, "a table", DeValue::as_table)?;
        Some(Section::new(self.inner_name(key), table, self.problems))
    }

    /// The same, with the place of its name.
    pub(super) fn section_at(&mut self, key: &'static str) -> Option<(Span, Section<'t>)> {
        let section = self.section(key)?;
        let (written, _) = self.table.get_key_value(key)?;
        Some((written.span(), section))
    }

    /// Whether the key is there. Does not count as asking for it.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// The tables inside the table at `key`, by their names as written, with the place of each name.
    pub(super) fn sections(&mut self, key: &'static str) -> Vec<(&'t str, Span, Section<'t>)> {
        let Some(outer) = self.section(key) else { return Vec::new() };
        let mut inner = Vec::new();
        for (name, value) in outer.table {
            match value.get_ref().as_table() {
                Some(table) => {
                    let section = Section::new(outer.inner_name(name.get_ref()), table, self.problems);
                    inner.push((name.get_ref().as_ref(), name.span(), section));
                }
                None => self.problems.add(outer.mismatch(name.get_ref(), value, "a table")),
            }
        }
        inner
    }

    /// Every key with its value, for tables with free keys; all count as known.
    pub(super) fn entries(self) -> impl Iterator<Item = (&'t str, Span, Value<'t>)> {
        self.table.iter().map(|(key, value)| (key.get_ref().as_ref(), key.span(), value))
    }

    pub(super) fn inner_name(&self, key: &str) -> String {
        match self.name.strip_suffix(']') {
            Some(outer) => format!("{outer}.{key}]"),
            None => format!("[{key}]"),
        }
    }

    /// Whether something is granted under this key, and where; none if it is not named. Does not count as asking for it.
    pub(super) fn grants(&self, key: &str) -> Option<(Span, bool)> {
        let (written, value) = self.table.get_key_value(key)?;
        let granted = match value.get_ref() {
            DeValue::Boolean(granted) => *granted,
            DeValue::Table(table) => !table.is_empty(),
            _ => true,
        };
        Some((written.span(), granted))
    }

    /// Reports a key that has its place elsewhere.
    pub(super) fn misplaced(&mut self, key: &'static str, help: &str) {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        if let Some((written, _)) = self.table.get_key_value(key) {
            let title = format!("`{key}` has no place in {}", self.name);
            self.problems.report(written.span(), title, help);
        }
    }

    /// Reports the keys that were not asked for.
    pub(super) fn finish(mut self) {
        let mut seen = HashSet::new();
        self.known.retain(|key| seen.insert(*key));
        for (key, value) in self.table {
            let written: &str = key.get_ref();
            if self.known.contains(&written) {
                continue;
            }
            let problem = self.problems.at(key.span(), format!("unknown key `{written}` in {}", self.name));
            // TOML reads [topics.a.b] as the key `b` of the topic `a`.
            let of_topic = self.name.strip_suffix(']').and_then(|name| name.rsplit_once("topics."));
            let dotted = of_topic.filter(|(_, topic)| value.get_ref().is_table() && !topic.contains('.'));
            let quoted = dotted
                .map(|(of, topic)| format!("; the topic `{topic}.{written}` is {of}topics.\"{topic}.{written}\"]"));
            let known = || format!("known here: {}{}", self.known.join(", "), quoted.unwrap_or_default());
            self.problems.add(problem.suggest(written, self.known.iter().copied(), known));
        }
    }
}

/// How to write a name.
pub(super) const NAME_RULE: &str = "a name is 1 to 128 of A-Z a-z 0-9 - _ . and begins with a letter or a digit";

/// Reads a name, or reports that it is not one.
pub(super) fn name(text: &str, span: Span, problems: &Problems) -> Option<Name> {
    let name = text.parse();
    if name.is_err() {
        problems.report(span, format!("`{text}` is no name"), NAME_RULE);
    }
    name.ok()
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a decimal number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// A type that a bounded setting is kept in. The bounds see to it that every allowed value fits.
pub(super) trait FromBase {
    fn from_base(base: u64) -> Self;
}

impl FromBase for Duration {
    fn from_base(base: u64) -> Self {
        Self::from_millis(base)
    }
}

macro_rules! from_base {
    ($($number:ty),+) => {$(
        impl FromBase for $number {
            fn from_base(base: u64) -> Self {
                Self::try_from(base).unwrap_or(Self::MAX)
            }
        }
    )+};
}

from_base!(u8, u32, u64, usize);
