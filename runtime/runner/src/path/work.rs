//! A claimed job on its way to its handler, and what comes back to be settled.

use std::sync::Arc;
use std::time::Instant;

use crate::handlers::TopicHandler;
use crate::record::Run;
use crate::recordings::Recorded;
use crate::slots::Slot;
use gristmill_core::job::Claim;
use gristmill_core::outcome::OutcomeKind;
use gristmill_sandbox::{AttemptControl, LogTail, RequestTrace};
use gristmill_store::Settlement;

/// A claimed job on its way to its handler.
#[derive(Debug)]
pub(crate) struct Work {
    pub(super) claim: Arc<Claim>,
    /// None: the topic went away between plan and claim.
    pub(super) entry: Option<Arc<TopicHandler>>,
    pub(super) slot: Slot,
    /// When the claim was here, by this process's monotonic clock.
    pub(super) arrived: Instant,
    pub(super) clock_offset_ms: i64,
    /// Used when the job is cancelled or its lease is lost.
    pub(super) control: Arc<AttemptControl>,
}

impl Work {
    /// How many attempts of its topic may have begun at once.
    pub(super) fn concurrency(&self) -> usize {
        self.entry.as_deref().map_or(usize::MAX, |entry| entry.topic.concurrency as usize)
    }
}

/// An attempt that has ended. In a box: it is large, and passes through several hands.
pub(crate) type Finished = Box<FinishedAttempt>;

#[derive(Debug)]
pub(crate) struct FinishedAttempt {
    pub(super) claim: Arc<Claim>,
    pub(super) run: Run,
    /// The requests of the handler, if the attempt is traced.
    pub(super) requests: Option<RequestTrace>,
    pub(super) outcome: OutcomeKind,
    pub(super) settlement: Settlement,
    /// The end of the guest's log, if logs are kept.
    pub(super) log: Option<LogTail>,
    /// What the host answered, if that is kept.
    pub(super) recording: Option<Recorded>,
    /// On how many jobs in a row its version may trap until its topic is paused; 0: on any number.
    pub(super) pause_after: u32,
    /// Counts as unsettled until the attempt is settled: a store that is slower than the guests holds them back, and a topic with a
    /// concurrency of one does its jobs strictly one after the other.
    pub(super) slot: Slot,
}
