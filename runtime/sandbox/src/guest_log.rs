//! The log lines of a handler: bounded, and forwarded with the attempt that they belong to.

use std::mem;
use std::sync::Arc;

use tracing::Level;

use super::attempt::{Attempt, LogLine, LogSink, Version};
use super::recording::boundary::Boundary;
use gristmill_core::topic::Limits;

/// A guest's last text on standard error, kept for the message of a trap. Bytes.
const LAST_WORDS_BYTES: usize = 1 << 10;

/// A longer line of a stream is cut into several.
const LINE_BYTES_MAX: usize = 8 << 10;

/// How the advice begins that Rust's panic hook ends with. A guest has no environment, and its backtrace is kept anyway.
const RUST_ADVICE: &str = "note: run with `RUST_BACKTRACE=1`";
/// What a field takes in a log line besides its text: quotes, brackets, commas. Without it, a guest could fill the log
/// with a million fields of nothing.
pub(super) const FIELD_BYTES: usize = 10;

/// A line with more fields is dropped like one that is too long.
const FIELDS_MAX: usize = 100;

/// Of what a stream prints at once when the log is full, only the end is read: it may hold the guest's last words.
const READ_WHEN_FULL: usize = 2 * LAST_WORDS_BYTES;

/// Stands before the place in the first line of a panic of Rust.
const RUST_PANIC: &str = "panicked at ";

/// How a panic of Go begins. The stacks of all goroutines follow.
const GO_PANICS: [&str; 2] = ["panic: ", "fatal error: "];

/// The log of one attempt. What is over the limit is dropped and counted, never an error of the guest.
#[derive(Debug)]
pub struct GuestLog {
    /// Which attempt a line belongs to, and where it goes.
    attempt: Arc<Attempt>,
    /// None: the handler is no component.
    version: Option<Version>,
    bytes_left: u64,
    dropped: u64,
    /// Bytes that passed through standard streams, and that the guest was not charged for yet.
    pub(super) passed: u64,
    last_words: String,
    stdout: PartialLine,
    stderr: PartialLine,
    /// Lines that are not passed on yet, if they are held back.
    held: Option<Vec<LogLine>>,
    /// What the guest has asked the host.
    pub(super) boundary: Boundary,
}

/// A guest's standard streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Error,
}

/// The line that a stream has begun. Never longer than [`LINE_BYTES_MAX`].
type PartialLine = Vec<u8>;

impl GuestLog {
    /// Empty, with the limit of the attempt's topic. `version` is that of the component, if it is one that logs.
    pub fn new(attempt: &Arc<Attempt>, version: Option<Version>) -> Self {
        Self {
            attempt: Arc::clone(attempt),
            version,
            bytes_left: attempt.limits.log_bytes,
            dropped: 0,
            passed: 0,
            last_words: String::new(),
            stdout: PartialLine::new(),
            stderr: PartialLine::new(),
            held: None,
            // A handler that is no component cannot be replayed.
            boundary: version.map(|_| Boundary::of(&attempt.record)).unwrap_or_default(),
        }
    }

    /// Passes nothing on until [`Self::release`], and records nothing.
    pub(super) fn hold(&mut self) {
        (self.held, self.boundary) = (Some(Vec::new()), Boundary::default());
    }

    /// Passes on what was held back.
    pub(super) fn release(&mut self) {
        self.held.take().into_iter().flatten().for_each(|line| self.forward(line));
    }

    /// Whether a line of this level would be kept.
    pub(super) fn keeps(&self, level: Level) -> bool {
        match self.attempt.logs {
            LogSink::Trace => enabled_in_tracing(level),
            LogSink::TraceAndKeep(_) => level <= Level::INFO || enabled_in_tracing(level),
            LogSink::Keep(_) => level <= Level::INFO,
            LogSink::Collect(_) => true,
        }
    }

    /// Whether a line with so many fields may fit, and with so many bytes besides what the fields say.
    pub(super) fn may_fit(&self, bytes: usize, fields: usize) -> bool {
        let bytes = bytes.saturating_add(fields.saturating_mul(FIELD_BYTES));
        fields <= FIELDS_MAX && bytes.max(1) as u64 <= self.bytes_left
    }

    /// Counts a line that does not fit.
    pub(super) fn drop_line(&mut self, level: Level, source: &'static str, message: &str) {
        self.note_last_words(level, source, message, &[]);
        self.dropped += 1;
    }

    /// Writes a line, unless it does not fit any more. An empty line says nothing and is left out, but it counts as one
    /// byte: no line is free.
    pub fn write(&mut self, line: LogLine) {
        self.note_last_words(line.level, line.source, &line.message, &line.fields);
        let bytes = line.bytes();
        match self.bytes_left.checked_sub(bytes.max(1) as u64) {
            Some(remaining) if line.fields.len() <= FIELDS_MAX => {
                self.bytes_left = remaining;
                if bytes > 0 {
                    self.boundary.note_line(&line);
                    self.forward(line);
                }
            }
            _ => self.dropped += 1,
        }
    }

    /// Writes what goes to a stream, line by line; a line without an end waits for it.
    pub(super) fn print(&mut self, stream: Stream, bytes: &[u8]) {
        self.passed = self.passed.saturating_add(bytes.len() as u64);
        let mut remaining = bytes;
        while !remaining.is_empty() {
            if self.bytes_left == 0 {
                remaining = self.skip(stream, remaining);
            }
            let end = memchr::memchr(b'\n', remaining);
            let (text, rest) = remaining.split_at(end.unwrap_or(remaining.len()));
            remaining = rest.get(1..).unwrap_or_default();
            for part in text.chunks(LINE_BYTES_MAX) {
                if self.partial_line(stream).len() + part.len() > LINE_BYTES_MAX {
                    self.end_line(stream);
                }
                self.partial_line(stream).extend_from_slice(part);
            }
            match end {
                Some(0) if self.partial_line(stream).is_empty() => self.count_empty_line(),
                Some(_) => self.end_line(stream),
                None => {}
            }
        }
    }

    /// Counts a line that says nothing, as [`Self::write`] does, at hardly any cost: a guest may print a million of them.
    fn count_empty_line(&mut self) {
        match self.bytes_left.checked_sub(1) {
            Some(remaining) => self.bytes_left = remaining,
            None => self.dropped += 1,
        }
    }

    /// Counts the lines that a stream prints into a full log, and returns the end of them.
    fn skip<'a>(&mut self, stream: Stream, bytes: &'a [u8]) -> &'a [u8] {
        let (skipped, end) = bytes.split_at(bytes.len().saturating_sub(READ_WHEN_FULL));
        let lines = memchr::memchr_iter(b'\n', skipped).count();
        if lines > 0 {
            self.dropped += lines as u64;
            self.partial_line(stream).clear();
        }
        end
    }

    /// A last line without an end, such as the message of an abort, is a line too.
    pub(super) fn end_lines(&mut self) {
        for stream in [Stream::Out, Stream::Error] {
            if !self.partial_line(stream).is_empty() {
                self.end_line(stream);
            }
        }
    }

    fn partial_line(&mut self, stream: Stream) -> &mut PartialLine {
        match stream {
            Stream::Out => &mut self.stdout,
            Stream::Error => &mut self.stderr,
        }
    }

    fn end_line(&mut self, stream: Stream) {
        let line = mem::take(self.partial_line(stream));
        let message = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line)).into_owned();
        let (level, source) = match stream {
            Stream::Out => (Level::INFO, "stdout"),
            Stream::Error => (Level::WARN, "stderr"),
        };
        self.write(LogLine { level, source, message, fields: Vec::new() });
    }

    /// Bytes of its limit that are used up. All are, once a line was dropped: the rest is of no use.
    pub(super) fn used(&self, limits: &Limits) -> u64 {
        if self.dropped > 0 { limits.log_bytes } else { limits.log_bytes.saturating_sub(self.bytes_left) }
    }

    /// Says how many lines were dropped, and returns that number.
    pub fn close(&mut self) -> u64 {
        if self.dropped > 0 {
            let message = format!("{} log lines dropped", self.dropped);
            self.forward(LogLine { level: Level::WARN, source: "log", message, fields: Vec::new() });
        }
        self.dropped
    }

    /// The end of what the guest wrote to standard error or logged as an error. The first line says what went wrong: it is the one that is shown where there is room for one.
    pub(super) fn last_words(&self) -> String {
        cause_first(self.last_words.trim())
    }

    /// Zig and `AssemblyScript` put the cause and the place of a panic into fields.
    fn note_last_words(&mut self, level: Level, source: &'static str, message: &str, fields: &[(String, String)]) {
        if (source == "stderr" || level == Level::ERROR) && !message.starts_with(RUST_ADVICE) {
            if fields.is_empty() {
                self.add_last_words(message);
            } else {
                self.add_last_words(&format!("{message} {}", in_words(fields)));
            }
        }
    }

    fn add_last_words(&mut self, text: &str) {
        if self.last_words.len() + text.len() > LAST_WORDS_BYTES {
            let surplus = (self.last_words.len() + text.len() - LAST_WORDS_BYTES).min(self.last_words.len());
            self.last_words.drain(..self.last_words.ceil_char_boundary(surplus));
        }
        let end = text.floor_char_boundary(LAST_WORDS_BYTES.min(text.len()));
        self.last_words.push_str(text.get(..end).unwrap_or_default());
        self.last_words.push('\n');
    }

    fn forward(&mut self, line: LogLine) {
        if let Some(held) = &mut self.held {
            return held.push(line);
        }
        match &self.attempt.logs {
            LogSink::Trace => self.trace(&line),
            LogSink::TraceAndKeep(tail) | LogSink::Keep(tail) => {
                if matches!(self.attempt.logs, LogSink::TraceAndKeep(_)) {
                    self.trace(&line);
                }
                if self.keeps(line.level) {
                    tail.lock().push(self.attempt.now(), line);
                }
            }
            LogSink::Collect(lines) => lines.lock().push(line),
        }
    }

    fn trace(&self, line: &LogLine) {
        let fields = (!line.fields.is_empty()).then(|| line.fields_in_words());
        let fields = fields.as_ref().map(tracing::field::display);
        let version = self.version.as_ref().map(tracing::field::display);
        let (job, attempt) = (&self.attempt.job.spec, self.attempt.attempt);
        let trace_id = self.attempt.trace.map(|trace| tracing::field::display(trace.trace_id()));
        // `log` is the usual source, so it is left out.
        let source = (line.source != "log").then(|| tracing::field::display(line.source));
        // The level of an event is part of its call site, hence one site for each.
        macro_rules! event {
            ($level:expr) => {
                tracing::event!(
                    target: "gristmill::guest",
                    $level,
                    fields,
                    tenant = %job.topic.tenant,
                    topic = %job.topic.topic,
                    job = %job.id,
                    attempt,
                    version,
                    trace_id,
                    source,
                    "{}", line.message
                )
            };
        }
        match line.level {
            Level::ERROR => event!(Level::ERROR),
            Level::WARN => event!(Level::WARN),
            Level::INFO => event!(Level::INFO),
            Level::DEBUG => event!(Level::DEBUG),
            Level::TRACE => event!(Level::TRACE),
        }
    }
}

impl LogLine {
    /// What it takes of the log.
    pub(super) fn bytes(&self) -> usize {
        let fields = self.fields.iter().map(|(name, value)| name.len() + value.len() + FIELD_BYTES);
        self.message.len() + fields.sum::<usize>()
    }

    /// `from=1600x1067 name="Ada L."`: a value that is more than one word is quoted.
    pub fn fields_in_words(&self) -> String {
        in_words(&self.fields)
    }
}

pub(super) fn in_words(fields: &[(String, String)]) -> String {
    let is_word =
        |value: &str| !value.is_empty() && !value.contains([' ', '"', '=']) && !value.contains(char::is_control);
    let in_words = fields
        .iter()
        .map(|(name, value)| if is_word(value) { format!("{name}={value}") } else { format!("{name}={value:?}") });
    in_words.collect::<Vec<_>>().join(" ")
}

fn enabled_in_tracing(level: Level) -> bool {
    match level {
        Level::ERROR => tracing::enabled!(target: "gristmill::guest", Level::ERROR),
        Level::WARN => tracing::enabled!(target: "gristmill::guest", Level::WARN),
        Level::INFO => tracing::enabled!(target: "gristmill::guest", Level::INFO),
        Level::DEBUG => tracing::enabled!(target: "gristmill::guest", Level::DEBUG),
        Level::TRACE => tracing::enabled!(target: "gristmill::guest", Level::TRACE),
    }
}

/// Moves what went wrong before the lines that the guest wrote earlier: its panic, or the last line that is not indented, as lines of a stack are. Rust writes
/// the place of a panic above the text, so that many panics would begin alike: it goes behind the text.
fn cause_first(words: &str) -> String {
    let lines: Vec<&str> = words.lines().collect();
    let is_panic = |line: &&str| line.contains(RUST_PANIC) || GO_PANICS.iter().any(|begin| line.starts_with(begin));
    let is_cause = |line: &&str| !line.is_empty() && !line.starts_with([' ', '\t']);
    let is_error = |line: &&str| line.get(..6).is_some_and(|begin| begin.eq_ignore_ascii_case("error:"));
    let last = |is: &dyn Fn(&&str) -> bool| lines.iter().rposition(is);
    let begin = last(&is_panic).or_else(|| last(&is_error)).or_else(|| last(&is_cause));
    let (earlier, cause) = lines.split_at(begin.unwrap_or_default());
    let words = [cause, earlier].concat().join("\n");
    let [head, text, ..] = cause else { return words };
    match head.split_once(RUST_PANIC).and_then(|(_, place)| place.strip_suffix(':')) {
        Some(place) if !text.is_empty() => {
            words.replacen(&format!("{head}\n{text}"), &format!("{text} (panicked at {place})"), 1)
        }
        _ => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lines_cost_the_log_a_byte_each_and_leave_the_last_words_alone() {
        let mut attempt = super::super::tests::attempt("");
        attempt.limits.log_bytes = 3000;
        let mut log = GuestLog::new(&Arc::new(attempt), None);
        log.print(Stream::Error, b"out of cheese\n");
        log.print(Stream::Error, &[b'\n'; 2000]);
        assert_eq!((log.bytes_left, log.last_words().as_str()), (3000 - 13 - 2000, "out of cheese"));
        log.print(Stream::Error, &[b'\n'; 1000]);
        assert_eq!((log.bytes_left, log.close(), log.last_words().as_str()), (0, 13, "out of cheese"));
    }

    #[test]
    fn the_first_of_the_last_words_says_what_went_wrong() {
        let panic = "thread '<unnamed>' (1) panicked at src/lib.rs:5:6:\n";
        for (words, first) in [
            (format!("{panic}the moon is full"), "the moon is full (panicked at src/lib.rs:5:6)"),
            (
                format!("shouting\n{panic}left == right failed\n  left: 1\n right: 2"),
                "left == right failed (panicked at src/lib.rs:5:6)\n  left: 1\n right: 2\nshouting",
            ),
            (panic.trim().to_owned(), panic.trim()),
            ("shouting for shout\ntoo loud".to_owned(), "too loud\nshouting for shout"),
            ("Error: no mail\n    at send (mail.js:1)".to_owned(), "Error: no mail\n    at send (mail.js:1)"),
            (
                "Traceback\n  File mail.py\nValueError: no mail".to_owned(),
                "ValueError: no mail\nTraceback\n  File mail.py",
            ),
            (
                "late\npanic: no mail\n\ngoroutine 1 [running]:\nmain.main()".to_owned(),
                "panic: no mail\n\ngoroutine 1 [running]:\nmain.main()\nlate",
            ),
            (
                "sending\nError: no mail\n\nCaused by:\n    0: refused".to_owned(),
                "Error: no mail\n\nCaused by:\n    0: refused\nsending",
            ),
            (String::new(), ""),
        ] {
            assert_eq!(cause_first(&words), first);
        }
    }

    #[test]
    fn the_fields_of_an_error_are_last_words_too() {
        let mut log = GuestLog::new(&Arc::new(super::super::tests::attempt("")), None);
        let fields = [("cause", "index out of bounds"), ("at", "handler.zig:12")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let line = |level| LogLine { level, source: "log", message: "panic".into(), fields: fields.clone() };
        log.write(line(Level::INFO));
        assert_eq!(log.last_words(), "");
        log.write(line(Level::ERROR));
        assert_eq!(log.last_words(), r#"panic cause="index out of bounds" at=handler.zig:12"#);
    }

    #[test]
    fn fields_are_written_as_words_and_quoted_where_they_are_more() {
        let fields = [("to", "320x213"), ("name", "Ada L."), ("note", "a\nb"), ("none", "")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let line = LogLine { level: Level::INFO, source: "log", message: "x".into(), fields };
        assert_eq!(line.fields_in_words(), r#"to=320x213 name="Ada L." note="a\nb" none="""#);
    }
}
