//! The thread of a file of lines: takes what is queued, makes JSON of it, and sees to it that it gets into the file.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::LineKind;
use super::queue::{Queue, Warned};
use super::rotated::RotatedFile;
use gristmill_core::job::WorkerId;

/// Bytes that are written at once.
const CHUNK: usize = 256 << 10;
/// How long to wait before a refused write is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// What the thread owns.
#[derive(Debug)]
pub(super) struct Writer<L> {
    pub(super) queue: Arc<Queue<L>>,
    pub(super) worker: WorkerId,
    pub(super) file: RotatedFile,
    /// Made and not yet written; the buffer is used again and again.
    pub(super) text: Vec<u8>,
    pub(super) warned: Warned,
}

/// Stands in the place of lines that were not written.
#[derive(Debug, Serialize)]
pub(crate) struct Gap<'a> {
    pub(crate) worker: &'a WorkerId,
    pub(crate) dropped: u64,
}

impl<L: LineKind> Writer<L> {
    /// Ends when the queue is closed and all of it is written, or cannot be.
    pub(super) fn run(mut self) {
        while let Some((lines, dropped)) = self.queue.take() {
            let mut remaining = lines.iter();
            if let Err(error) = self.write(&mut remaining, dropped) {
                let made = self.text.iter().filter(|byte| **byte == b'\n').count();
                let lost = (made + remaining.len()) as u64 + self.queue.waiting();
                let error = anyhow::Error::from(error);
                tracing::error!(
                    lost,
                    "the {} was closed before its last {} were written: {error:#}",
                    L::FILE,
                    L::SUBJECTS
                );
                return;
            }
        }
    }

    /// Writes all of `lines`, and behind them how many are missing there.
    fn write<'a>(&mut self, lines: &mut impl Iterator<Item = &'a L>, dropped: u64) -> io::Result<()> {
        for line in lines {
            write_line(&mut self.text, line)?;
            if self.text.len() >= CHUNK {
                self.flush()?;
            }
        }
        if dropped > 0 {
            write_line(&mut self.text, &Gap { worker: &self.worker, dropped })?;
        }
        self.flush()
    }

    /// Tries until the file has taken every line; once more and no longer when it is closed.
    fn flush(&mut self) -> io::Result<()> {
        while !self.text.is_empty() {
            // Read before the try: what made the file take lines again may have closed it right after.
            let last = self.queue.is_closed();
            match self.file.append(&self.text) {
                Ok(written) => drop(self.text.drain(..written)),
                Err(error) if last => return Err(error),
                Err(error) => {
                    if self.warned.is_due() {
                        let (path, error) = (self.file.path().display(), anyhow::Error::from(error));
                        tracing::error!(%path, "failed to write the {}, {} wait for it: {error:#}", L::FILE, L::SUBJECTS);
                    }
                    self.queue.pause(RETRY);
                }
            }
        }
        Ok(())
    }
}

/// Appends the line and its end.
pub(crate) fn write_line(lines: &mut Vec<u8>, line: &impl Serialize) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *lines, line)?;
    lines.push(b'\n');
    Ok(())
}
