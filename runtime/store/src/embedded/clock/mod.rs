//! The store's own clock: this host's, as long as that goes as time passes. If it is set, the writer moves what waits before it is followed.

pub(super) mod set_clock;

use std::time::Duration;

use parking_lot::Mutex;

use crate::Clock;
use crate::clock::fraction;
use crate::clock_step::{ClockStep, Followed};
use gristmill_core::time::Timestamp;

/// A host's clock that is this much from what has passed was set. One that is less behind is being corrected, and is waited for.
const STEP: Duration = Duration::from_secs(1);
/// For how long the last step that the file has is more likely to be put right than a start.
const RECENT: Duration = Duration::from_secs(3600);

/// Shows what the host's clock shows. One that was set is followed once the writer has moved what is to be moved: until then, time goes on as
/// it passes.
#[derive(Debug)]
pub(super) struct OwnClock(Mutex<Seen>);

#[derive(Debug, Clone, Copy)]
struct Seen {
    /// The latest time that the writer has seen.
    time: Timestamp,
    /// How much time had passed then. `None` if the time is from the file: how much has passed since is not known.
    passed: Option<Duration>,
    /// The last step.
    last: Option<Followed>,
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

impl Seen {
    /// What the clock shows at this moment if it was not set.
    fn expected(&self, passed: Duration) -> Timestamp {
        self.time.plus(self.passed.map_or(Duration::ZERO, |seen| passed.saturating_sub(seen)))
    }

    /// How the host's clock was set since.
    fn step(&self, host: Timestamp, passed: Duration) -> Option<ClockStep> {
        let step = ClockStep { from: self.expected(passed), to: host };
        // What a clock has gained while no server ran is time that has passed, unless it is just what it had lost before.
        let is_known = self.passed.is_some() || self.last.is_some_and(|last| step.nearly_undoes(last.step));
        (step.back() > STEP || step.forward() > STEP && is_known).then_some(step)
    }

    /// What the store goes by: a clock that is being corrected is waited for, a little slower than time passes.
    fn now(&self, host: Timestamp, passed: Duration) -> Timestamp {
        let expected = self.expected(passed);
        if self.step(host, passed).is_some() {
            return expected;
        }
        let passed = expected.since(self.time);
        self.time.plus(passed - passed / 16).max(host)
    }

    /// The last step, where the clock is seen for the first time: a start with a clock that is ahead looks like time that has passed.
    fn last_at_start(&self, host: Timestamp) -> Option<Followed> {
        let gap = ClockStep { from: self.time, to: host };
        let is_recent = self.last.is_some_and(|last| host.since(last.step.to) < RECENT);
        if is_recent || self.time == Timestamp::default() || gap.forward() <= STEP {
            return self.last;
        }
        Some(Followed { step: gap, moved_ms: 0 })
    }
}

impl OwnClock {
    /// A clock of which the latest time was written then, and the last step.
    pub(super) fn starting_at(written: Timestamp, last: Option<Followed>) -> Self {
        Self(Mutex::new(Seen { time: written, passed: None, last }))
    }

    /// How the clock was set since it was followed last, and the step before that one: the writer is to move what waits before anything else
    /// is done. Without a step it is followed.
    pub(super) fn step(&self, clock: &Clock) -> Option<(ClockStep, Option<Followed>)> {
        let (host, passed) = read(clock);
        let mut seen = self.0.lock();
        if let Some(step) = seen.step(host, passed) {
            return Some((step, seen.last));
        }
        // Else it is waited for.
        if seen.now(host, passed) == host {
            let last = if seen.passed.is_none() { seen.last_at_start(host) } else { seen.last };
            *seen = Seen { time: host, passed: Some(passed), last };
        }
        None
    }

    /// Goes by what the clock shows from now on.
    pub(super) fn follow(&self, clock: &Clock, step: Followed) {
        let (host, passed) = read(clock);
        *self.0.lock() = Seen { time: host, passed: Some(passed), last: Some(step) };
    }

    pub(super) fn moment(&self, clock: &Clock) -> Moment {
        let (host, passed) = read(clock);
        moment(self.0.lock().now(host, passed), clock)
    }
}

/// What the clock shows, whatever it showed before.
pub(super) fn shown(clock: &Clock) -> Moment {
    moment(read(clock).0, clock)
}

fn moment(now: Timestamp, clock: &Clock) -> Moment {
    let step = match clock {
        Clock::Own => Duration::from_millis(1),
        Clock::Manual(_) => Duration::ZERO,
    };
    Moment { now, up: now.plus(step), fraction: fraction(clock) }
}

/// What the clock shows, and how much time has passed.
fn read(clock: &Clock) -> (Timestamp, Duration) {
    (clock.now(Timestamp::now), clock.passed())
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;
    const HOUR: Duration = Duration::from_secs(3600);
    const BEGIN: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn seen() -> Seen {
        Seen { time: BEGIN, passed: Some(S(100)), last: None }
    }

    fn before(time: Timestamp, by: Duration) -> Timestamp {
        Timestamp::from_millis(time.as_millis() - by.as_millis() as u64)
    }

    #[test]
    fn a_step_is_known_to_the_millisecond_however_long_nothing_was_done() {
        let from = BEGIN.plus(HOUR);
        for by in [S(600), HOUR, 24 * HOUR, 30 * 24 * HOUR] {
            for to in [before(from, by), from.plus(by)] {
                assert_eq!(seen().step(to, S(3700)), Some(ClockStep { from, to }));
                assert_eq!(seen().now(to, S(3700)), from, "it is not followed before what waits was moved");
            }
        }
    }

    #[test]
    fn a_clock_that_is_corrected_a_little_is_waited_for() {
        let host = |seconds| before(BEGIN, STEP).plus(S(seconds));
        assert_eq!(seen().step(host(8), S(108)), None);
        assert_eq!(seen().now(host(8), S(108)), BEGIN.plus(Duration::from_millis(7_500)));
        assert_eq!(seen().now(host(17), S(117)), host(17), "it has come");
    }

    #[test]
    fn a_clock_that_is_ahead_at_a_start_may_be_right() {
        let (written, later) = (Seen { passed: None, ..seen() }, BEGIN.plus(HOUR));
        assert_eq!((written.step(later, S(7)), written.now(later, S(7))), (None, later));
        let gap = Followed { step: ClockStep { from: BEGIN, to: later }, moved_ms: 0 };
        assert_eq!(written.last_at_start(later), Some(gap), "but if it goes back soon, it was not");
        let back = Followed { step: ClockStep { from: later, to: BEGIN }, moved_ms: -3_600_000 };
        let moved = Seen { last: Some(back), ..written };
        assert_eq!(moved.step(later.plus(S(3)), S(7)).unwrap().forward(), HOUR + S(3), "it was put right meanwhile");
        assert_eq!(moved.last_at_start(BEGIN.plus(S(9))), Some(back));
    }

    #[test]
    fn a_clock_starts_where_the_file_was_last_written() {
        let written = Timestamp::now().plus(HOUR);
        let clock = OwnClock::starting_at(written, None);
        let moment = clock.moment(&Clock::Own);
        assert!(moment.now >= written && moment.up == moment.now.plus(Duration::from_millis(1)));
        let (step, None) = clock.step(&Clock::Own).expect("the host is behind") else { panic!("it is the first") };
        assert!(step.back() <= HOUR && step.back() > HOUR - S(60));
        assert!(clock.moment(&Clock::Own).now >= written, "nothing was moved yet");
        clock.follow(&Clock::Own, Followed { step, moved_ms: 0 });
        assert!(clock.moment(&Clock::Own).now < written);
        assert_eq!(clock.step(&Clock::Own), None);
    }
}
