//! The attempt journal: one line of JSON for every attempt. Format and use: `docs/journal.md`.
//!
//! The runner never waits for it. What is settled is queued, and a thread of the journal's own writes what came together.
//! While the disk does not take it, the queue fills; what is over is dropped, counted, and marked by a line in its place.

mod file;
mod line;
mod queue;
mod writer;

#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use self::file::JournalFile;
use self::line::Line;
use self::queue::{Queue, Warned};
use self::writer::Writer;
use super::record::AttemptRecord;
use gristmill_config::JournalSettings;
use gristmill_core::job::WorkerId;

/// How long [`Journal::close`] waits for a disk that does not answer.
const CLOSE: Duration = Duration::from_secs(5);

/// An open journal. Cheap to clone; one that is dropped without [`Journal::close`] is written to its end by a thread for
/// which nobody waits.
#[derive(Debug, Clone)]
pub struct Journal(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    queue: Arc<Queue>,
    /// Once everything is written, or given up.
    ended: CancellationToken,
}

/// Why there is no journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("failed to open the journal {}: `path` in [journal] must name a file that can be written", path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("failed to start the journal's thread")]
    StartThread(#[source] io::Error),
}

impl Journal {
    /// Opens the file, or makes it; its folder must be there. Several runners may write to one file, each whole lines.
    ///
    /// # Errors
    /// The file cannot be opened, or is none.
    pub fn open(settings: &JournalSettings, worker: &WorkerId) -> Result<Self, JournalError> {
        let open = |source| JournalError::Open { path: settings.path.clone(), source };
        let file = JournalFile::open(settings).map_err(open)?;
        Self::start(file, worker, Queue::default())
    }

    fn start(file: JournalFile, worker: &WorkerId, queue: Queue) -> Result<Self, JournalError> {
        let (queue, ended) = (Arc::new(queue), CancellationToken::new());
        let (text, warned) = (Vec::new(), Warned::default());
        let writer = Writer { queue: Arc::clone(&queue), worker: worker.clone(), file, text, warned };
        let end = ended.clone().drop_guard();
        let run = move || {
            // Also if it panics.
            let _end = end;
            writer.run();
        };
        thread::Builder::new().name("journal".into()).spawn(run).map_err(JournalError::StartThread)?;
        Ok(Self(Arc::new(Handle { queue, ended })))
    }

    /// Queues the records, to be written within 50 ms. Never waits for the disk: what the queue has no room for is dropped
    /// and counted.
    pub(super) fn append(&self, records: &[AttemptRecord]) {
        if let Some(lost) = self.0.queue.append(records.iter().map(Line::from)) {
            tracing::warn!(lost, "the journal does not keep up with the runner: attempts are not written down");
        }
    }

    /// How to learn how many attempts were dropped since the journal was opened.
    pub(super) fn lost(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        let queue = Arc::clone(&self.0.queue);
        move || queue.lost()
    }

    /// Writes what is queued, and ends. Waits at most some seconds: then the disk does not answer, and what is left is
    /// lost. Nothing must be appended any more.
    pub async fn close(self) {
        self.0.queue.close();
        if tokio::time::timeout(CLOSE, self.0.ended.cancelled()).await.is_err() {
            tracing::error!("the journal's disk does not answer: the last attempts are not written down");
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.queue.close();
    }
}
