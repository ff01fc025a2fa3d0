//! An attempt on the guest threads: the future that runs it, and what wakes it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::threads::Shared;
use super::turns::FIRST;
use crate::handlers::TopicHandler;
use crate::path::work::Finished;
use crate::slots::TopicSlots;
use gristmill_core::job::{Claim, TopicId};
use gristmill_sandbox::AttemptControl;

/// Nothing of both: it waits for an answer, and is nowhere in line.
const WAITING: u8 = 0;
/// It can go on. Without a thread it is in line.
const READY: u8 = 1;
/// It has a thread.
const RUNNING: u8 = 2;

/// Runs an attempt, up to what is to be settled.
pub(super) type AttemptFuture = Pin<Box<dyn Future<Output = Finished> + Send>>;

/// An attempt that has begun. One thread at a time has it.
pub(super) struct Guest {
    shared: Arc<Shared>,
    /// None once it has ended.
    attempt: Mutex<Option<AttemptFuture>>,
    state: AtomicU8,
    /// What it has computed, in nanoseconds.
    used: AtomicU64,
    /// Since when it waits for a thread.
    waits_since: Mutex<Option<Instant>>,
    claim: Arc<Claim>,
    /// None: the topic was gone when the job was claimed.
    pub(super) entry: Option<Arc<TopicHandler>>,
    /// Where it is counted while it computes for long, and whether it is.
    pub(super) slots: Arc<TopicSlots>,
    is_computing: AtomicBool,
    control: Arc<AttemptControl>,
}

/// What a turn came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnEnd {
    Ended,
    /// It waits for something.
    Waits,
    /// It yielded, and can go on.
    Computes,
}

impl Guest {
    /// For the thread that takes it up.
    pub(super) fn new(
        shared: &Arc<Shared>,
        claim: Arc<Claim>,
        entry: Option<Arc<TopicHandler>>,
        slots: Arc<TopicSlots>,
        control: Arc<AttemptControl>,
        attempt: AttemptFuture,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            attempt: Mutex::new(Some(attempt)),
            state: AtomicU8::new(RUNNING),
            used: AtomicU64::new(0),
            waits_since: Mutex::new(None),
            claim,
            entry,
            slots,
            is_computing: AtomicBool::new(false),
            control,
        })
    }

    /// In whose line it is.
    pub(super) fn topic(&self) -> &TopicId {
        &self.claim.lease.topic
    }

    /// Whether it has computed for long.
    pub(super) fn is_long(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= FIRST.as_nanos() as u64
    }

    /// Whether it is counted among those of its topic that compute for long.
    pub(super) fn is_computing(&self) -> bool {
        self.is_computing.load(Ordering::Relaxed)
    }

    /// From now on it is. Returns false if it was before.
    pub(super) fn start_computing(&self) -> bool {
        let is_new = !self.is_computing.swap(true, Ordering::Relaxed);
        if is_new {
            self.slots.begin_computing();
        }
        is_new
    }

    /// It is no longer. Returns false if it was not.
    pub(super) fn stop_computing(&self) -> bool {
        let was = self.is_computing.swap(false, Ordering::Relaxed);
        if was {
            self.slots.end_computing();
        }
        was
    }

    /// It computed for this long, and for this long could have and got no processor.
    pub(super) fn note(&self, used: Duration, stood_still: Duration) {
        self.used.fetch_add(used.as_nanos() as u64, Ordering::Relaxed);
        self.control.note_wait(stood_still);
    }

    /// It leaves its thread to others. Call this while the line is locked.
    pub(super) fn get_in_line(&self) {
        *self.waits_since.lock() = Some(Instant::now());
        self.state.store(READY, Ordering::Release);
    }

    /// A turn, until it yields or waits. What came of it is added to `finished` once it has ended. An attempt that panics ends without a
    /// settlement; its job comes back when its lease has run out.
    pub(super) fn turn(self: &Arc<Self>, finished: &mut Vec<Finished>) -> TurnEnd {
        self.state.swap(RUNNING, Ordering::AcqRel);
        if let Some(since) = self.waits_since.lock().take() {
            self.control.note_wait(since.elapsed());
        }
        let waker = Waker::from(Arc::clone(self));
        let mut attempt = self.attempt.lock();
        let Some(future) = attempt.as_mut() else { return TurnEnd::Ended };
        let turn = || future.as_mut().poll(&mut Context::from_waker(&waker));
        let ended = match catch_unwind(AssertUnwindSafe(turn)) {
            Ok(Poll::Pending) => false,
            Ok(Poll::Ready(what_came)) => {
                finished.push(what_came);
                true
            }
            Err(_) => true,
        };
        if ended {
            *attempt = None;
            return TurnEnd::Ended;
        }
        drop(attempt);
        match self.state.compare_exchange(RUNNING, WAITING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => TurnEnd::Waits,
            Err(_) => TurnEnd::Computes,
        }
    }
}

impl Wake for Guest {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match self.state.fetch_or(READY, Ordering::AcqRel) {
            WAITING => {
                *self.waits_since.lock() = Some(Instant::now());
                self.shared.wake(Arc::clone(self));
            }
            READY if self.is_long() => self.shared.hurry(self),
            _ => {}
        }
    }
}

impl std::fmt::Debug for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guest").field("topic", self.topic()).field("state", &self.state).finish_non_exhaustive()
    }
}
