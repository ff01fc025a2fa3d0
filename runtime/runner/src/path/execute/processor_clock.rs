//! What a thread has computed, and how long it stood still though it wanted to compute.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Of the thread that made it.
#[derive(Debug)]
pub(super) struct ProcessorClock {
    at: Instant,
    /// Time on a processor.
    on: Duration,
}

/// What a thread did since the last lap.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lap {
    /// It had a processor.
    pub(super) used: Duration,
    /// It had none: other programs had them all, or the machine stood still.
    pub(super) stood_still: Duration,
}

impl ProcessorClock {
    pub(super) fn start() -> Self {
        Self { at: Instant::now(), on: on_processor() }
    }

    /// Since the last one. The thread must not have slept meanwhile.
    pub(super) fn lap(&mut self) -> Lap {
        let before = std::mem::replace(self, Self::start());
        let used = self.on.saturating_sub(before.on);
        Lap { used, stood_still: self.at.saturating_duration_since(before.at).saturating_sub(used) }
    }
}

fn on_processor() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
