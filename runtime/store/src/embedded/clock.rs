//! The store's own clock: this host's, but it never goes back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Clock;
use crate::clock::fraction;
use gristmill_core::time::Timestamp;

/// A time in the file that is further ahead than this was written by a clock that was wrong, and is not waited for.
const BELIEVED: Duration = Duration::from_secs(3600);

/// The latest time that was seen.
#[derive(Debug, Default)]
pub(super) struct OwnClock(AtomicU64);

/// The time as a transition needs it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moment {
    pub(super) now: Timestamp,
    /// The same rounded up, for whatever must never be early.
    pub(super) up: Timestamp,
    /// What `now` leaves out.
    pub(super) fraction: Duration,
}

impl Moment {
    /// How long it is until then. Up to the precision of the clock, if it does not stand still.
    pub(super) fn until(&self, then: Timestamp) -> Duration {
        then.since(self.now).saturating_sub(self.fraction)
    }
}

impl OwnClock {
    /// A clock that does not show less than `written`, the latest time in the file.
    pub(super) fn starting_at(written: Timestamp) -> Self {
        let ahead = written.since(Timestamp::now());
        if ahead > BELIEVED {
            tracing::warn!(%written, "the store's file was last written at a time that is far ahead; going by this host's clock");
            return Self::default();
        }
        Self(AtomicU64::new(written.as_millis()))
    }

    fn now(&self) -> Timestamp {
        self.at(Timestamp::now())
    }

    /// Stands still while the host is behind; but not for a host that had been far ahead and came to its senses.
    fn at(&self, host: Timestamp) -> Timestamp {
        let seen = Timestamp::from_millis(self.0.fetch_max(host.as_millis(), Ordering::SeqCst));
        if seen.since(host) <= BELIEVED {
            return seen.max(host);
        }
        tracing::warn!(%seen, %host, "this host's clock has gone far back; going by it");
        self.0.store(host.as_millis(), Ordering::SeqCst);
        host
    }

    pub(super) fn moment(&self, clock: &Clock) -> Moment {
        let now = clock.now(|| self.now());
        let step = match clock {
            Clock::Own => Duration::from_millis(1),
            Clock::Manual(_) => Duration::ZERO,
        };
        Moment { now, up: now.plus(step), fraction: fraction(clock) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_far_ahead_is_believed_when_it_comes_back() {
        let (clock, now) = (OwnClock::default(), Timestamp::from_millis(1_800_000_000_000));
        assert_eq!(clock.at(now), now);
        let near = now.plus(BELIEVED);
        assert_eq!((clock.at(near), clock.at(now)), (near, near), "it stands still");
        let far = near.plus(BELIEVED);
        assert_eq!((clock.at(far), clock.at(now)), (far, now));
    }

    #[test]
    fn the_clock_never_goes_back_behind_what_was_written() {
        let ahead = Timestamp::now().plus(Duration::from_secs(60));
        let clock = OwnClock::starting_at(ahead);
        assert_eq!(clock.moment(&Clock::Own).now, ahead);
        assert_eq!(clock.moment(&Clock::Own).up, ahead.plus(Duration::from_millis(1)));
        let wrong = Timestamp::now().plus(Duration::from_secs(7200));
        assert!(OwnClock::starting_at(wrong).moment(&Clock::Own).now < wrong);
    }
}
