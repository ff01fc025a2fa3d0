//! What the host knows about one attempt while its guest runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use wasmtime::component::ResourceTable;
use wasmtime_wasi::WasiCtx;

use super::contract::{Attempt, Cancellation, CheckpointSender, FollowUpRule, LogLine, Version};
use super::limiter::MemoryLimiter;
use super::logbook::Logbook;
use crate::job::{Name, NewJob, TopicId};
use crate::time::Timestamp;
use crate::topic::{Grants, Limits};

/// Resources (streams, pollables) that a guest may hold at once.
const RESOURCES_MAX: usize = 1_000;

/// The data of a store. It lives as long as the attempt, and nothing of it outlives the attempt but what
/// [`super::invoke`] takes out.
pub(super) struct State {
    pub(super) topic: TopicId,
    pub(super) limits: Limits,
    pub(super) grants: Arc<Grants>,
    pub(super) targets: Arc<HashMap<Name, FollowUpRule>>,
    pub(super) clock_offset_ms: i64,
    pub(super) cancellation: Cancellation,
    pub(super) checkpoints: Option<CheckpointSender>,
    pub(super) memory: MemoryLimiter,
    pub(super) follow_ups: Vec<NewJob>,
    /// Bodies and headers of `follow_ups`.
    pub(super) follow_ups_bytes: u64,
    /// Shared with the guest's standard output and error, which live inside `wasi`.
    pub(super) logbook: Arc<Mutex<Logbook>>,
    host_calls_left: u64,
    pub(super) resources: ResourceTable,
    /// Made when the guest first calls WASI: many never do, and it costs more than everything else here together.
    pub(super) wasi: Option<WasiCtx>,
}

/// The guest called the host more often than it may. Ends the guest.
#[derive(Debug, thiserror::Error)]
#[error("the attempt's limit of {0} host calls is used up")]
pub(super) struct HostCallsUsedUp(pub(super) u64);

impl State {
    pub(super) fn new(attempt: &Attempt, version: Version) -> Self {
        let mut resources = ResourceTable::new();
        resources.set_max_capacity(RESOURCES_MAX);
        Self {
            topic: attempt.job.spec.topic.clone(),
            limits: attempt.limits,
            grants: Arc::clone(&attempt.grants),
            targets: Arc::clone(&attempt.targets),
            clock_offset_ms: attempt.clock_offset_ms,
            cancellation: attempt.cancellation.clone(),
            checkpoints: attempt.checkpoints.clone(),
            memory: MemoryLimiter::new(attempt.limits.memory_bytes),
            follow_ups: Vec::new(),
            follow_ups_bytes: 0,
            logbook: Arc::new(Mutex::new(Logbook::new(attempt, version))),
            host_calls_left: attempt.limits.host_calls,
            resources,
            wasi: None,
        }
    }

    /// Every function of `gristmill:job` begins with this.
    pub(super) fn count_call(&mut self) -> wasmtime::Result<()> {
        match self.host_calls_left.checked_sub(1) {
            Some(left) => {
                self.host_calls_left = left;
                Ok(())
            }
            None => Err(HostCallsUsedUp(self.limits.host_calls).into()),
        }
    }

    /// The store's clock.
    pub(super) fn now(&self) -> Timestamp {
        store_time(self.clock_offset_ms)
    }

    pub(super) fn log(&self, line: LogLine) {
        self.logbook().write(line);
    }

    pub(super) fn logbook(&self) -> MutexGuard<'_, Logbook> {
        self.logbook.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The store's clock, from this host's and the difference between them.
pub(super) fn store_time(offset_ms: i64) -> Timestamp {
    Timestamp::from_millis(Timestamp::now().as_millis().saturating_add_signed(offset_ms))
}
