//! Log lines on standard error.
//!
//! A thread of their own writes them. While nothing reads standard error, lines are dropped and counted: no job and no shutdown waits.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tracing::field::Field;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{self, FmtSpan, Writer};

use super::exit::Usage;
use super::global::{Global, LogFormat};
use super::screen;
use gristmill_core::time::Timestamp;
use gristmill_core::units::{hint, nearest};

/// Lines that wait to be written. A guest's line has up to some KiB.
const WAITING_LINES: usize = 4096;
/// What a filter can say of a part of the program.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// How long the last lines may take.
const LAST_LINES: Duration = Duration::from_millis(1200);
/// What log lines of this program call their origin: its crates and modules, and names that are given.
const ORIGINS: [&str; 19] = [
    "gristmill_config",
    "gristmill_core",
    "gristmill_metrics",
    "gristmill_runner",
    "gristmill_sandbox",
    "gristmill_server",
    "gristmill_store",
    "gristmill::access",
    "gristmill::guest",
    "gristmill::lmstfy",
    "gristmill::pull",
    "gristmill::runner",
    "gristmill::background",
    "gristmill::builder",
    "gristmill::cli",
    "gristmill::error",
    "gristmill::gristmill",
    "gristmill::http",
    "gristmill::open",
];
/// What the lines of one event after the first begin with.
const INDENT: &str = "\n    ";

/// Begins to log. `usual` is the filter that holds if no option sets another. When the guard is dropped, what waits is written,
/// if that takes no longer than a second.
///
/// # Errors
/// The filter makes no sense.
pub(super) fn begin(global: &Global, usual: &str) -> anyhow::Result<LastLines> {
    let directives = match (&global.log, global.quiet, global.verbose) {
        (Some(filter), _, _) => filter.as_str(),
        (None, true, _) => "error",
        (None, false, 0) => usual,
        (None, false, 1) => "warn,gristmill=debug",
        (None, false, _) => "trace",
    };
    let filter =
        filter(directives).map_err(|problem| Usage(format!("`{directives}` is no filter for log lines: {problem}")))?;
    let errors =
        Errors { to: io::stderr(), dropped: Arc::default(), noted: 0, is_json: global.log_format == LogFormat::Json };
    let dropped = Arc::clone(&errors.dropped);
    let (writer, guard) = NonBlockingBuilder::default().buffered_lines_limit(WAITING_LINES).finish(errors);
    let _ = dropped.set(writer.error_counter());
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::NONE)
        // They would also go to standard error: if that is closed, a panic would follow.
        .log_internal_errors(false)
        .with_writer(writer)
        .with_ansi(screen::note_has_colour());
    let begun = match global.log_format {
        LogFormat::Text => lines.fmt_fields(format::debug_fn(field_in_words).delimited(" ")).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    begun.map_err(|error| anyhow::anyhow!(error)).context("failed to begin logging")?;
    Ok(LastLines(Some(guard)))
}

/// A line about an error that ends the program, in the form of the JSON log. The log itself has ended by then, or never began.
pub(super) fn error_line(message: &str) -> Value {
    let timestamp = Timestamp::now().to_string();
    json!({ "timestamp": timestamp, "level": "ERROR", "message": message, "target": "gristmill::cli" })
}

/// Writes what waits when it is dropped.
pub(super) struct LastLines(Option<WorkerGuard>);

impl Drop for LastLines {
    /// The guard itself writes to standard output if the thread takes no line in time, and that may be the same full pipe.
    fn drop(&mut self) {
        let guard = self.0.take();
        in_time(move || drop(guard));
    }
}

/// Does what writes to standard output or error, and goes on without its end if nothing reads there.
pub(super) fn in_time(write: impl FnOnce() + Send + 'static) {
    let (ended, end) = mpsc::channel::<()>();
    let write = move || {
        write();
        drop(ended);
    };
    if thread::Builder::new().spawn(write).is_ok() {
        // It is disconnected at the end.
        let _ = end.recv_timeout(LAST_LINES);
    }
}

/// The filter that a text says. A word that is neither a level nor a part of this program would be taken for a part of another one, and
/// then nothing at all is logged.
fn filter(text: &str) -> Result<EnvFilter, String> {
    let directives: Vec<&str> = text.split(',').map(str::trim).filter(|directive| !directive.is_empty()).collect();
    let is_word = |directive: &&str| !directive.contains(['=', '[']) && !directive.starts_with("gristmill");
    let is_level = |word: &str| {
        LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word)) || word.len() == 1 && ("1"..="5").contains(&word)
    };
    if let Some(word) = directives.iter().copied().filter(is_word).find(|word| !is_level(word)) {
        let lower = word.to_lowercase();
        let near = LEVELS.into_iter().find(|level| lower.starts_with(level));
        let near = near.or_else(|| nearest(&lower, LEVELS.into_iter()));
        return Err(format!("`{word}` is no level{}: levels are {}", hint(near), LEVELS.join(", ")));
    }
    let is_ours = |directive: &&str| {
        let origin = directive.split(['=', '[']).next().unwrap_or_default();
        let is_below = |known: &&str| origin.strip_prefix(known).is_some_and(|rest| rest.starts_with("::"));
        !origin.is_empty() && ORIGINS.iter().any(|known| known.starts_with(origin) || is_below(known))
    };
    if !directives.is_empty() && !directives.iter().any(|directive| is_level(directive) || is_ours(directive)) {
        return Err(format!(
            "it names no part of this program and no level, so that nothing would be logged: write a level too, as in \
             `warn,{}`, or a part such as gristmill::runner, gristmill::guest, gristmill::access or gristmill_store",
            directives.join(",")
        ));
    }
    EnvFilter::try_new(directives.join(",")).map_err(|error| error.to_string())
}

/// Standard error, which says how many lines were dropped since it last took one.
struct Errors<W> {
    to: W,
    dropped: Arc<OnceLock<ErrorCounter>>,
    noted: usize,
    /// Its lines are documents, in which serde leaves half of what could drive a terminal.
    is_json: bool,
}

impl<W: Write> Write for Errors<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let dropped = self.dropped.get().map_or(0, ErrorCounter::dropped_lines);
        if dropped > self.noted {
            writeln!(
                self.to,
                "{} log lines are missing here: standard error was not read in time",
                dropped - self.noted
            )?;
            self.noted = dropped;
        }
        if self.is_json
            && let Ok(text) = std::str::from_utf8(line)
            && text.trim_end().contains(screen::is_harmful)
        {
            writeln!(self.to, "{}", screen::escaped(text.trim_end()))?;
            return Ok(line.len());
        }
        self.to.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
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
    fn dropped_lines_are_counted_where_they_are_missing() {
        let dropped = Arc::<OnceLock<ErrorCounter>>::default();
        let (waits, _guard) = NonBlockingBuilder::default().buffered_lines_limit(1).finish(Stuck);
        assert!(dropped.set(waits.error_counter()).is_ok());
        let mut log = Errors { to: Vec::new(), dropped, noted: 0, is_json: false };
        log.write_all(b"first\n").unwrap();
        while waits.error_counter().dropped_lines() == 0 {
            waits.clone().write_all(b"lost\n").unwrap();
        }
        log.write_all(b"second\n").unwrap();
        log.write_all(b"third\n").unwrap();
        let log = String::from_utf8(log.to).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!((lines[0], &lines[2..]), ("first", &["second", "third"][..]));
        assert!(lines[1].ends_with("log lines are missing here: standard error was not read in time"), "{log}");
    }

    /// What is never read.
    struct Stuck;

    impl Write for Stuck {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            std::thread::park();
            Ok(0)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_word_that_is_no_level_is_refused_with_the_levels() {
        for (word, near) in
            [("warning", "`warn`"), ("debugg", "`debug`"), ("verbose", "off, error"), ("info,all", "`all`")]
        {
            let problem = filter(word).unwrap_err();
            assert!(problem.contains(near) && problem.contains("off, error, warn, info, debug, trace"), "{problem}");
        }
        let good = [
            "WARN",
            "1",
            "",
            "off",
            " info , gristmill::runner=debug ",
            "gristmill_store",
            "warn,hyper=info",
            "info,[span]=debug",
            "gristmill=debug",
            "gristmill_store::redis=trace,h2=debug",
            "gristmill::guest[x]=debug",
        ];
        for text in good {
            assert!(filter(text).is_ok(), "{text}: {:?}", filter(text));
        }
        assert_eq!(filter(" gristmill=debug , warn").unwrap().to_string(), "gristmill=debug,warn");
        assert!(filter("gristmill=warning").is_err());
        assert!(filter("0").is_err_and(|problem| problem.contains("levels are off")));
        for nothing in ["gristmill::runer=info", "gristmill_stor_e", "h2=debug", "[x]=debug"] {
            assert!(filter(nothing).is_err_and(|problem| problem.contains("nothing would be logged")), "{nothing}");
        }
    }

    #[test]
    fn a_strangers_text_cannot_pass_for_another_event() {
        assert_eq!(tame("a\n2026-01-01 ERROR b\u{1b}[2J"), "a\n    2026-01-01 ERROR b\\u{1b}[2J");
    }
}
