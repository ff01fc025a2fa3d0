//! From the callers to the writer: bounded, and no caller waits for it.

use std::mem;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How long lines are gathered before they are written. With the writing itself it stays below 50 ms.
const GATHER: Duration = Duration::from_millis(25);
/// Lines that may wait: a second's attempts of a busy runner, some 35 MB.
const MAX: usize = 1 << 16;
/// How often a warning is repeated.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// What waits to be written.
#[derive(Debug)]
pub(crate) struct Queue<L> {
    state: Mutex<State<L>>,
    wake: Condvar,
    max: usize,
}

#[derive(Debug)]
struct State<L> {
    lines: Vec<L>,
    /// Lines for which there was no room since the writer last came: later than all that wait.
    dropped: u64,
    /// All that were ever dropped.
    lost: u64,
    warned: Warned,
    closed: bool,
}

/// When a warning was last given.
#[derive(Debug, Default)]
pub(super) struct Warned(Option<Instant>);

impl Warned {
    /// Returns `true` if the warning is due, and counts it as given.
    pub(super) fn is_due(&mut self) -> bool {
        let due = self.0.is_none_or(|warned| warned.elapsed() >= WARN_EVERY);
        if due {
            self.0 = Some(Instant::now());
        }
        due
    }
}

impl<L> Default for Queue<L> {
    fn default() -> Self {
        Self::of(MAX)
    }
}

impl<L> Queue<L> {
    /// With room for `max` lines.
    pub(crate) fn of(max: usize) -> Self {
        let state = State { lines: Vec::new(), dropped: 0, lost: 0, warned: Warned::default(), closed: false };
        Self { state: Mutex::new(state), wake: Condvar::new(), max }
    }

    /// Takes the lines that it has room for and drops the rest. Returns how many were ever dropped if a warning is due.
    pub(crate) fn append(&self, lines: impl ExactSizeIterator<Item = L>) -> Option<u64> {
        let mut state = self.state.lock();
        let before = state.lines.len();
        let fits = lines.len().min(self.max.saturating_sub(before));
        let dropped = (lines.len() - fits) as u64;
        state.lines.extend(lines.take(fits));
        state.dropped += dropped;
        state.lost += dropped;
        let warn = dropped > 0 && state.warned.is_due();
        let (after, lost) = (state.lines.len(), state.lost);
        drop(state);
        // In between, the writer is awake, or gathers with an eye on the clock.
        let early = self.early();
        if (before == 0 && after > 0) || (before < early && after >= early) {
            self.wake.notify_one();
        }
        warn.then_some(lost)
    }

    /// Waits for lines, gathers for a moment, and returns them all, with how many were dropped behind them. Returns
    /// `None` once the queue is closed and empty.
    pub(crate) fn take(&self) -> Option<(Vec<L>, u64)> {
        let mut state = self.state.lock();
        self.wake.wait_while(&mut state, |state| state.lines.is_empty() && !state.closed);
        let few = |state: &mut State<L>| state.lines.len() < self.early() && !state.closed;
        self.wake.wait_while_for(&mut state, few, GATHER);
        let lines = mem::take(&mut state.lines);
        (!lines.is_empty()).then(|| (lines, mem::take(&mut state.dropped)))
    }

    /// Waits for this long, or until closed.
    pub(super) fn pause(&self, pause: Duration) {
        self.wake.wait_while_for(&mut self.state.lock(), |state| !state.closed, pause);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// No more will come.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.wake.notify_one();
    }

    /// Lines that wait, with those that were dropped behind them.
    pub(super) fn waiting(&self) -> u64 {
        let state = self.state.lock();
        state.lines.len() as u64 + state.dropped
    }

    /// How many were ever dropped.
    pub(crate) fn lost(&self) -> u64 {
        self.state.lock().lost
    }

    /// From this many on the writer does not wait for more.
    fn early(&self) -> usize {
        self.max / 4
    }
}
