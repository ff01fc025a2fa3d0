//! The attempt journal: one line of JSON for every attempt. Format and use: `docs/reference/journal.md`.
//!
//! The runner never waits for it. What is settled is queued, and a thread of the journal's own writes what came together.

mod line;

#[cfg(test)]
pub(super) mod tests;

pub use self::line::AttemptLine;
use super::line_file::LineFile;

/// An open journal.
pub type Journal = LineFile<AttemptLine>;
