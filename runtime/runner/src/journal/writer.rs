//! The journal's thread: takes what is queued, makes lines of JSON of it, and sees to it that they get into the file.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::file::JournalFile;
use super::line::{self, Gap, Line};
use super::queue::{Queue, Warned};
use gristmill_core::job::WorkerId;

/// Bytes that are written at once.
const CHUNK: usize = 256 << 10;
/// How long to wait before a refused write is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// What the thread owns.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) queue: Arc<Queue>,
    pub(super) worker: WorkerId,
    pub(super) file: JournalFile,
    /// Made and not yet written; the buffer is used again and again.
    pub(super) text: Vec<u8>,
    pub(super) warned: Warned,
}

impl Writer {
    /// Ends when the queue is closed and all of it is written, or cannot be.
    pub(super) fn run(mut self) {
        while let Some((lines, dropped)) = self.queue.take() {
            let mut left = lines.iter();
            if let Err(error) = self.write(&mut left, dropped) {
                let made = self.text.iter().filter(|byte| **byte == b'\n').count();
                let attempts = (made + left.len()) as u64 + self.queue.waiting();
                let error = anyhow::Error::from(error);
                tracing::error!(attempts, "the journal was closed before its last attempts were written: {error:#}");
                return;
            }
        }
    }

    /// Writes all of `lines`, and behind them how many are missing there.
    fn write<'a>(&mut self, lines: &mut impl Iterator<Item = &'a Line>, dropped: u64) -> io::Result<()> {
        for line in lines {
            line::write(&mut self.text, line)?;
            if self.text.len() >= CHUNK {
                self.flush()?;
            }
        }
        if dropped > 0 {
            line::write(&mut self.text, &Gap { worker: &self.worker, dropped })?;
        }
        self.flush()
    }

    /// Tries until the file has taken every line; once more and no longer when the journal is closed.
    fn flush(&mut self) -> io::Result<()> {
        while !self.text.is_empty() {
            // Read before the try: what made the file take lines again may have closed the journal right after it.
            let last = self.queue.is_closed();
            match self.file.append(&self.text) {
                Ok(written) => drop(self.text.drain(..written)),
                Err(error) if last => return Err(error),
                Err(error) => {
                    if self.warned.is_due() {
                        let (path, error) = (self.file.path().display(), anyhow::Error::from(error));
                        tracing::error!(%path, "failed to write the journal, attempts wait for it: {error:#}");
                    }
                    self.queue.pause(RETRY);
                }
            }
        }
        Ok(())
    }
}
