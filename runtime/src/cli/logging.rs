//! Log lines on standard error.

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use super::global::{Global, LogFormat};
use super::screen;

/// Begins to log. `usual` is the filter of a command that is told nothing else.
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
        .with_writer(std::io::stderr)
        .with_ansi(screen::note_has_colour());
    let begun = match global.log_format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    begun.map_err(|error| anyhow::anyhow!(error)).context("failed to begin logging")
}
