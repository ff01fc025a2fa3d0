//! Where a command's output goes: results to standard output, everything about them to standard error.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use serde_json::Value;

/// The program that read the output has closed it.
#[derive(Debug, thiserror::Error)]
#[error("the reader of the output has closed it")]
pub(super) struct Closed;

/// Writes a line to standard output.
pub(super) fn line(text: &str) -> anyhow::Result<()> {
    bytes(format!("{text}\n").as_bytes())
}

/// Writes one document, on one line, to standard output.
pub(super) fn document(document: &Value) -> anyhow::Result<()> {
    line(&document.to_string())
}

/// Writes bytes to standard output, as they are.
pub(super) fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Closed.into()),
        written => written.context("failed to write to standard output"),
    }
}

/// Writes a job's result, or a state, to standard output: as it is, unless a person looks at it.
pub(super) fn result(data: &[u8]) -> anyhow::Result<()> {
    if !io::stdout().is_terminal() {
        return bytes(data);
    }
    if std::str::from_utf8(data).is_err() {
        note(&format!("it is {} bytes of binary data: redirect it to a file to keep it", data.len()));
        return Ok(());
    }
    bytes(data)?;
    if data.is_empty() || data.ends_with(b"\n") { Ok(()) } else { bytes(b"\n") }
}

/// Writes about the output to standard error. Fails silently.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether a person reads what [`note`] says.
pub(super) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Whether standard output may be coloured (<https://no-color.org>).
pub(super) fn out_has_colour() -> bool {
    io::stdout().is_terminal() && may_colour()
}

/// Whether standard error may be coloured.
pub(super) fn note_has_colour() -> bool {
    is_watched() && may_colour()
}

fn may_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Makes bytes fit for a terminal: text as it is but for control characters, anything else as its length.
pub(super) fn preview(data: &[u8], most: usize) -> String {
    let Ok(text) = std::str::from_utf8(data) else { return format!("{} bytes of binary data", data.len()) };
    let shown: String = text.chars().take(most).flat_map(harmless).collect();
    if text.chars().nth(most).is_some() { format!("{shown}…") } else { shown }
}

/// A stranger's text without control characters: they could repaint the reader's terminal.
pub(super) fn clean(text: &str) -> String {
    text.chars().flat_map(harmless).collect()
}

fn harmless(c: char) -> impl Iterator<Item = char> {
    let keep = !c.is_control() || c == '\t';
    keep.then_some(c).into_iter().chain((!keep).then(|| c.escape_default()).into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strangers_text_cannot_drive_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(clean("größer\t✓"), "größer\t✓");
    }

    #[test]
    fn previews_are_short_and_never_binary() {
        assert_eq!(preview(b"abcdef", 3), "abc…");
        assert_eq!(preview(b"abc", 3), "abc");
        assert_eq!(preview(&[0xff, 0xd8], 3), "2 bytes of binary data");
    }
}
