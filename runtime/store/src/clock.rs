//! Whose clock rules: the store's own, or a test's; and the bounds of the times that stores keep.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gristmill_core::time::{Timestamp, whole_millis};

/// The latest time that a store can keep, in milliseconds: late in the year 5138. Lua 5.1 writes whole numbers of up to
/// 14 digits without an exponent.
const LATEST_MS: u64 = 99_999_999_999_999;

/// Until when a job is delayed that waits for others: a time that never comes.
pub(super) const NEVER: Timestamp = Timestamp::from_millis(LATEST_MS);

/// Where a store takes the time from.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// Its own clock: Redis' `TIME`, or this host's for the embedded store, whose only host it is.
    #[default]
    Own,
    /// A test's clock, in milliseconds since the Unix epoch.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The time, given the store's own.
    pub(super) fn now(&self, own: impl FnOnce() -> Timestamp) -> Timestamp {
        match self {
            Self::Own => own(),
            Self::Manual(ms) => Timestamp::from_millis(ms.load(Ordering::SeqCst)),
        }
    }
}

/// The part of a millisecond that the host's clock shows beyond its whole ones; none on a test's clock. For waits that are
/// told: whoever waits for so much less than the whole milliseconds say still wakes in the right one.
pub(super) fn fraction(clock: &Clock) -> Duration {
    match clock {
        Clock::Own => Timestamp::fraction(),
        Clock::Manual(_) => Duration::ZERO,
    }
}

/// A wait in whole milliseconds, rounded up: nothing that waits may come early. At most 1,000 years, so that sums with
/// the time stay below [`LATEST_MS`].
pub(super) fn wait_ms(wait: Duration) -> u64 {
    const LONGEST_MS: u64 = 1000 * 365 * 24 * 3_600_000;
    whole_millis(wait).min(LONGEST_MS)
}

/// A point in time as stores keep it.
pub(super) fn point_ms(at: Timestamp) -> u64 {
    at.as_millis().min(LATEST_MS)
}

/// When a job is due as stores keep it: before [`NEVER`].
pub(super) fn due_ms(at: Timestamp) -> u64 {
    at.as_millis().min(LATEST_MS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_rounded_up_and_bounded() {
        assert_eq!(wait_ms(Duration::ZERO), 0);
        assert_eq!(wait_ms(Duration::from_nanos(1)), 1);
        assert_eq!(wait_ms(Duration::from_millis(7)), 7);
        assert_eq!(wait_ms(Duration::from_micros(7001)), 8);
        assert_eq!(wait_ms(Duration::MAX), 31_536_000_000_000);
        assert_eq!(point_ms(Timestamp::from_millis(u64::MAX)), LATEST_MS);
    }
}
