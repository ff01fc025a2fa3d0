//! Points in time. This is the only file that reads a clock.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::json::schema;

/// Milliseconds since the Unix epoch.
///
/// Wherever a job's place depends on it, it comes from the store's clock, never from this host's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

schema!(inline Timestamp: {
    "type": "integer",
    "format": "int64",
    "minimum": 0,
    "description": "Milliseconds since the Unix epoch.",
});

impl Timestamp {
    /// A time in milliseconds since 1970, UTC.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// This host's clock. For display and for the embedded store only; see the type.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    pub fn now() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(millis(since_epoch))
    }

    /// What [`Self::now`] leaves out: the part of a millisecond that has passed since.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    pub fn fraction() -> Duration {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Duration::from_nanos(u64::from(since_epoch.subsec_nanos() % 1_000_000))
    }

    /// Reads RFC 3339, such as `2026-11-20T13:00:00+01:00`, to the millisecond.
    ///
    /// # Errors
    /// In words: the text is no time, has no offset from UTC, or is before 1970.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad =
            |problem: &str| format!("{problem}; write it as in 2026-11-20T13:00:00Z or 2026-11-20T14:00:00+01:00");
        let time: jiff::Timestamp = text.parse().map_err(|_| bad("it is no date and time with an offset from UTC"))?;
        u64::try_from(time.as_millisecond()).map(Self).map_err(|_| bad("it is before 1970"))
    }

    /// Milliseconds since 1970, UTC.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Saturates at both ends.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }

    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Whole milliseconds, saturating at `u64::MAX`.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The same, rounded up: what waits must not come early.
pub fn whole_millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl fmt::Display for Timestamp {
    /// RFC 3339, UTC, milliseconds: `2026-11-20T12:00:00.000Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, ms_of_day) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = civil_from_days(days);
        let (hour, minute) = (ms_of_day / 3_600_000, ms_of_day / 60_000 % 60);
        let (second, ms) = (ms_of_day / 1000 % 60, ms_of_day % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

/// Gregorian date of a day number since 1970-01-01 (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
pub(crate) fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_as_rfc_3339() {
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_millis(951_782_400_123).to_string(), "2000-02-29T00:00:00.123Z");
        assert_eq!(Timestamp::from_millis(1_795_176_245_006).to_string(), "2026-11-20T12:04:05.006Z");
    }

    #[test]
    fn made_up_times_are_refused_or_shown_as_they_are_read() {
        let known: [&[u8]; 3] =
            [b"2026-11-20T12:04:05.006Z", b"2000-02-29T23:59:59+14:00", b"1970-01-01T00:00:00-00:30"];
        gristmill_fuzz::check("rfc-3339", &known, |input| {
            let time = Timestamp::parse(&String::from_utf8_lossy(input))?;
            assert_eq!(Timestamp::parse(&time.to_string()), Ok(time));
            Ok::<_, String>(time)
        });
    }

    #[test]
    fn read_as_rfc_3339_in_any_offset() {
        let noon = Timestamp::from_millis(1_795_176_245_006);
        for text in ["2026-11-20T12:04:05.006Z", "2026-11-20T13:34:05.006+01:30", "2026-11-20t07:04:05.006-05:00"] {
            assert_eq!(Timestamp::parse(text), Ok(noon), "{text}");
        }
        for text in
            ["", "tomorrow", "2026-11-20", "2026-11-20T12:04:05", "2026-02-30T12:00:00Z", "1969-12-31T23:59:59Z"]
        {
            let refused = Timestamp::parse(text).unwrap_err();
            assert!(refused.contains("2026-11-20T13:00:00Z"), "{text}: {refused}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        let late = Timestamp::from_millis(u64::MAX);
        assert_eq!(late.plus(Duration::from_secs(1)), late);
        assert_eq!(Timestamp::default().since(late), Duration::ZERO);
    }
}
