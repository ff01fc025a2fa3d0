//! The server's clock, as replies and scripts carry it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::Clock;
use gristmill_core::time::Timestamp;

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

/// The server's time since the Unix epoch.
pub(super) fn exact_time((seconds, micros): TimeReply) -> Duration {
    Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros))
}

/// A wait as scripts tell it: milliseconds with a fraction. None of anything else.
pub(super) fn wait(text: &str) -> Option<Duration> {
    let ms: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(ms / 1000.0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_have_fractions() {
        assert_eq!(wait("1500.250"), Some(Duration::from_micros(1_500_250)));
        assert_eq!(wait("0.000"), Some(Duration::ZERO));
        for none in ["", "-1", "soon", "inf", "nan"] {
            assert_eq!(wait(none), None, "{none}");
        }
    }

    #[test]
    fn the_servers_time_is_told_with_and_without_its_fraction() {
        assert_eq!(server_time((1_795_176_245, 6_999)), Timestamp::from_millis(1_795_176_245_006));
        assert_eq!(exact_time((1, 6_999)), Duration::from_micros(1_006_999));
    }
}
