//! How far an attempt is, as its handler says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// As many characters of a note are kept.
const NOTE_CHARS: usize = 200;

/// How far an attempt is, as its handler says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// In hundredths of a per cent: 10,000 is all of it.
    pub basis_points: u32,
    /// What the handler says of it. Empty: nothing.
    pub note: String,
}

impl Progress {
    /// The progress that a handler reports, cut to 10,000 and the beginning of a long note.
    pub fn reported(basis_points: u32, note: &str) -> Self {
        Self { basis_points: basis_points.min(10_000), note: note.chars().take(NOTE_CHARS).collect() }
    }
}
