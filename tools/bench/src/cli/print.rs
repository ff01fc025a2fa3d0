//! What is written to standard output: lines of JSON, or tables.

use std::io::Write as _;

use anyhow::Context;
use unicode_width::UnicodeWidthStr;

/// Writes a line of JSON.
pub(super) fn document(document: &impl serde::Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string(document)?)
}

/// Writes aligned columns. A title that begins with `>` makes a column of numbers, aligned to the right.
pub(super) fn table(titles: &[&str], rows: &[Vec<String>]) -> anyhow::Result<()> {
    let names: Vec<String> = titles.iter().map(|title| title.trim_start_matches('>').to_owned()).collect();
    let lines = || std::iter::once(&names).chain(rows);
    let widths: Vec<usize> = (0..titles.len())
        .map(|column| lines().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0))
        .collect();
    lines().try_for_each(|row| {
        let mut text = String::new();
        for ((title, cell), width) in titles.iter().zip(row).zip(&widths) {
            let blanks = " ".repeat(width - cell.width());
            text += &if title.starts_with('>') { format!("{blanks}{cell}  ") } else { format!("{cell}{blanks}  ") };
        }
        line(text.trim_end())
    })
}

fn line(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{text}").context("failed to write to standard output")
}
