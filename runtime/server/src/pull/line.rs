//! Those who wait for jobs stand in line: whoever is in front listens and asks the store, the others wait for their turn.
//! A thousand workers that wait for one topic cost no more than one of them, and are served in the order in which they came.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::{Code, Problem};
use gristmill_core::job::TopicId;

/// Claims that wait at once, over all lines: each keeps a connection.
const WAITING: usize = 10_000;

/// Claims that the store is asked at once: each may bring a whole batch.
const AT_ONCE: usize = 32;

/// A line, by the topics that those in it wait for.
type Line = tokio::sync::Mutex<()>;

#[derive(Debug)]
pub(crate) struct Lines {
    lines: Mutex<HashMap<Vec<TopicId>, Weak<Line>>>,
    waiting: Arc<Semaphore>,
    asking: Arc<Semaphore>,
}

impl Default for Lines {
    fn default() -> Self {
        let (waiting, asking) = (Arc::new(Semaphore::new(WAITING)), Arc::new(Semaphore::new(AT_ONCE)));
        Self { lines: Mutex::default(), waiting, asking }
    }
}

impl Lines {
    /// Leave to wait.
    ///
    /// # Errors
    /// [`Code::Busy`]: too many wait.
    pub(super) fn admit(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let full = |_| format!("{WAITING} claims wait already, as many as are allowed: ask again with `wait_ms` = 0");
        self.waiting.clone().try_acquire_owned().map_err(full).map_err(|detail| Problem::new(Code::Busy, detail))
    }

    /// Leave to ask the store. Cancel-safe.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody closes it.
        self.asking.clone().acquire_owned().await.ok()
    }

    /// The line for these topics. It lasts for as long as somebody is in it.
    pub(super) fn line(&self, topics: &[TopicId]) -> Arc<Line> {
        let mut lines = self.lines.lock();
        if let Some(line) = lines.get(topics).and_then(Weak::upgrade) {
            return line;
        }
        lines.retain(|_, line| line.strong_count() > 0);
        let line = Arc::default();
        lines.insert(topics.to_vec(), Arc::downgrade(&line));
        line
    }
}
