//! Puts recordings of attempts into the store, beside the jobs and never in their way: where the store is slow, some are lost.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use gristmill_core::job::{Claim, JobId, TopicId};
use gristmill_core::topic::{RecordPolicy, Topic};
use gristmill_sandbox::{Record, Recording};
use gristmill_store::Store;

/// Recordings that wait for the store, of 256 KiB each at most.
const WAITING: usize = 64;

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
pub(super) struct RecordingSender(mpsc::Sender<Recorded>);

impl RecordingSender {
    /// And what puts them into the store, until every sender is gone.
    pub(super) fn new(store: Arc<dyn Store>) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, mut waiting) = mpsc::channel::<Recorded>(WAITING);
        let keep = async move {
            while let Some(Recorded { topic, job, recording, keep }) = waiting.recv().await {
                let Ok(bytes) = recording.to_bytes() else { continue };
                drop(recording);
                if let Err(error) = store.keep_recording(&topic, &job, &bytes, keep).await {
                    tracing::debug!(%topic, %job, "the recording is lost: {:#}", anyhow::Error::from(error));
                }
            }
        };
        (Self(sender), keep)
    }

    /// Keeps it if there is room among those that wait.
    pub(super) fn send(&self, recorded: Recorded) {
        if self.0.try_send(recorded).is_err() {
            tracing::debug!("a recording is lost: the store is slower than the handlers fail");
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
