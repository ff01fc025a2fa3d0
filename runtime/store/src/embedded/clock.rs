//! The store's own clock: this host's, as long as that goes as time passes. If it is set, what waits is moved with it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::Clock;
use crate::clock::{ClockStep, fraction};
use gristmill_core::time::{Timestamp, millis};

/// A host's clock that is this much behind what has passed was set back. Less is a clock being corrected, which is waited for.
const STEP: Duration = Duration::from_secs(1);
/// A step back by more than this leaves what waits where it is: such a clock has no battery, and is put right soon.
const SENSELESS: Duration = Duration::from_secs(400 * 86_400);
/// A clock that comes forward as far as it went back before, within this, or within [`NEARLY`] of it at any time, was put right.
const SOON: Duration = Duration::from_secs(3600);
const NEARLY: Duration = Duration::from_secs(5);

/// Shows what the host's clock shows. A clock that was set back is followed once the writer has moved by the same step what waits: until
/// then, time goes on as it passes. A clock that jumps forward is followed at once, as after a sleep of the machine, unless it undoes a
/// step back.
#[derive(Debug)]
pub(super) struct OwnClock(Mutex<Seen>);

#[derive(Debug, Clone, Copy)]
struct Seen {
    /// The latest time that the writer has seen, and when that was. A test's clock passes without anybody's doing, and has no such moment.
    time: Timestamp,
    at: Option<Instant>,
    /// It was seen by this process. Of one that the file had, more time may have passed since.
    is_own: bool,
    /// How far the clock went back last, and when.
    back: Option<(Duration, Instant)>,
}

impl ClockStep {
    /// In milliseconds, below zero if it goes back.
    pub(super) fn signed_ms(self) -> i64 {
        let signed = |step| i64::try_from(millis(step)).unwrap_or(i64::MAX);
        match self {
            Self::Back(step) => -signed(step),
            Self::Forward(step) => signed(step),
        }
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

impl Seen {
    /// What the clock shows at this moment if it was not set.
    fn expected(&self, at: Option<Instant>) -> Timestamp {
        let passed = self.at.zip(at).map(|(seen, at)| at.saturating_duration_since(seen));
        self.time.plus(passed.unwrap_or_default())
    }

    /// How the host's clock was set since, so that something is to be moved.
    fn step(&self, host: Timestamp, at: Option<Instant>) -> Option<ClockStep> {
        let expected = self.expected(at);
        let (behind, ahead) = (expected.since(host), host.since(expected));
        if behind > STEP {
            return (behind <= SENSELESS).then_some(ClockStep::Back(behind));
        }
        let (back, when) = self.back?;
        let is_soon = at?.saturating_duration_since(when) < SOON;
        let undoes = ahead + NEARLY >= back && (is_soon || ahead <= back + NEARLY);
        (ahead > STEP && undoes).then_some(ClockStep::Forward(back))
    }

    /// The step in which the clock is followed with nothing moved.
    fn bare_step(&self, host: Timestamp, at: Option<Instant>) -> Option<ClockStep> {
        let expected = self.expected(Some(at?));
        let (behind, ahead) = (expected.since(host), host.since(expected));
        if behind > SENSELESS {
            return Some(ClockStep::Back(behind));
        }
        (ahead > STEP && self.is_own).then_some(ClockStep::Forward(ahead))
    }

    /// What the store goes by: a clock that is being corrected is waited for, a little slower than time passes.
    fn now(&self, host: Timestamp, at: Option<Instant>) -> Timestamp {
        let expected = self.expected(at);
        match expected.since(host) {
            behind if behind > SENSELESS || at.is_none() => host,
            behind if behind > STEP => expected,
            _ => {
                let passed = expected.since(self.time);
                self.time.plus(passed - passed / 16).max(host)
            }
        }
    }
}

impl OwnClock {
    /// A clock of which the latest time was written then.
    pub(super) fn starting_at(written: Timestamp) -> Self {
        Self(Mutex::new(Seen { time: written, at: Some(Instant::now()), is_own: false, back: None }))
    }

    /// How the clock was set since the last [`follow`](Self::follow), so that what waits is to be moved before anything else is done.
    pub(super) fn step(&self, clock: &Clock) -> Option<ClockStep> {
        let (host, at) = read(clock);
        self.0.lock().step(host, at)
    }

    /// Goes by what the clock shows from now on. `moved`: what waits was moved. Returns the step that the clock has made if nothing was.
    pub(super) fn follow(&self, clock: &Clock, moved: Option<ClockStep>) -> Option<ClockStep> {
        let (host, at) = read(clock);
        let mut seen = self.0.lock();
        let mut bare_step = None;
        match moved {
            Some(ClockStep::Back(step)) => seen.back = at.map(|at| (step, at)),
            Some(ClockStep::Forward(_)) => seen.back = None,
            // It is waited for.
            None if seen.step(host, at).is_some() || seen.now(host, at) > host => return None,
            None => bare_step = seen.bare_step(host, at),
        }
        (seen.time, seen.at, seen.is_own) = (host, at, true);
        bare_step
    }

    pub(super) fn moment(&self, clock: &Clock) -> Moment {
        let (host, at) = read(clock);
        moment(self.0.lock().now(host, at), clock)
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

/// What the clock shows, and when it does so.
fn read(clock: &Clock) -> (Timestamp, Option<Instant>) {
    match clock {
        Clock::Own => (Timestamp::now(), Some(Instant::now())),
        Clock::Manual(_) => (clock.now(Timestamp::now), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// What was seen at some moment, and the moment so many seconds after it.
    fn seen() -> (Seen, impl Fn(u64) -> Option<Instant>) {
        let (begin, time) = (Instant::now(), Timestamp::from_millis(1_800_000_000_000));
        let seen = Seen { time, at: Some(begin), is_own: true, back: None };
        (seen, move |seconds| Some(begin + Duration::from_secs(seconds)))
    }

    fn back(from: Timestamp, by: Duration) -> Timestamp {
        Timestamp::from_millis(from.as_millis() - by.as_millis() as u64)
    }

    #[test]
    fn a_step_back_is_told_to_the_millisecond_however_long_nothing_was_done() {
        let (seen, after) = seen();
        for by in [Duration::from_secs(600), HOUR, 24 * HOUR, 30 * 24 * HOUR] {
            let host = back(seen.time.plus(HOUR), by);
            assert_eq!(seen.step(host, after(3600)), Some(ClockStep::Back(by)));
            assert_eq!(
                seen.now(host, after(3600)),
                seen.time.plus(HOUR),
                "it is not followed before what waits was moved"
            );
        }
    }

    #[test]
    fn a_clock_that_is_corrected_a_little_is_waited_for() {
        let (seen, after) = seen();
        let host = |seconds| back(seen.time, STEP).plus(Duration::from_secs(seconds));
        assert_eq!(seen.step(host(8), after(8)), None);
        assert_eq!(seen.now(host(8), after(8)), seen.time.plus(Duration::from_millis(7_500)));
        assert_eq!(seen.now(host(17), after(17)), host(17), "it has come");
    }

    #[test]
    fn a_clock_without_a_battery_is_followed_and_moves_nothing() {
        let (seen, after) = seen();
        let host = Timestamp::from_millis(1_000);
        assert_eq!((seen.step(host, after(1)), seen.now(host, after(1))), (None, host));
        let Some(ClockStep::Back(by)) = seen.bare_step(host, after(1)) else { panic!("it is said") };
        assert_eq!(by, seen.time.plus(Duration::from_secs(1)).since(host));
    }

    #[test]
    fn a_jump_forward_is_said_unless_no_server_ran_meanwhile() {
        let (seen, after) = seen();
        let host = seen.time.plus(HOUR + Duration::from_secs(7));
        assert_eq!(seen.bare_step(host, after(7)), Some(ClockStep::Forward(HOUR)));
        assert_eq!(seen.bare_step(host, after(3607)), None, "time has passed");
        assert_eq!(Seen { is_own: false, ..seen }.bare_step(host, after(7)), None, "the file was written an hour ago");
    }

    #[test]
    fn a_jump_forward_moves_nothing_unless_it_undoes_a_step_back() {
        let (seen, after) = seen();
        let ahead = |by: Duration| seen.time.plus(by);
        assert_eq!(seen.step(ahead(6 * HOUR), after(1)), None, "the machine slept");
        let set_back = Seen { back: Some((HOUR, after(0).unwrap())), ..seen };
        assert_eq!(
            set_back.step(ahead(HOUR + HOUR / 2), after(60)),
            Some(ClockStep::Forward(HOUR)),
            "it was put right soon"
        );
        assert_eq!(set_back.step(ahead(HOUR / 2), after(60)), None);
        let late = 8 * 3600;
        assert_eq!(set_back.step(ahead(9 * HOUR), after(late)), Some(ClockStep::Forward(HOUR)), "by just as much");
        assert_eq!(set_back.step(ahead(14 * HOUR), after(late)), None, "the machine slept");
    }

    #[test]
    fn a_clock_starts_where_the_file_was_last_written() {
        let written = Timestamp::now().plus(HOUR);
        let clock = OwnClock::starting_at(written);
        let moment = clock.moment(&Clock::Own);
        assert!(moment.now >= written && moment.up == moment.now.plus(Duration::from_millis(1)));
        let Some(step @ ClockStep::Back(by)) = clock.step(&Clock::Own) else { panic!("the host is behind") };
        assert!(by <= HOUR && by > HOUR - Duration::from_secs(60));
        clock.follow(&Clock::Own, None);
        assert!(clock.moment(&Clock::Own).now >= written, "nothing was moved yet");
        clock.follow(&Clock::Own, Some(step));
        assert!(clock.moment(&Clock::Own).now < written);
        assert_eq!(clock.step(&Clock::Own), None);
    }
}
