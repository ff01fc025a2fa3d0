//! The end of an attempt's log, kept in memory to show how the attempt went.

use std::collections::VecDeque;

use super::attempt::LogLine;
use gristmill_core::time::Timestamp;

/// What the kept lines of one attempt may take, in bytes.
const TAIL_BYTES: usize = 16 << 10;
/// What a line takes besides its texts, and what a field does.
const LINE_COSTS: usize = 128;
const FIELD_COSTS: usize = 64;
/// Of the text of a line that alone would be too large.
const LONGEST_TEXT: usize = 8 << 10;

/// The last lines of an attempt's log: at most 16 KiB, of a longer log the end.
#[derive(Debug, Default)]
pub struct LogTail {
    lines: VecDeque<(Timestamp, LogLine)>,
    bytes: usize,
    left_out: u64,
}

impl LogTail {
    /// The lines, the earliest first, and when the guest wrote each, by the store's clock.
    pub fn lines(&self) -> impl Iterator<Item = &(Timestamp, LogLine)> {
        self.lines.iter()
    }

    /// What it takes in memory, roughly, in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many lines came before, and are not kept.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether the guest has written no line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Adds a line, and drops the earliest ones that no longer fit.
    pub(super) fn push(&mut self, at: Timestamp, mut line: LogLine) {
        if costs(&line) > TAIL_BYTES {
            shorten(&mut line);
        }
        self.bytes += costs(&line);
        self.lines.push_back((at, line));
        while self.bytes > TAIL_BYTES
            && let Some((_, first)) = self.lines.pop_front()
        {
            self.bytes -= costs(&first);
            self.left_out += 1;
        }
    }

    /// The same, without memory for lines to come.
    #[must_use]
    pub fn ended(mut self) -> Self {
        self.lines.shrink_to_fit();
        self
    }
}

fn costs(line: &LogLine) -> usize {
    let fields = line.fields.iter().map(|(name, value)| name.len() + value.len() + FIELD_COSTS);
    LINE_COSTS + line.message.len() + fields.sum::<usize>()
}

/// Cuts the text, and leaves out the fields.
fn shorten(line: &mut LogLine) {
    line.fields = Vec::new();
    let (bytes, end) = (line.message.len(), line.message.floor_char_boundary(LONGEST_TEXT));
    if end < bytes {
        line.message.truncate(end);
        line.message.push_str(&format!("... ({bytes} bytes)"));
        line.message.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: String) -> LogLine {
        LogLine { level: tracing::Level::INFO, source: "log", message, fields: Vec::new() }
    }

    #[test]
    fn the_end_of_a_long_log_is_kept() {
        let mut tail = LogTail::default();
        for n in 0..1000 {
            tail.push(Timestamp::from_millis(n), line(format!("{n:0100}")));
        }
        let kept = tail.lines().count() as u64;
        assert!((50..100).contains(&kept) && tail.bytes() <= TAIL_BYTES, "{kept} lines, {} bytes", tail.bytes());
        assert_eq!(tail.left_out(), 1000 - kept);
        let (at, last) = tail.lines().last().unwrap();
        assert_eq!((at.as_millis(), last.message.as_str()), (999, &*format!("{:0100}", 999)));
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_and_one_of_many_fields_loses_them() {
        let mut tail = LogTail::default();
        tail.push(Timestamp::default(), line("ä".repeat(50_000)));
        tail.push(Timestamp::default(), line("a".repeat(TAIL_BYTES - LINE_COSTS)));
        assert_eq!((tail.lines().count(), tail.bytes(), tail.left_out()), (1, TAIL_BYTES, 1));
        let fields = vec![("name".to_owned(), "x".repeat(200)); 100];
        tail.push(Timestamp::default(), LogLine { fields, ..line("ä".repeat(5000)) });
        let (_, last) = tail.lines().last().unwrap();
        assert!(last.message.ends_with("ä... (10000 bytes)") && last.fields.is_empty(), "{}", last.message);
        assert!(last.message.len() < LONGEST_TEXT + 30);
    }
}
