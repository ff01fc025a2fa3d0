//! `[journal]` and `[audit]`: files to which lines are written.

use std::path::{Path, PathBuf};

use super::ranges;
use super::read::Section;

/// `[journal]` or `[audit]`: the file, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFileSettings {
    /// The file that lines are appended to.
    pub path: PathBuf,
    /// Bytes from which on the file is put aside and a new one begun.
    pub rotate_bytes: u64,
    /// Files put aside that are kept, `path.1` the latest. 1 to 1,000.
    pub keep: u32,
}

impl LineFileSettings {
    /// The file at `path`, and what is usual otherwise: at most 1.1 GiB on the disk.
    pub fn at(path: PathBuf) -> Self {
        Self { path, rotate_bytes: 64 << 20, keep: 16 }
    }
}

/// Returns `None` without such a section: then nothing is written down. Paths are relative to `folder`, the manifest's.
pub(super) fn line_file(root: &mut Section<'_>, name: &'static str, folder: &Path) -> Option<LineFileSettings> {
    let place = root.value(name)?.span();
    let mut section = root.section(name)?;
    let mut settings = LineFileSettings::at(PathBuf::new());
    section.quantity(&ranges::ROTATE_AT, &mut settings.rotate_bytes);
    section.quantity(&ranges::KEEP, &mut settings.keep);
    let problems = section.problems();
    let path = match section.value("path") {
        Some(_) => section.path("path"),
        None => {
            let help = format!("write path = \"{name}.jsonl\", or leave [{name}] out");
            problems.report(place, format!("[{name}] does not say to which file: it needs a `path`"), help);
            None
        }
    };
    section.finish();
    path.map(|path| LineFileSettings { path: folder.join(path), ..settings })
}
