//! Texts to compare with, in which `*` stands for any characters.

/// A text with gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    /// The pieces between the `*`, at least one. The first one begins the text and the last one ends it.
    Whole(Vec<String>),
    /// A text that may be anywhere, whatever the case of its letters; in lower case.
    Within(String),
}

impl Pattern {
    /// Exactly this text.
    pub(super) fn literal(text: &str) -> Self {
        Self::Whole(vec![text.to_owned()])
    }

    pub(super) fn fits(&self, text: &str) -> bool {
        match self {
            Self::Whole(pieces) => fits_whole(pieces, text),
            Self::Within(words) => text.to_lowercase().contains(words),
        }
    }

    /// The text, if there is only one that fits.
    pub(super) fn as_literal(&self) -> Option<&str> {
        match self {
            Self::Whole(pieces) => match pieces.as_slice() {
                [piece] => Some(piece),
                _ => None,
            },
            Self::Within(_) => None,
        }
    }
}

fn fits_whole(pieces: &[String], text: &str) -> bool {
    match pieces {
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
