//! Log lines on standard error.

use std::fmt;

use anyhow::Context;
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{self, FmtSpan, Writer};

use super::global::{Global, LogFormat};
use super::screen;

/// What the lines of one event after the first begin with.
const INDENT: &str = "\n    ";

/// Begins to log. `usual` is the filter that holds if no option sets another.
///
/// # Errors
/// The filter makes no sense.
pub(super) fn begin(global: &Global, usual: &str) -> anyhow::Result<()> {
    let directives = match (&global.log, global.quiet, global.verbose) {
        (Some(filter), _, _) => filter.as_str(),
        (None, true, _) => "error",
        (None, false, 0) => usual,
        (None, false, 1) => "warn,gristmill=debug",
        (None, false, _) => "trace",
    };
    let filter = EnvFilter::try_new(directives)
        .map_err(|error| super::exit::Usage(format!("`{directives}` is no filter for log lines: {error}")))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::NONE)
        // They would go to standard error, too: if that is closed, a panic would follow.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .with_ansi(screen::note_has_colour());
    let begun = match global.log_format {
        LogFormat::Text => lines.fmt_fields(format::debug_fn(field_in_words).delimited(" ")).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    begun.map_err(|error| anyhow::anyhow!(error)).context("failed to begin logging")
}

/// Writes one field of an event. Much of it is a stranger's: a guest's message, the file name of a component.
fn field_in_words(to: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = tame(&format!("{value:?}"));
    match field.name() {
        // A guest's own fields have their names in them.
        "message" | "fields" => write!(to, "{text}"),
        name => {
            let (begin, end) = if to.has_ansi_escapes() { ("\u{1b}[3m", "\u{1b}[0m") } else { ("", "") };
            // A backtrace begins on a line of its own.
            let gap = if text.contains('\n') { INDENT } else { "" };
            write!(to, "{begin}{name}{end}={gap}{text}")
        }
    }
}

/// Lines after the first are indented, so that no text can look like another event; control characters cannot repaint
/// the terminal.
fn tame(text: &str) -> String {
    text.lines().map(screen::clean).collect::<Vec<_>>().join(INDENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strangers_text_cannot_pass_for_another_event() {
        assert_eq!(tame("a\n2026-01-01 ERROR b\u{1b}[2J"), "a\n    2026-01-01 ERROR b\\u{1b}[2J");
    }
}
