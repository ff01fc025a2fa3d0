//! Texts to compare with, in which `*` stands for any characters.

use memchr::memmem;

/// A text with gaps: the pieces between the `*`, at least one. The first one begins the text and the last one ends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(pub(super) Vec<String>);

impl Pattern {
    /// Exactly this text.
    pub(super) fn literal(text: &str) -> Self {
        Self(vec![text.to_owned()])
    }

    pub(super) fn fits(&self, text: &str) -> bool {
        match self.0.as_slice() {
            [] => text.is_empty(),
            [only] => text == only,
            pieces if pieces.iter().map(String::len).sum::<usize>() > text.len() => false,
            [first, middle @ .., last] => {
                let Some(rest) = text.strip_prefix(first.as_str()) else { return false };
                let Some(mut rest) = rest.strip_suffix(last.as_str()) else { return false };
                middle.iter().all(|piece| {
                    let at = memmem::find(rest.as_bytes(), piece.as_bytes());
                    let behind = at.and_then(|at| rest.get(at + piece.len()..));
                    rest = behind.unwrap_or_default();
                    behind.is_some()
                })
            }
        }
    }

    /// The text, if there is only one that fits.
    pub(super) fn as_literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [piece] => Some(piece),
            _ => None,
        }
    }
}
