//! Threads, and what waits for them.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tokio::sync::mpsc;

/// Threads that each do one thing after the other, and the way to ask them.
#[derive(Debug)]
pub(in crate::embedded) struct Threads<T> {
    pub(in crate::embedded) queue: mpsc::Sender<T>,
    threads: Vec<JoinHandle<()>>,
}

/// What waits for threads.
pub(in crate::embedded) struct Queue<T>(Arc<Mutex<mpsc::Receiver<T>>>);

impl<T> Queue<T> {
    /// Waits for the next. Returns `None` once no caller can ask any more.
    pub(in crate::embedded) fn next(&self) -> Option<T> {
        self.0.lock().blocking_recv()
    }

    /// The next, if it waits already.
    pub(in crate::embedded) fn try_next(&self) -> Option<T> {
        self.0.lock().try_recv().ok()
    }
}

impl<T: Send + 'static> Threads<T> {
    /// A thread for each of `runs`; whichever is free takes what is next.
    pub(in crate::embedded) fn open<R: FnOnce(&Queue<T>) + Send + 'static>(
        name: &str,
        places: usize,
        runs: impl IntoIterator<Item = R>,
    ) -> std::io::Result<Self> {
        let (queue, waiting) = mpsc::channel(places);
        let waiting = Arc::new(Mutex::new(waiting));
        let spawn = |run: R| {
            let queue = Queue(Arc::clone(&waiting));
            thread::Builder::new().name(name.into()).spawn(move || run(&queue))
        };
        Ok(Self { queue, threads: runs.into_iter().map(spawn).collect::<Result<_, _>>()? })
    }

    /// Waits until everything asked is done and the threads are gone.
    pub(in crate::embedded) fn close(self) {
        let Self { queue, threads } = self;
        drop(queue);
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the embedded store ended by a panic");
            }
        }
    }
}
