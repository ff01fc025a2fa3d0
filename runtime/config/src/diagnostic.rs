//! One mistake in a manifest, shown at its place: file, line, column, the line with a caret, and what to do.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use gristmill_core::units::nearest;

/// Bytes of the manifest's text.
pub(super) type Span = Range<usize>;

/// A manifest's text and where it came from. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) path: Arc<Path>,
    pub(super) text: Arc<str>,
}

/// One mistake. `Display` is plain text, stable enough to be compared in tests.
#[derive(Clone, PartialEq, Eq)]
pub struct Diagnostic {
    source: Source,
    /// None: it is about the whole, or about something that is not written down.
    span: Option<Span>,
    title: String,
    label: String,
    help: Option<String>,
}

impl Source {
    pub(super) fn complain(&self, span: Option<Span>, title: impl Into<String>) -> Diagnostic {
        Diagnostic { source: self.clone(), span, title: title.into(), label: String::new(), help: None }
    }
}

impl Diagnostic {
    /// What stands beside the caret.
    pub(super) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// What to do, on a line of its own.
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Says "did you mean …?" if one of the choices is near to what was written, else what `help` says.
    pub(super) fn suggest<'a>(
        self,
        written: &str,
        choices: impl Iterator<Item = &'a str>,
        help: impl FnOnce() -> String,
    ) -> Self {
        match did_you_mean(written, choices) {
            Some(hint) => self.label(hint),
            None => self.help(help()),
        }
    }

    /// Blots out what the caret points at: it may be a password, and messages end up in logs.
    pub(super) fn redacted(mut self) -> Self {
        let text = &self.source.text;
        let span = self.span.clone().unwrap_or_default();
        if let (Some(before), Some(after)) = (text.get(..span.start), text.get(span.end..)) {
            self.source.text = format!("{before}{}{after}", "*".repeat(span.len())).into();
        }
        self
    }

    /// What is wrong, in one line.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The file that is wrong.
    pub fn path(&self) -> &Path {
        &self.source.path
    }

    /// Line and column in characters, both from 1; none if the mistake has no place in the text.
    pub fn place(&self) -> Option<(usize, usize)> {
        let before = self.source.text.get(..self.span.as_ref()?.start)?;
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before.get(line_start..)?.chars().count() + 1;
        Some((before.matches('\n').count() + 1, column))
    }

    pub(super) fn start(&self) -> usize {
        self.span.as_ref().map_or(0, |span| span.start)
    }

    /// The whole message with its excerpt; with terminal colours if `colour`.
    pub fn render(&self, colour: bool) -> String {
        let title = Level::ERROR.primary_title(self.title.as_str());
        let path = self.source.path.to_string_lossy();
        let mut group = match &self.span {
            None => Group::with_title(title),
            Some(span) => {
                let caret = AnnotationKind::Primary.span(span.clone());
                let caret = if self.label.is_empty() { caret } else { caret.label(self.label.as_str()) };
                title.element(Snippet::source(&*self.source.text).path(path).annotation(caret))
            }
        };
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl fmt::Debug for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Diagnostic").field("title", &self.title).field("place", &self.place()).finish()
    }
}

impl fmt::Debug for Source {
    /// Without the text: it is long, and may hold passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.path, f)
    }
}

/// "did you mean …?", if one of the choices is close to what was written; else nothing.
pub fn did_you_mean<'a>(written: &str, choices: impl Iterator<Item = &'a str>) -> Option<String> {
    nearest(written, choices).map(|choice| format!("did you mean `{choice}`?"))
}
