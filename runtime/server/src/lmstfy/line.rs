//! Requests that wait for jobs stand in line: a wake-up wakes one of them, and not a thousand for one job.
//!
//! Who was woken looks, and wakes the next one unless it found its queues empty: a job that arrives while somebody looks is
//! nobody's alone to find.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::stream::signal_hub::{Listener, SignalHub};
use gristmill_core::job::{Name, TopicId};
use gristmill_store::{Signal, StoreError};

/// How often the first ones in line look without having been called, jittered: wake-ups are best effort.
const LOOK: Duration = Duration::from_secs(5);

/// One line for each tenant for which somebody waits.
#[derive(Debug)]
pub(super) struct Lines {
    signal_hub: Arc<SignalHub>,
    lines: tokio::sync::Mutex<HashMap<Name, Weak<Line>>>,
}

#[derive(Debug)]
struct Line {
    standing: Arc<Mutex<Standing>>,
    hearing: JoinHandle<()>,
}

/// Who stands in line, in the order in which they came.
#[derive(Debug, Default)]
struct Standing {
    last: u64,
    waiting: BTreeMap<u64, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    topics: Vec<TopicId>,
    call: Arc<Notify>,
    /// It was woken, and has not looked since.
    woken: bool,
}

/// A place in line, until it is dropped: then the next one is woken, unless there was nothing here to be woken for.
#[derive(Debug)]
pub(super) struct Place {
    line: Arc<Line>,
    number: u64,
    call: Arc<Notify>,
    /// It leaves with jobs, so there may be more.
    pub(super) served: bool,
}

impl Lines {
    pub(super) fn new(signal_hub: Arc<SignalHub>) -> Self {
        Self { signal_hub, lines: tokio::sync::Mutex::default() }
    }

    /// Joins the line of a tenant for jobs of these topics. What becomes ready after that wakes somebody, so look again.
    ///
    /// # Errors
    /// The store takes no subscription.
    pub(super) async fn join(&self, tenant: &Name, topics: Vec<TopicId>) -> Result<Place, StoreError> {
        let mut lines = self.lines.lock().await;
        let line = match lines.get(tenant).and_then(Weak::upgrade) {
            Some(line) => line,
            None => {
                let line = Arc::new(Line::new(self.signal_hub.listen(tenant).await?));
                lines.retain(|_, line| line.strong_count() > 0);
                lines.insert(tenant.clone(), Arc::downgrade(&line));
                line
            }
        };
        Ok(Place::new(line, topics))
    }
}

impl Line {
    fn new(listener: Listener) -> Self {
        let standing = Arc::<Mutex<Standing>>::default();
        let hearing = tokio::spawn(hear(listener, Arc::clone(&standing)));
        Self { standing, hearing }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.hearing.abort();
    }
}

async fn hear(mut listener: Listener, standing: Arc<Mutex<Standing>>) {
    loop {
        tokio::select! {
            signal = listener.next() => match signal {
                Signal::Ready(topic) => lock(&standing).wake(&topic),
                Signal::Lost => lock(&standing).wake_all(),
                Signal::Due(..) | Signal::Finished(..) | Signal::Cancelled(..) => {}
            },
            () = tokio::time::sleep(LOOK.mul_f64(0.75 + fastrand::f64() / 2.0)) => lock(&standing).wake_all(),
        }
    }
}

fn lock(standing: &Mutex<Standing>) -> MutexGuard<'_, Standing> {
    standing.lock()
}

impl Standing {
    /// Wakes the first one who wants jobs of the topic and has not been woken.
    fn wake(&mut self, topic: &TopicId) {
        let mut waiting = self.waiting.values_mut();
        if let Some(first) = waiting.find(|waiting| !waiting.woken && waiting.topics.contains(topic)) {
            first.woken = true;
            first.call.notify_one();
        }
    }

    /// Wakes one for every topic.
    fn wake_all(&mut self) {
        let topics: BTreeSet<TopicId> = self.waiting.values().flat_map(|waiting| &waiting.topics).cloned().collect();
        for topic in &topics {
            self.wake(topic);
        }
    }
}

impl Place {
    fn new(line: Arc<Line>, topics: Vec<TopicId>) -> Self {
        let call = Arc::<Notify>::default();
        let mut standing = lock(&line.standing);
        standing.last += 1;
        let number = standing.last;
        standing.waiting.insert(number, Waiting { topics, call: Arc::clone(&call), woken: false });
        drop(standing);
        Self { line, number, call, served: false }
    }

    /// Waits to be woken. Cancel-safe.
    pub(super) async fn woken(&self) {
        self.call.notified().await;
    }

    /// To be said before each look: who is woken from now on must look again.
    pub(super) fn look(&self) {
        if let Some(waiting) = lock(&self.line.standing).waiting.get_mut(&self.number) {
            waiting.woken = false;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut standing = lock(&self.line.standing);
        let Some(waiting) = standing.waiting.remove(&self.number) else { return };
        if waiting.woken || self.served {
            waiting.topics.iter().for_each(|topic| standing.wake(topic));
        }
    }
}
