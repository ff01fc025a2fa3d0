//! Where a command's output goes: results to standard output, everything about them to standard error.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

/// The program that read the output has closed it.
#[derive(Debug, thiserror::Error)]
#[error("the reader of the output has closed it")]
pub(super) struct Closed;

/// Writes a line of text to standard output.
pub(super) fn line(text: &str) -> anyhow::Result<()> {
    bytes(format!("{}\n", tame(text)).as_bytes())
}

/// The same, folded at blanks where a terminal does not hold it: continued lines have this many blanks before them.
pub(super) fn line_folded(text: &str, indent: usize) -> anyhow::Result<()> {
    line(&room().map_or_else(|| text.to_owned(), |room| folded(text, indent, room)))
}

fn folded(text: &str, indent: usize, room: usize) -> String {
    let mut folded = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut width = 0;
        for word in line.split_inclusive(' ') {
            if width > indent && width + word.trim_end().width() > room {
                folded.truncate(folded.trim_end_matches(' ').len());
                folded.push('\n');
                folded.push_str(&" ".repeat(indent));
                width = indent;
            }
            folded.push_str(word);
            width += word.trim_end_matches('\n').width();
        }
    }
    folded
}

/// How wide the terminal is that shows the output, if one does.
pub(super) fn room() -> Option<usize> {
    let size = terminal_size::terminal_size_of(io::stdout());
    size.map(|(width, _)| usize::from(width.0)).filter(|room| *room > 0)
}

/// The same of text that is rendered with colours where they may be.
pub(super) fn line_rendered(render: impl Fn(bool) -> String) -> anyhow::Result<()> {
    bytes(format!("{}\n", rendered(render, io::stdout().is_terminal() && may_colour())).as_bytes())
}

/// Goes back to the beginning of an empty screen, if it is one that is written to.
pub(super) fn clear() -> anyhow::Result<()> {
    if io::stdout().is_terminal() { bytes(b"\x1b[H\x1b[2J") } else { Ok(()) }
}

/// Writes one document, on one line, to standard output.
pub(super) fn document(document: &Value) -> anyhow::Result<()> {
    bytes(format!("{}\n", json(document)).as_bytes())
}

/// A document as text. What could drive a terminal is escaped as JSON does it, which serde does for half of it.
pub(super) fn json(document: &Value) -> String {
    escaped(&document.to_string())
}

/// The same of a document that is text already, on one line.
pub(super) fn escaped(document: &str) -> String {
    let mut text = String::with_capacity(document.len());
    for c in document.chars() {
        if is_harmful(c) { text.push_str(&format!("\\u{:04x}", u32::from(c))) } else { text.push(c) }
    }
    text
}

/// Writes bytes to standard output, as they are.
fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Closed.into()),
        written => written.context("failed to write to standard output"),
    }
}

/// Writes a job's result, or a state, to standard output: as it is, unless a terminal shows it.
pub(super) fn result(data: &[u8]) -> anyhow::Result<()> {
    if !io::stdout().is_terminal() {
        return bytes(data);
    }
    let Ok(text) = std::str::from_utf8(data) else {
        note(&format!("it is {} bytes of binary data: redirect it to a file to keep it", data.len()));
        return Ok(());
    };
    let text = text.replace("\r\n", "\n");
    let shown = tame(&text);
    bytes(shown.as_bytes())?;
    if !(shown.is_empty() || shown.ends_with('\n')) {
        bytes(b"\n")?;
    }
    if shown != text {
        note("note: its control characters are shown as escapes: `| cat` gives it as it is");
    }
    Ok(())
}

/// Writes about the output to standard error. Fails silently.
pub(super) fn note(text: &str) {
    say(&tame(text));
}

/// The same of text that is rendered with colours where they may be.
pub(super) fn note_rendered(render: impl Fn(bool) -> String) {
    say(&rendered(render, note_has_colour()));
}

/// The same of a document.
pub(super) fn note_document(document: &Value) {
    say(&json(document));
}

fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Asks at a terminal for this word; elsewhere nothing is confirmed.
///
/// # Errors
/// The terminal is gone.
pub(super) fn confirmed(wanted: &str, to_do: &str) -> anyhow::Result<bool> {
    if !(io::stdin().is_terminal() && is_watched()) {
        return Ok(false);
    }
    let mut err = io::stderr().lock();
    write!(err, "type {wanted} to {to_do}: ").and_then(|()| err.flush()).context("no terminal")?;
    let mut line = String::new();
    io::stdin().read_line(&mut line).context("failed to read the answer")?;
    Ok(line.trim() == wanted)
}

/// Whether a person reads what [`note`] says.
pub(super) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Whether standard error may be coloured (<https://no-color.org>).
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

/// A stranger's text on one line, without characters that drive a terminal or turn the text beside them round.
pub(super) fn clean(text: &str) -> String {
    text.chars().flat_map(harmless).collect()
}

/// The same with its lines.
pub(super) fn tame(text: &str) -> String {
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

/// With colours, unless a stranger's text in it has to be tamed: its escapes look like those of colours.
fn rendered(render: impl Fn(bool) -> String, colour: bool) -> String {
    let plain = render(false);
    let tamed = tame(&plain);
    if colour && tamed == plain { render(true) } else { tamed }
}

/// Controls, and the marks by which text that is written from right to left shows other text than there is.
pub(super) const fn is_harmful(c: char) -> bool {
    matches!(c, '\0'..='\u{8}' | '\u{a}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn harmless(c: char) -> impl Iterator<Item = char> {
    let keep = !is_harmful(c);
    keep.then_some(c).into_iter().chain((!keep).then(|| c.escape_default()).into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_strangers_text_cannot_drive_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(clean("größer\t✓"), "größer\t✓");
        assert_eq!(clean("\u{9b}31m\u{7f}\r"), "\\u{9b}31m\\u{7f}\\r");
        assert_eq!(clean("a\u{202e}cba\u{2066}"), "a\\u{202e}cba\\u{2066}", "nor turn it round");
        assert_eq!(tame("a\n\u{1b}b\n"), "a\n\\u{1b}b\n");
    }

    #[test]
    fn a_document_with_a_strangers_text_is_the_same_document_without_controls() {
        let stranger = json!({ "a\u{9b}": "\u{1b}]52;c;x\u{7}\u{7f}\u{85}\u{202e}\u{2069}\n\t✓" });
        let text = super::json(&stranger);
        assert!(!text.chars().any(is_harmful), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), stranger);
    }

    #[test]
    fn colours_are_given_up_where_a_stranger_could_have_made_them() {
        let render = |text: &'static str| move |colour| if colour { format!("\u{1b}[31m{text}") } else { text.into() };
        assert_eq!(rendered(render("good"), true), "\u{1b}[31mgood");
        assert_eq!(rendered(render("good"), false), "good");
        assert_eq!(rendered(render("\u{1b}[8mevil"), true), "\\u{1b}[8mevil");
    }

    #[test]
    fn what_a_line_does_not_hold_goes_on_below_it() {
        let text = "7s ago  mail  attempt 1  failed\n    failed: no such host\n    https://a.example.org/very/long";
        let said = "7s ago  mail\n      attempt 1\n      failed\n    failed: no\n      such host\n    https://a.example.org/very/long";
        assert_eq!(folded(text, 6, 16), said);
        assert_eq!(folded(text, 6, 40), text);
    }

    #[test]
    fn previews_are_short_and_never_binary() {
        assert_eq!(preview(b"abcdef", 3), "abc…");
        assert_eq!(preview(b"abc", 3), "abc");
        assert_eq!(preview(&[0xff, 0xd8], 3), "2 bytes of binary data");
    }
}
