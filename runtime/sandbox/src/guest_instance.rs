//! An instance of a guest that can do more than one job, and where it waits for the next.

use std::sync::atomic::{AtomicU64, Ordering};

use wasmtime::Store;
use wasmtime::component::Instance;

use super::adapters::EntryPoint;
use super::idle::IdleItems;
use super::state::State;
use gristmill_core::outcome::Outcome;

/// The idle instances of a sandbox, over all topics. Their bytes are those of their linear memories.
pub(super) type IdleInstances = IdleItems<PoolId, GuestInstance>;

/// What the host may keep for the handles of an instance between jobs: to streams, clocks and pollables, but to no bodies.
const KEPT_FOR_HANDLES: usize = 32 << 10;

/// A pool takes out only the instances that it put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PoolId(u64);

impl PoolId {
    /// Another than any before.
    pub(super) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// An instance that can be called again.
pub(super) struct GuestInstance {
    pub(super) store: Store<State>,
    /// What is called, and of what; `None` until it is started.
    pub(super) started: Option<(EntryPoint, Instance)>,
    /// Jobs that it has begun.
    pub(super) jobs: u32,
}

impl GuestInstance {
    /// Bytes of its linear memories.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.store.data().memory.in_use()
    }

    /// Fuel used since it was started or renewed.
    pub(super) fn fuel(&self) -> u64 {
        self.store.data().attempt.limits.fuel.saturating_sub(self.store.get_fuel().unwrap_or(0))
    }

    /// Whether an end could be due to what earlier jobs left behind. Not so fuel, time and numbers of calls, which count anew
    /// for each job.
    pub(super) fn may_have_caused(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Trapped { .. } | Outcome::MemoryExceeded { .. } => true,
            // The guest got no more memory, and returned that as a failure.
            Outcome::Retry { .. } | Outcome::Reject(_) => self.store.data().memory.denied(),
            _ => false,
        }
    }

    /// Whether it returned normally, holds no requests or answers, and the next job finds at least half of its memory unused.
    pub(super) fn is_sound_after(&mut self, outcome: &Outcome) -> bool {
        let state = self.store.data_mut();
        let State { memory, attempt, .. } = &*state;
        let is_sound = outcome.is_decided() && !memory.denied() && memory.in_use() <= attempt.limits.memory_bytes / 2;
        is_sound && state.held_by_handles() <= KEPT_FOR_HANDLES
    }
}
