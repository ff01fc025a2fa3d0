//! The bill: what attempts cost, added up by tenant, topic and day.

use std::fmt;
use std::ops::AddAssign;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::TopicId;
use crate::json::schema;
use crate::time::{Timestamp, civil_from_days};

/// How many days one question may be about.
pub const DAYS_AT_ONCE: usize = 366;

/// A day, UTC. Written as `2026-11-20`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Day(u32);

schema!(inline Day: {
    "type": "string",
    "format": "date",
    "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "description": "A day, UTC.",
});

/// The text is not a day.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no day: write it as 2026-11-20, from 1970-01-01 on")]
pub struct BadDay(pub String);

impl Day {
    /// The last one that can be written.
    const LAST: u32 = 2_932_896;

    /// The day of a time.
    pub fn of(time: Timestamp) -> Self {
        Self::from_number(u32::try_from(time.as_millis() / 86_400_000).unwrap_or(u32::MAX))
    }

    /// The day that is this many days after 1970-01-01.
    pub fn from_number(number: u32) -> Self {
        Self(number.min(Self::LAST))
    }

    /// When the next day begins.
    pub fn end(self) -> Timestamp {
        Timestamp::from_millis((u64::from(self.0) + 1) * 86_400_000)
    }

    /// Days since 1970-01-01.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The first day of the same month.
    #[must_use]
    pub fn first_of_month(self) -> Self {
        let (_, _, day) = civil_from_days(self.0.into());
        Self(self.0.saturating_sub(u32::try_from(day).unwrap_or(1) - 1))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.0.into());
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl FromStr for Day {
    type Err = BadDay;

    fn from_str(text: &str) -> Result<Self, BadDay> {
        let read = || {
            let mut parts = text.splitn(3, '-').map(|part| part.parse::<u32>().ok());
            let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
            // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms"; what is no date does not come out as it went in.
            let year = year.checked_sub(u32::from(month <= 2)).filter(|year| *year <= 9999)?;
            let (era, year) = (year / 400, year % 400);
            let day_of_year = (153 * ((month % 13 + 9) % 12) + 2) / 5 + day % 32;
            let day = era * 146_097 + year * 365 + year / 4 - year / 100 + day_of_year;
            Some(Self::from_number(day.checked_sub(719_469)?))
        };
        read().filter(|day| day.to_string() == text).ok_or_else(|| BadDay(text.to_owned()))
    }
}

impl TryFrom<String> for Day {
    type Error = BadDay;

    fn try_from(text: String) -> Result<Self, BadDay> {
        text.parse()
    }
}

impl From<Day> for String {
    fn from(day: Day) -> Self {
        day.to_string()
    }
}

/// What attempts cost. `docs/reference/metering.md` says which attempts count where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Cost {
    /// Attempts.
    pub attempts: u64,
    /// Fuel that they used.
    pub fuel: u64,
    /// The peak of each attempt's memory times its run time, in KiB times milliseconds, rounded down for each attempt.
    pub memory_kib_ms: u64,
    /// Their run time, in microseconds.
    pub run_us: u64,
    /// Bytes of their jobs' bodies.
    pub bytes_in: u64,
    /// Bytes of their results and of the bodies of their follow-up jobs.
    pub bytes_out: u64,
    /// HTTP requests that they sent.
    pub requests: u64,
}

impl Cost {
    /// The names of the amounts, in the order of [`Self::amounts`].
    pub const NAMES: [&'static str; 7] =
        ["attempts", "fuel", "memory_kib_ms", "run_us", "bytes_in", "bytes_out", "requests"];

    /// Every amount.
    pub const fn amounts(&self) -> [u64; 7] {
        let Self { attempts, fuel, memory_kib_ms, run_us, bytes_in, bytes_out, requests } = *self;
        [attempts, fuel, memory_kib_ms, run_us, bytes_in, bytes_out, requests]
    }

    /// The other direction of [`Self::amounts`].
    pub const fn of_amounts([attempts, fuel, memory_kib_ms, run_us, bytes_in, bytes_out, requests]: [u64; 7]) -> Self {
        Self { attempts, fuel, memory_kib_ms, run_us, bytes_in, bytes_out, requests }
    }

    /// [`Self::memory_kib_ms`] of one attempt. It saturates.
    pub fn memory(peak_bytes: u64, run_us: u64) -> u64 {
        let product = u128::from(peak_bytes) * u128::from(run_us);
        u64::try_from(product / (1024 * 1000)).unwrap_or(u64::MAX)
    }
}

impl AddAssign for Cost {
    /// Saturates.
    fn add_assign(&mut self, more: Self) {
        let (mut sums, more) = (self.amounts(), more.amounts());
        sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        *self = Self::of_amounts(sums);
    }
}

/// A line of a bill: what a topic's attempts of one day cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BillLine {
    /// The topic, and its tenant.
    #[serde(flatten)]
    pub topic: TopicId,
    /// The day on which the attempts ended.
    pub day: Day,
    /// What they cost together.
    #[serde(flatten)]
    pub cost: Cost,
}

impl BillLine {
    /// Lines as CSV (RFC 4180), with a header, each with CRLF at its end. No field needs quotes.
    pub fn csv(lines: &[Self]) -> String {
        let mut text = format!("tenant,day,topic,{}\r\n", Cost::NAMES.join(","));
        for Self { topic, day, cost } in lines {
            let amounts = cost.amounts().map(|amount| amount.to_string());
            text.push_str(&format!("{},{day},{},{}\r\n", topic.tenant, topic.topic, amounts.join(",")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_read_as_they_are_written() {
        for number in (0..=40_000).chain([Day::LAST - 1, Day::LAST]) {
            let day = Day::from_number(number);
            assert_eq!(day.to_string().parse(), Ok(day));
        }
        assert_eq!(Day::from_number(u32::MAX).to_string(), "9999-12-31");
        assert_eq!(Day::of(Timestamp::from_millis(1_795_176_245_006)).to_string(), "2026-11-20");
    }

    #[test]
    fn what_is_no_day_is_refused() {
        let bad = ["", "2026", "2026-11", "2026-11-20T00:00", "2026-1-2", "2026-02-29", "2026-13-01", "2026-00-10"];
        for bad in
            bad.into_iter().chain(["2026-04-31", "1969-12-31", "-2026-11-20", "10000-01-01", "2026-11-4294967295"])
        {
            assert_eq!(bad.parse::<Day>(), Err(BadDay(bad.to_owned())));
        }
    }

    #[test]
    fn made_up_days_are_refused_or_read_back() {
        gristmill_fuzz::check("day", &[b"2026-11-20", b"1970-01-01", b"9999-12-31"], |input| {
            let text = String::from_utf8_lossy(input);
            text.parse::<Day>().map(|day| assert_eq!(day.to_string(), text))
        });
    }

    #[test]
    fn a_month_begins_on_its_first_day() {
        for (day, first) in [("2026-11-20", "2026-11-01"), ("2024-02-29", "2024-02-01"), ("1970-01-01", "1970-01-01")] {
            assert_eq!(day.parse::<Day>().unwrap().first_of_month().to_string(), first);
        }
    }

    #[test]
    fn memory_is_weighted_with_time() {
        assert_eq!(Cost::memory(1 << 20, 1_000_000), 1024 * 1000);
        assert_eq!(Cost::memory(1 << 16, 15), 0);
        assert_eq!(Cost::memory(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn lines_are_written_as_csv() {
        let cost = Cost::of_amounts([1, 2, 3, 4, 5, 6, 7]);
        let line = BillLine { topic: "acme/mail".parse().unwrap(), day: Day::from_number(1), cost };
        let header = "tenant,day,topic,attempts,fuel,memory_kib_ms,run_us,bytes_in,bytes_out,requests";
        assert_eq!(BillLine::csv(&[line]), format!("{header}\r\nacme,1970-01-02,mail,1,2,3,4,5,6,7\r\n"));
    }
}
