//! `[journal]`: where every attempt is written down.

use std::path::{Path, PathBuf};

use super::ranges;
use super::read::Section;

/// `[journal]`: the file, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalSettings {
    pub path: PathBuf,
    /// Bytes from which on the file is put aside and a new one begun.
    pub rotate_bytes: u64,
    /// Files put aside that are kept, `path.1` the latest. 1 to 1,000.
    pub keep: u32,
}

impl JournalSettings {
    /// The file at `path`, and what is usual otherwise: at most 1.1 GiB on the disk.
    pub fn at(path: PathBuf) -> Self {
        Self { path, rotate_bytes: 64 << 20, keep: 16 }
    }
}

/// None: nothing is written down. Paths are relative to `folder`, the manifest's.
pub(super) fn journal(root: &mut Section<'_>, folder: &Path) -> Option<JournalSettings> {
    let place = root.value("journal")?.span();
    let mut section = root.section("journal")?;
    let mut settings = JournalSettings::at(PathBuf::new());
    section.quantity(&ranges::ROTATE_AT, &mut settings.rotate_bytes);
    section.quantity(&ranges::KEEP, &mut settings.keep);
    let problems = section.problems();
    let path = match section.value("path") {
        Some(_) => section.path("path"),
        None => {
            let help = "write path = \"journal.jsonl\", or leave [journal] out";
            problems.report(place, "[journal] does not say to which file: it needs a `path`", help);
            None
        }
    };
    section.finish();
    path.map(|path| JournalSettings { path: folder.join(path), ..settings })
}
