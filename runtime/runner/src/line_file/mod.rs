//! A file of lines of JSON that a thread of its own writes: the journal, and the server's audit log.
//!
//! A caller never waits for it. Lines are queued, and the thread writes what came together. While the disk does not take
//! them, the queue fills; further lines are dropped, counted, and marked by a line in their place.

mod queue;
mod rotated;
mod writer;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub(crate) use self::queue::Queue;
use self::queue::Warned;
pub(crate) use self::rotated::RotatedFile;
#[cfg(test)]
pub(crate) use self::rotated::write_lines;
use self::writer::Writer;
#[cfg(test)]
pub(crate) use self::writer::{Gap, write_line};
use gristmill_config::LineFileSettings;
use gristmill_core::job::WorkerId;

/// How long [`LineFile::close`] waits for a disk that does not answer.
const CLOSE: Duration = Duration::from_secs(5);

/// A line of one kind of file, and what messages call that file.
pub trait LineKind: Serialize + Send + 'static {
    /// What people call the file.
    const FILE: &'static str;
    /// The section of the manifest that names it.
    const SECTION: &'static str;
    /// What the lines are about, in the plural.
    const SUBJECTS: &'static str;
    /// The permissions of a new file.
    const MODE: u32;
}

/// An open file. Cheap to clone; one that is dropped without [`LineFile::close`] is written to its end by a thread for which
/// no caller waits.
#[derive(Debug)]
pub struct LineFile<L: LineKind>(pub(crate) Arc<Handle<L>>);

#[derive(Debug)]
pub(crate) struct Handle<L: LineKind> {
    worker: WorkerId,
    queue: Arc<Queue<L>>,
    /// Once everything is written, or given up.
    pub(crate) ended: CancellationToken,
}

/// Why there is no such file.
#[derive(Debug, thiserror::Error)]
pub enum LineFileError {
    /// The file cannot be opened, or is none.
    #[error("failed to open the {file} {}: `path` in [{section}] must name a file that can be written", path.display())]
    Open {
        /// What people call it.
        file: &'static str,
        /// The section of the manifest that names it.
        section: &'static str,
        /// What the section says.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The system refuses a thread.
    #[error("failed to start the thread of the {file}")]
    StartThread {
        /// What people call the file.
        file: &'static str,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

impl<L: LineKind> LineFile<L> {
    /// Opens the file, or makes it; its folder must be there. Several processes may write to one file, each whole lines.
    /// `worker` names this one, where lines are missing.
    ///
    /// # Errors
    /// The file cannot be opened, or is none.
    pub fn open(settings: &LineFileSettings, worker: &WorkerId) -> Result<Self, LineFileError> {
        let (file, section) = (L::FILE, L::SECTION);
        let open = |source| LineFileError::Open { file, section, path: settings.path.clone(), source };
        let file = RotatedFile::open(settings, L::FILE, L::MODE).map_err(open)?;
        Self::start(file, worker, Queue::default())
    }

    pub(crate) fn start(file: RotatedFile, worker: &WorkerId, queue: Queue<L>) -> Result<Self, LineFileError> {
        let (queue, ended) = (Arc::new(queue), CancellationToken::new());
        let (text, warned) = (Vec::new(), Warned::default());
        let writer = Writer { queue: Arc::clone(&queue), worker: worker.clone(), file, text, warned };
        let end = ended.clone().drop_guard();
        let run = move || {
            // Also if it panics.
            let _end = end;
            writer.run();
        };
        let started = thread::Builder::new().name(L::SECTION.into()).spawn(run);
        started.map_err(|source| LineFileError::StartThread { file: L::FILE, source })?;
        Ok(Self(Arc::new(Handle { worker: worker.clone(), queue, ended })))
    }

    /// Queues the lines, to be written within 50 ms. Never waits for the disk: what the queue has no room for is dropped and
    /// counted.
    pub fn append(&self, lines: impl ExactSizeIterator<Item = L>) {
        if let Some(lost) = self.0.queue.append(lines) {
            tracing::warn!(lost, "the {} does not keep up: {} are not written down", L::FILE, L::SUBJECTS);
        }
    }

    /// The name of this process, as the file was opened with it.
    pub fn worker(&self) -> &WorkerId {
        &self.0.worker
    }

    /// How to learn how many lines were dropped since the file was opened.
    pub fn lost(&self) -> impl Fn() -> u64 + Send + Sync + use<L> {
        let queue = Arc::clone(&self.0.queue);
        move || queue.lost()
    }

    /// Writes what is queued, and ends. Waits at most some seconds: then the disk does not answer, and what remains is
    /// lost. Nothing must be appended any more.
    pub async fn close(self) {
        self.0.queue.close();
        if tokio::time::timeout(CLOSE, self.0.ended.cancelled()).await.is_err() {
            tracing::error!(
                "the disk of the {} does not answer: the last {} are not written down",
                L::FILE,
                L::SUBJECTS
            );
        }
    }
}

impl<L: LineKind> Clone for LineFile<L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<L: LineKind> Drop for Handle<L> {
    fn drop(&mut self) {
        self.queue.close();
    }
}
