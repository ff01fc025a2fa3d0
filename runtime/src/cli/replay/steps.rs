//! `gristmill replay --step`: what an attempt asked of the host, call by call, with what it logged in between.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;

use super::super::screen;
use gristmill_sandbox::{RecordedLine, Recording};

/// Writes the steps of an attempt to standard output. At a terminal it waits for Enter after each call, and ends at `q`.
pub(super) fn walk(recording: &Recording) -> anyhow::Result<()> {
    let is_watched = io::stdin().is_terminal() && io::stdout().is_terminal();
    let Some(lines) = recording.lines() else {
        screen::note("a secret was in the log lines: they are not in the recording");
        return walk_with(recording, &[], is_watched);
    };
    walk_with(recording, &lines, is_watched)
}

fn walk_with(recording: &Recording, lines: &[RecordedLine], mut waits: bool) -> anyhow::Result<()> {
    let mut lines = lines.iter().peekable();
    let calls = recording.calls();
    let last = calls.len();
    for (number, call) in (1..).zip(calls) {
        while let Some(line) = lines.next_if(|line| (line.after as usize) < number) {
            screen::line(&about(line))?;
        }
        let answered = &call.answered;
        screen::line(&format!("{number:>5}  {call}: {answered}"))?;
        if waits && number < last {
            match wait()? {
                Go::On => {}
                Go::ToTheEnd => waits = false,
                Go::Away => return Ok(()),
            }
        }
    }
    lines.try_for_each(|line| screen::line(&about(line)))
}

fn about(line: &RecordedLine) -> String {
    let RecordedLine { level, source, message, fields, .. } = line;
    let level = if source == "log" { level } else { source };
    let fields: String = fields.iter().map(|(name, value)| format!("  {name}={value}")).collect();
    format!("       {level:<8} {}", format!("{message}{fields}").replace('\n', "\\n"))
}

enum Go {
    On,
    /// The person who steps has departed.
    ToTheEnd,
    Away,
}

fn wait() -> anyhow::Result<Go> {
    let mut err = io::stderr().lock();
    write!(err, "Enter: the next call, q: the end ").and_then(|()| err.flush()).context("no terminal")?;
    let mut line = String::new();
    let read = io::stdin().read_line(&mut line).context("failed to read the answer")?;
    Ok(match line.trim() {
        _ if read == 0 => Go::ToTheEnd,
        "q" => Go::Away,
        _ => Go::On,
    })
}
