//! The journal's thread: takes what is queued, makes lines of it, and sees to it that they get into the file.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::record::AttemptRecord;
use super::file::JournalFile;
use super::line;
use super::queue::Queue;
use gristmill_core::job::WorkerId;

/// Bytes that are written at once.
const CHUNK: usize = 256 << 10;
/// How long to wait before a refused write is tried again.
const RETRY: Duration = Duration::from_millis(250);
/// How often it is said that writes are refused.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// The thread's own things.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Arc<Queue>,
    /// As it stands in the lines.
    worker: String,
    file: JournalFile,
    /// Made and not yet written; the buffer is used again and again.
    lines: Vec<u8>,
    /// When it was last said that writes are refused.
    said: Option<Instant>,
}

/// The journal was closed while its file took nothing.
#[derive(Debug)]
struct GivenUp;

impl Writer {
    pub(super) fn new(queue: Arc<Queue>, file: JournalFile, worker: &WorkerId) -> Self {
        Self { queue, worker: line::quoted(worker.as_str()), file, lines: Vec::new(), said: None }
    }

    /// Ends when the queue is closed and all of it is written, or cannot be.
    pub(super) fn run(mut self) {
        let mut records = Vec::new();
        while let Some(dropped) = self.queue.take(&mut records) {
            let mut left = records.drain(..);
            if let Err(GivenUp) = self.write_down(&mut left, dropped) {
                let made = self.lines.iter().filter(|byte| **byte == b'\n').count();
                let attempts = (made + left.len()) as u64 + self.queue.waiting();
                tracing::error!(attempts, "the journal's file takes nothing: its last attempts are not written down");
                return;
            }
        }
    }

    /// All of `records`, and behind them how many are missing there.
    fn write_down(
        &mut self,
        records: &mut impl Iterator<Item = Box<AttemptRecord>>,
        dropped: u64,
    ) -> Result<(), GivenUp> {
        for record in records {
            line::write(&mut self.lines, &self.worker, &record);
            if self.lines.len() >= CHUNK {
                self.flush()?;
            }
        }
        if dropped > 0 {
            line::write_gap(&mut self.lines, &self.worker, dropped);
        }
        self.flush()
    }

    /// Tries until the file has taken every line; once more and no longer when the journal is closed.
    fn flush(&mut self) -> Result<(), GivenUp> {
        while !self.lines.is_empty() {
            // Read before the try: what made the file take lines again may have closed the journal right after it.
            let last = self.queue.is_closed();
            match self.file.append(&self.lines) {
                Ok(written) => drop(self.lines.drain(..written)),
                Err(error) => {
                    self.complain(error);
                    if last {
                        return Err(GivenUp);
                    }
                    self.queue.pause(RETRY);
                }
            }
        }
        Ok(())
    }

    fn complain(&mut self, error: io::Error) {
        if self.said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            self.said = Some(Instant::now());
            let path = self.file.path().display();
            tracing::error!(%path, "the journal cannot be written, attempts wait for it: {:#}", anyhow::Error::from(error));
        }
    }
}
