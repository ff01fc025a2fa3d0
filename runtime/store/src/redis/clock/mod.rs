//! The server's clock, as replies and scripts carry it.

mod set_clock;

use std::time::Duration;

use parking_lot::Mutex;

use crate::Clock;
use crate::clock_step::ClockStep;
use gristmill_core::time::{Timestamp, millis};

/// The reply to `TIME`: seconds and microseconds.
pub(super) type TimeReply = (u64, u64);

/// A server's clock that goes this much otherwise than time passes was set. Less is a clock being corrected.
pub(super) const STEP: Duration = Duration::from_secs(2);

/// Compares a server's clock with the time that passes on this host.
#[derive(Debug, Default)]
pub(super) struct ClockWatch(Mutex<Option<Reading>>);

/// What the server's clock showed at some moment between `asked` and `answered`. Each of these says how much time had passed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) server: Duration,
    pub(super) asked: Duration,
    pub(super) answered: Duration,
}

impl ClockWatch {
    /// Returns the step that the clock has made since the last reading, if it has made one.
    pub(super) fn step(&self, reading: Reading) -> Option<ClockStep> {
        let last = self.0.lock().replace(reading)?;
        let earliest = last.server + reading.asked.saturating_sub(last.answered);
        let latest = last.server + reading.answered.saturating_sub(last.asked);
        let from = reading.server.clamp(earliest, latest);
        let at = |time| Timestamp::from_millis(millis(time));
        (from.abs_diff(reading.server) > STEP).then(|| ClockStep { from: at(from), to: at(reading.server) })
    }
}

/// What scripts get as `now`.
pub(super) fn argument(clock: &Clock) -> String {
    match clock {
        Clock::Own => String::new(),
        Clock::Manual(clock) => clock.now().as_millis().to_string(),
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

/// A wait as scripts return it: milliseconds with a fraction. `None` for anything else.
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
    fn a_step_of_the_servers_clock_is_distinguished_from_a_slow_answer() {
        const S: fn(u64) -> Duration = Duration::from_secs;
        let watch = ClockWatch::default();
        let step = |server, asked, answered| {
            let step = watch.step(Reading { server: S(server), asked: S(asked), answered: S(answered) });
            step.map(|step| (step.forward(), step.back()))
        };
        assert_eq!(step(1_000, 0, 0), None);
        assert_eq!(step(1_002, 2, 2), None);
        assert_eq!(step(1_011, 4, 12), None, "the server stood still before it looked at its clock");
        assert_eq!(step(1_014, 14, 22), None, "and afterwards");
        assert_eq!(step(4_624, 24, 24), Some((S(3_600), S(0))));
        assert_eq!(step(4_626, 26, 26), None);
        assert_eq!(step(1_028, 28, 28), Some((S(0), S(3_600))));
    }

    #[test]
    fn the_servers_time_is_read_with_and_without_its_fraction() {
        assert_eq!(server_time((1_795_176_245, 6_999)), Timestamp::from_millis(1_795_176_245_006));
        assert_eq!(exact_time((1, 6_999)), Duration::from_micros(1_006_999));
    }
}
