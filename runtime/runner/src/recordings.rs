//! Puts recordings of attempts into the store, beside the jobs and never in their way: where the store is slow, some are lost.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;

use gristmill_core::job::{Claim, JobId, TopicId};
use gristmill_core::topic::{RecordPolicy, Topic};
use gristmill_sandbox::{Record, Recording};
use gristmill_store::Store;

/// Recordings that wait for the store, together. Those that have waited longest make room.
const WAITING_BYTES: usize = 16 << 20;

/// What is stored with one request, at most, where it is more than one recording.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 256 << 10;

/// The longest time for which one is kept.
const KEEP_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// A recording on its way to the store.
#[derive(Debug)]
pub(super) struct Recorded {
    topic: TopicId,
    job: JobId,
    recording: Box<Recording>,
    keep: Duration,
}

/// Where recordings go. Clones share everything.
#[derive(Debug, Clone)]
pub(super) struct RecordingSender {
    waiting: Arc<Mutex<Waiting<Recorded>>>,
    /// Ends with the last sender.
    some_wait: mpsc::Sender<()>,
    lost: Arc<AtomicU64>,
}

/// With how many bytes each has.
#[derive(Debug)]
struct Waiting<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
}

impl RecordingSender {
    /// And what puts them into the store, until every sender is gone.
    pub(super) fn new(store: Arc<dyn Store>) -> (Self, impl Future<Output = ()> + Send) {
        let (some_wait, mut to_keep) = mpsc::channel(1);
        let sender = Self { waiting: Arc::new(Mutex::new(Waiting::NONE)), some_wait, lost: Arc::default() };
        let (waiting, lost) = (Arc::clone(&sender.waiting), Arc::clone(&sender.lost));
        let keep = async move {
            let mut more = true;
            while more {
                more = to_keep.recv().await.is_some();
                loop {
                    let batch = waiting.lock().take_batch();
                    if batch.is_empty() {
                        break;
                    }
                    keep_all(batch, &*store, &lost).await;
                }
            }
        };
        (sender, keep)
    }

    /// Has it kept. Where more wait than there is room for, those that have waited longest are lost.
    pub(super) fn send(&self, recorded: Recorded) {
        let bytes = recorded.recording.bytes();
        let lost = self.waiting.lock().add(recorded, bytes);
        self.lost.fetch_add(lost, Ordering::Relaxed);
        // Full: the one that takes them has not looked since.
        self.some_wait.try_send(()).ok();
    }

    /// How to learn how many were lost.
    pub(super) fn lost(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        let lost = Arc::clone(&self.lost);
        move || lost.load(Ordering::Relaxed)
    }
}

impl<T> Waiting<T> {
    const NONE: Self = Self { items: VecDeque::new(), bytes: 0 };

    /// Returns how many had to go for it.
    fn add(&mut self, item: T, bytes: usize) -> u64 {
        self.bytes += bytes;
        self.items.push_back((item, bytes));
        let mut lost = 0;
        while self.bytes > WAITING_BYTES && self.items.len() > 1 && self.take().is_some() {
            lost += 1;
        }
        lost
    }

    fn take(&mut self) -> Option<T> {
        let (next, bytes) = self.items.pop_front()?;
        self.bytes -= bytes;
        Some(next)
    }

    fn take_batch(&mut self) -> Vec<T> {
        let (mut batch, before) = (Vec::new(), self.bytes);
        while batch.len() < BATCH
            && before - self.bytes < BATCH_BYTES
            && let Some(next) = self.take()
        {
            batch.push(next);
        }
        batch
    }
}

/// Each topic's with one request.
async fn keep_all(batch: Vec<Recorded>, store: &dyn Store, lost: &AtomicU64) {
    let mut by_topic = BTreeMap::<TopicId, (Duration, Vec<(JobId, Vec<u8>)>)>::new();
    for Recorded { topic, job, recording, keep } in batch {
        let Ok(bytes) = recording.to_bytes() else { continue };
        by_topic.entry(topic).or_insert_with(|| (keep, Vec::new())).1.push((job, bytes));
    }
    for (topic, (keep, recordings)) in by_topic {
        if let Err(error) = store.keep_recordings(&topic, &recordings, keep).await {
            lost.fetch_add(recordings.len() as u64, Ordering::Relaxed);
            tracing::debug!(%topic, "{} recordings are lost: {:#}", recordings.len(), anyhow::Error::from(error));
        }
    }
}

impl Recorded {
    pub(super) fn of(claim: &Claim, topic: &Topic, recording: Box<Recording>) -> Self {
        let (job, keep) = (claim.lease.job.clone(), topic.dead.retention.min(KEEP_MAX));
        Self { topic: topic.id.clone(), job, recording, keep }
    }
}

/// What is recorded of an attempt. A sample has the same attempts on every runner.
pub(super) fn record(policy: RecordPolicy, claim: &Claim) -> Record {
    match policy {
        RecordPolicy::Off => Record::Off,
        RecordPolicy::Failures => Record::Failures,
        RecordPolicy::All => Record::All,
        RecordPolicy::Sample(share) => {
            let mut hasher = DefaultHasher::new();
            (claim.lease.job.as_str(), claim.attempt).hash(&mut hasher);
            if hasher.finish() % 10_000 < u64::from(share) { Record::All } else { Record::Off }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_have_waited_longest_make_room() {
        let quarter = WAITING_BYTES / 4;
        let mut waiting = Waiting::NONE;
        let lost: Vec<u64> = (1..=4).map(|item| waiting.add(item, quarter)).collect();
        assert_eq!(lost, [0, 0, 0, 0], "there is room for all of them");
        assert_eq!(waiting.add(5, quarter + 1), 2);
        assert_eq!((waiting.take(), waiting.bytes), (Some(3), 2 * quarter + 1));
        assert_eq!(waiting.add(6, 2 * WAITING_BYTES), 2, "one alone is kept whatever it has");
        assert_eq!((waiting.take(), waiting.take(), waiting.bytes), (Some(6), None, 0));
    }

    #[test]
    fn a_batch_has_bounds() {
        let mut waiting = Waiting::NONE;
        let lost: u64 = (0..=BATCH).map(|item| waiting.add(item, 1)).sum();
        assert_eq!(lost, 0);
        assert_eq!(waiting.take_batch(), (0..BATCH).collect::<Vec<_>>());
        assert_eq!(waiting.take_batch(), [BATCH]);
        assert!(waiting.take_batch().is_empty());
        for (item, bytes) in [(1, BATCH_BYTES - 1), (2, BATCH_BYTES), (3, 1)] {
            waiting.add(item, bytes);
        }
        assert_eq!((waiting.take_batch(), waiting.take_batch()), (vec![1, 2], vec![3]));
    }
}
