//! Texts to compare with, in which `*` stands for any characters.

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
            [first, middle @ .., last] => {
                let Some(rest) = text.strip_prefix(first.as_str()) else { return false };
                let Some(mut rest) = rest.strip_suffix(last.as_str()) else { return false };
                middle.iter().all(|piece| match rest.split_once(piece.as_str()) {
                    Some((_, behind)) => {
                        rest = behind;
                        true
                    }
                    None => false,
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
