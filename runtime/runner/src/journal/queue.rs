//! From the settling loop to the writer: bounded, never waited for by who fills it.

#![expect(clippy::vec_box, reason = "they come boxed from the guests' threads, and go on without being copied")]

use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::super::record::AttemptRecord;

/// How long records are gathered before they are written. With the writing itself it stays below 50 ms.
const GATHER: Duration = Duration::from_millis(25);
/// Records that may wait: a second of a busy runner, some 35 MB.
const MAX: usize = 1 << 16;
/// How often it is said that records are dropped.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// What waits to be written.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    max: usize,
}

#[derive(Debug, Default)]
struct State {
    records: Vec<Box<AttemptRecord>>,
    /// Those for which there was no room since the writer last came: later than all that wait.
    dropped: u64,
    /// All of them.
    lost: u64,
    /// Dropped and not yet said.
    unsaid: u64,
    said: Option<Instant>,
    closed: bool,
}

impl Default for Queue {
    fn default() -> Self {
        Self::of(MAX)
    }
}

impl Queue {
    /// With room for `max` records.
    pub(super) fn of(max: usize) -> Self {
        Self { state: Mutex::default(), wake: Condvar::new(), max }
    }

    /// Takes what it has room for and drops the rest. Some: it is time to say that so many have been dropped.
    pub(super) fn append(&self, records: &mut Vec<Box<AttemptRecord>>) -> Option<u64> {
        for record in records.iter_mut() {
            // Its texts may be as long as a handler's output. The reason is all that the journal says of it.
            record.failure = None;
        }
        let mut state = self.lock();
        let before = state.records.len();
        let fits = records.len().min(self.max.saturating_sub(before));
        state.records.extend(records.drain(..fits));
        let dropped = records.len() as u64;
        state.dropped += dropped;
        state.lost += dropped;
        let after = state.records.len();
        let say = state.say(dropped);
        drop(state);
        records.clear();
        // In between, the writer is awake, or gathers with an eye on the clock.
        let early = self.early();
        if (before == 0 && after > 0) || (before < early && after >= early) {
            self.wake.notify_one();
        }
        say
    }

    /// Waits for records, gathers for a moment, and takes them all into `records`, which is empty. Tells how many were
    /// dropped behind them; none: closed, and nothing is left.
    pub(super) fn take(&self, records: &mut Vec<Box<AttemptRecord>>) -> Option<u64> {
        let idle = |state: &mut State| state.records.is_empty() && !state.closed;
        let state = self.wake.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        let few = |state: &mut State| state.records.len() < self.early() && !state.closed;
        let gathered = self.wake.wait_timeout_while(state, GATHER, few);
        let (mut state, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        if state.records.is_empty() {
            return None;
        }
        mem::swap(&mut state.records, records);
        Some(mem::take(&mut state.dropped))
    }

    /// Waits for this long, or until closed.
    pub(super) fn pause(&self, pause: Duration) {
        drop(self.wake.wait_timeout_while(self.lock(), pause, |state| !state.closed));
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// No more will come.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_one();
    }

    /// Records, with those that were dropped behind them.
    pub(super) fn waiting(&self) -> u64 {
        let state = self.lock();
        state.records.len() as u64 + state.dropped
    }

    /// How many were ever dropped.
    pub(super) fn lost(&self) -> u64 {
        self.lock().lost
    }

    /// From so many on the writer does not wait for more.
    fn early(&self) -> usize {
        self.max / 4
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn say(&mut self, dropped: u64) -> Option<u64> {
        self.unsaid += dropped;
        let due = dropped > 0 && self.said.is_none_or(|said| said.elapsed() >= SAY_EVERY);
        due.then(|| {
            self.said = Some(Instant::now());
            mem::take(&mut self.unsaid)
        })
    }
}
