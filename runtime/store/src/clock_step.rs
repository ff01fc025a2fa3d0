//! A store's clock that was set: by how much, and what is to be moved because of it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use gristmill_core::time::{Timestamp, millis};
use gristmill_core::units::about_duration;

/// A clock that is set the other way within this time, or within [`NEARLY`] of the same step at any time, was put right.
const SOON: Duration = Duration::from_secs(3600);
const NEARLY: Duration = Duration::from_secs(5);
/// A step back by more than this moves nothing: such a clock has no battery, and is put right soon.
const SENSELESS: Duration = Duration::from_secs(400 * 86_400);

/// A store's clock went otherwise than time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClockStep {
    /// What it would show.
    pub(super) from: Timestamp,
    /// What it shows.
    pub(super) to: Timestamp,
}

/// A step, and by how many milliseconds what waits was moved then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Followed {
    pub(super) step: ClockStep,
    pub(super) moved_ms: i64,
}

/// By how many milliseconds what waits is moved, so that it waits for as long as before; below zero: it comes earlier by the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Move {
    pub(super) ms: i64,
    /// The clock was ahead for a time after this moment. What was made until this moment moves by `earlier_ms` instead.
    pub(super) earlier: Timestamp,
    pub(super) earlier_ms: i64,
}

impl Move {
    fn all(ms: i64) -> Self {
        Self { ms, earlier: Timestamp::default(), earlier_ms: ms }
    }

    pub(super) fn is_none(self) -> bool {
        (self.ms, self.earlier_ms) == (0, 0)
    }
}

impl ClockStep {
    pub(super) fn back(self) -> Duration {
        self.from.since(self.to)
    }

    pub(super) fn forward(self) -> Duration {
        self.to.since(self.from)
    }

    /// In milliseconds, below zero if it goes back.
    pub(super) fn signed_ms(self) -> i64 {
        let signed = |step| i64::try_from(millis(step)).unwrap_or(i64::MAX);
        signed(self.forward()) - signed(self.back())
    }

    /// Whether this is the same step, noticed by another one within this time.
    pub(super) fn is_nearly(self, other: Self, within: Duration) -> bool {
        let (one, other_ms) = (self.signed_ms(), other.signed_ms());
        (one < 0) == (other_ms < 0)
            && one.saturating_sub(other_ms).unsigned_abs() <= millis(NEARLY)
            && self.to.since(other.to).max(other.to.since(self.to)) < within
    }

    /// Whether it is nearly as long as the step before, in the other direction.
    pub(super) fn nearly_undoes(self, before: Self) -> bool {
        let (was, is) = (before.signed_ms(), self.signed_ms());
        (was < 0) != (is < 0) && is.saturating_add(was).unsigned_abs() <= millis(NEARLY)
    }

    /// Whether this puts right what the step before did.
    fn undoes(self, before: Self) -> bool {
        let (was, is) = (before.signed_ms(), self.signed_ms());
        // A clock that comes forward by more than it went back was put right, too, while the machine slept.
        let may = is < 0 && was > 0 || was < 0 && is > 0 && self.forward() + NEARLY >= before.back();
        self.nearly_undoes(before) || may && self.from.since(before.to) < SOON
    }

    /// What is to be moved, given the step before, if one is known.
    ///
    /// A clock that jumps forward makes due what it passes, as after a sleep of the machine, and moves nothing. But one that comes forward
    /// after a step back takes along what was moved then; and one that goes back after a jump forward leaves where it is what was made
    /// before that jump.
    pub(super) fn moves(self, before: Option<Followed>) -> Move {
        let ms = self.signed_ms();
        match before.filter(|before| self.undoes(before.step)) {
            Some(before) if ms > 0 => Move::all(-before.moved_ms),
            Some(Followed { step, moved_ms: 0 }) => {
                Move { ms, earlier: step.from, earlier_ms: step.signed_ms().saturating_add(ms).min(0) }
            }
            _ if self.back() > SENSELESS => Move::all(0),
            _ => Move::all(ms.min(0)),
        }
    }
}

impl fmt::Display for ClockStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (way, by) = if self.to < self.from { ("back", self.back()) } else { ("forward", self.forward()) };
        write!(f, "clock was set {way} by {}", about_duration(by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const YEARS: u64 = 500 * DAY;
    const BEGIN: u64 = 1_800_000_000_000;

    fn step(from: u64, by_ms: i64) -> ClockStep {
        let at = |ms| Timestamp::from_millis(ms);
        ClockStep { from: at(BEGIN + from), to: at((BEGIN + from).strict_add_signed(by_ms)) }
    }

    const fn signed(ms: u64) -> i64 {
        ms.cast_signed()
    }

    /// The moves of steps of a clock, each so long after the one before as time passes. Of each: all, and what was made before the step before.
    fn moves(steps: &[(u64, i64)]) -> Vec<(i64, i64)> {
        let (mut now, mut before, mut all) = (0_u64, None, Vec::new());
        for (passed, by_ms) in steps {
            let step = step(now + passed, *by_ms);
            let moved = step.moves(before);
            before = Some(Followed { step, moved_ms: moved.ms });
            now = (now + passed).wrapping_add_signed(*by_ms);
            all.push((moved.ms, moved.earlier_ms));
        }
        all
    }

    #[test]
    fn a_step_back_moves_what_waits_and_a_jump_forward_nothing() {
        for ms in [2 * MINUTE, HOUR, DAY, 30 * DAY].map(signed) {
            assert_eq!(moves(&[(DAY, -ms)]), [(-ms, -ms)]);
            assert_eq!(moves(&[(DAY, ms)]), [(0, 0)]);
            assert_eq!(moves(&[(2 * YEARS, -ms), (DAY, -ms)]), [(-ms, -ms); 2]);
        }
    }

    #[test]
    fn a_clock_that_is_put_right_leaves_all_as_it_would_have_been() {
        let ms = signed(3 * MINUTE);
        let (back, forward) = ((DAY, -ms), (MINUTE, ms));
        assert_eq!(moves(&[back, forward]), [(-ms, -ms), (ms, ms)]);
        assert_eq!(moves(&[forward, (MINUTE, -ms)]), [(0, 0), (-ms, 0)], "what was made before the jump was right");
        let flapping = moves(&[forward, (MINUTE, -ms), (MINUTE, ms), (MINUTE, -ms)]);
        assert_eq!(flapping, [(0, 0), (-ms, 0), (ms, ms), (-ms, -ms)]);
        let late = [(DAY, ms), (DAY, -ms - 4_000)];
        assert_eq!(moves(&late), [(0, 0), (-ms - 4_000, -4_000)], "by nearly as much, at any time");
    }

    #[test]
    fn a_clock_that_is_put_right_in_part_or_with_a_sleep_moves_only_that() {
        let ms = signed(HOUR);
        assert_eq!(moves(&[(DAY, -ms), (MINUTE, ms + ms / 2)])[1], (ms, ms), "the machine slept meanwhile");
        assert_eq!(moves(&[(DAY, -ms), (MINUTE, ms / 2)])[1], (0, 0));
        assert_eq!(moves(&[(DAY, -ms), (8 * HOUR, 3 * ms)])[1], (0, 0), "the machine slept, much later");
        assert_eq!(moves(&[(DAY, ms), (MINUTE, -ms / 2)])[1], (-ms / 2, 0));
        assert_eq!(moves(&[(DAY, ms), (MINUTE, -3 * ms)])[1], (-3 * ms, -2 * ms));
        assert_eq!(moves(&[(DAY, ms), (8 * HOUR, -3 * ms)])[1], (-3 * ms, -3 * ms), "it is another matter by then");
    }

    #[test]
    fn a_clock_without_a_battery_is_followed_and_moves_nothing() {
        let years = signed(YEARS);
        assert_eq!(moves(&[(3 * YEARS, -years), (MINUTE, years)]), [(0, 0); 2]);
        assert_eq!(
            moves(&[(DAY, years), (MINUTE, -years)]),
            [(0, 0), (-years, 0)],
            "it was far ahead, and is put right"
        );
    }
}
