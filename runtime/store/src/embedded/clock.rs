//! The store's own clock: this host's, but it never goes back and never stands still.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::Clock;
use crate::clock::fraction;
use gristmill_core::time::Timestamp;

/// A time in the file that is further ahead than this was written by a clock that was wrong, and is not waited for.
const BELIEVED: Duration = Duration::from_secs(3600);
/// A host's clock that went back by more than this is worth a line in the log. Less is a clock being corrected.
const STEP: Duration = Duration::from_secs(1);

/// Goes with the host's clock. If that is set back, this one goes on from the latest time that was seen, a sixteenth slower than the
/// time passes, until the host's clock has caught up: waits end at most that much later, and absolute times are right again
/// after sixteen times the step.
#[derive(Debug)]
pub(super) struct OwnClock(Mutex<Seen>);

#[derive(Debug, Clone, Copy)]
struct Seen {
    /// The latest time at which the host's clock was not behind, and when that was.
    time: Timestamp,
    at: Instant,
    /// The log says that the host's clock went back.
    is_warned: bool,
}

impl Default for OwnClock {
    fn default() -> Self {
        Self::from(Timestamp::default())
    }
}

impl From<Timestamp> for OwnClock {
    fn from(time: Timestamp) -> Self {
        Self(Mutex::new(Seen { time, at: Instant::now(), is_warned: false }))
    }
}

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
    /// How long it is until then, up to the precision of the clock.
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
        Self::from(written)
    }

    fn now(&self) -> Timestamp {
        self.at(Timestamp::now(), Instant::now())
    }

    /// The time when the host's clock shows `host`, at the moment `at` of the monotonic clock.
    fn at(&self, host: Timestamp, at: Instant) -> Timestamp {
        let mut seen = self.0.lock();
        let passed = at.saturating_duration_since(seen.at);
        let steady = seen.time.plus(passed - passed / 16);
        let ahead = steady.since(host);
        if ahead > BELIEVED {
            tracing::warn!(time = %steady, %host, "this host's clock has gone far back: the store goes by it");
        } else if !ahead.is_zero() {
            if ahead > STEP && !seen.is_warned {
                seen.is_warned = true;
                tracing::warn!(?ahead, %host, "this host's clock has gone back: the store's time goes on, a little slower");
            }
            return steady;
        }
        *seen = Seen { time: host, at, is_warned: false };
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

    /// A clock at some time, and what it shows `seconds` later if the host shows the time that is given.
    fn clock() -> (OwnClock, Timestamp, impl Fn(&OwnClock, u64, Timestamp) -> Timestamp) {
        let (begin, now) = (Instant::now(), Timestamp::from_millis(1_800_000_000_000));
        let clock = OwnClock::default();
        assert_eq!(clock.at(now, begin), now);
        (clock, now, move |clock: &OwnClock, seconds, host| clock.at(host, begin + Duration::from_secs(seconds)))
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_wait_ends_although_the_hosts_clock_was_set_back() {
        let (clock, now, shows) = clock();
        let host = |seconds: u64| Timestamp::from_millis(now.as_millis() - 600_000 + seconds * 1000);
        assert_eq!(shows(&clock, 0, host(0)), now);
        assert_eq!(shows(&clock, 16, host(16)), now.plus(seconds(15)));
        assert_eq!(shows(&clock, 160, host(160)), now.plus(seconds(150)));
    }

    #[test]
    fn the_hosts_clock_holds_again_once_it_has_caught_up() {
        let (clock, now, shows) = clock();
        let host = |passed: u64| Timestamp::from_millis(now.as_millis() - 60_000).plus(seconds(passed));
        assert!(shows(&clock, 950, host(950)) > host(950));
        assert_eq!(shows(&clock, 960, host(960)), host(960));
        assert_eq!(shows(&clock, 961, host(961)), host(961));
    }

    #[test]
    fn a_clock_that_was_far_ahead_is_believed_when_it_comes_back() {
        let (clock, now, shows) = clock();
        let far = now.plus(BELIEVED).plus(seconds(1));
        assert_eq!((shows(&clock, 0, far), shows(&clock, 0, now)), (far, now));
    }

    #[test]
    fn the_clock_never_goes_back_behind_what_was_written() {
        let ahead = Timestamp::now().plus(Duration::from_secs(60));
        let clock = OwnClock::starting_at(ahead);
        let moment = clock.moment(&Clock::Own);
        assert!(moment.now >= ahead && moment.now < ahead.plus(Duration::from_secs(60)));
        assert_eq!(moment.up, moment.now.plus(Duration::from_millis(1)));
        let wrong = Timestamp::now().plus(Duration::from_secs(7200));
        assert!(OwnClock::starting_at(wrong).moment(&Clock::Own).now < wrong);
    }
}
