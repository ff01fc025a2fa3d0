//! The server's clock, as replies and scripts carry it.

use std::sync::atomic::Ordering;

use crate::store::Clock;
use crate::time::Timestamp;

/// The reply to `TIME`: seconds and microseconds.
pub(super) type TimeReply = (u64, u64);

/// What scripts get as `now`.
pub(super) fn argument(clock: &Clock) -> String {
    match clock {
        Clock::Own => String::new(),
        Clock::Manual(ms) => ms.load(Ordering::SeqCst).to_string(),
    }
}

/// The server's time, rounded down.
pub(super) fn server_time((seconds, micros): TimeReply) -> Timestamp {
    Timestamp::from_millis(seconds.saturating_mul(1000).saturating_add(micros / 1000))
}
