//! The ticks of a schedule, and which of them are due.

use std::collections::VecDeque;
use std::time::Duration;

use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;

use super::hints::{about_cron, about_field, nearest_timezone};
use super::{BadSchedule, LONGEST_INTERVAL, Missed, SHORTEST_INTERVAL};
use crate::time::{Timestamp, millis};

/// A tick that is so late was missed.
const LATE: Duration = Duration::from_secs(60);

/// How many missed ticks are made up for.
const MADE_UP_FOR: usize = 1000;

/// How many ticks get their jobs in one step.
const AT_ONCE: usize = 100;

/// The longest cron expression.
const CRON_BYTES: usize = 256;

/// A point in time from which every expression is asked whether it ever comes.
const EARLY: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// When a schedule's ticks are. Parsed, and cheap to ask.
#[derive(Debug, Clone)]
pub struct Ticks(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Every { ms: u64 },
    Cron { cron: Box<Cron>, zone: TimeZone },
}

/// What of a schedule's ticks is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// These get jobs, in this order: at most 100.
    pub ticks: Vec<Timestamp>,
    /// The latest of the ticks that were missed and get no jobs.
    pub missed: Option<Timestamp>,
    /// The first tick that none of this is about. `None` if no tick comes any more.
    pub next: Option<Timestamp>,
}

impl Ticks {
    pub(super) fn every(every: Duration) -> Result<Self, BadSchedule> {
        if !(SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&every) {
            return Err(BadSchedule::Interval { every });
        }
        Ok(Self(Kind::Every { ms: millis(every) }))
    }

    pub(super) fn cron(text: &str, timezone: Option<&str>) -> Result<Self, BadSchedule> {
        let bad = |problem: String| BadSchedule::Cron { cron: text.chars().take(CRON_BYTES).collect(), problem };
        if text.len() > CRON_BYTES {
            return Err(bad(format!("it is longer than {CRON_BYTES} bytes")));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let problem_of = |text: &str| parser.parse(text).err().map(|error| problem(&error));
        let meant = || about_cron(text).or_else(|| about_field(text, problem_of));
        let cron = parser.parse(text).map_err(|error| bad(meant().unwrap_or_else(|| problem(&error))))?;
        let zone = match timezone {
            None => TimeZone::UTC,
            Some(name) => TimeZone::get(name)
                .map_err(|_| BadSchedule::Timezone { timezone: name.to_owned(), near: nearest_timezone(name) })?,
        };
        let ticks = Self(Kind::Cron { cron: Box::new(cron), zone });
        let never = || match text.split_whitespace().nth(4) {
            Some("L" | "l") => bad("`L` alone is no day of the week: write `5L` for the last Friday of a month".into()),
            _ => BadSchedule::Never { cron: text.to_owned() },
        };
        ticks.next_after(EARLY).map(|_| ticks).ok_or_else(never)
    }

    /// The first tick after `time`. `None` if none comes any more.
    ///
    /// At the end of summer time, the hour that comes twice has each tick of an expression with a fixed minute and hour once.
    /// At its beginning, a tick in the hour that is left out comes right after it. An expression with `*`, a list or a step in
    /// minute or hour follows the clock on the wall: both hours, and none.
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        match &self.0 {
            Kind::Every { ms } => (time.as_millis() / ms + 1).checked_mul(*ms).map(Timestamp::from_millis),
            Kind::Cron { cron, zone } => {
                let second = i64::try_from(time.as_millis() / 1000).ok()?;
                let from = jiff::Timestamp::from_second(second).ok()?.to_zoned(zone.clone());
                let next = cron.find_next_occurrence(&from, false).ok()?.timestamp().as_millisecond();
                u64::try_from(next).ok().map(Timestamp::from_millis).filter(|next| *next > time)
            }
        }
    }

    /// Which ticks get jobs at `now`, given the `first` one that has not been dealt with. Bounded in time and in number: of
    /// many ticks the latest are looked at.
    pub fn due(&self, first: Timestamp, now: Timestamp, missed: Missed) -> Due {
        // The earliest one may have been found by other rules of a time zone.
        let before = Timestamp::from_millis(first.as_millis().saturating_sub(1));
        let wanted = if missed == Missed::All { MADE_UP_FOR } else { AT_ONCE };
        let (latest, are_all) = self.latest(before, now, wanted);
        let (late, fresh): (Vec<_>, Vec<_>) = latest.iter().copied().partition(|tick| now.since(*tick) > LATE);
        let made_up_for = match missed {
            Missed::Skip => 0,
            Missed::One => usize::from(fresh.is_empty()),
            Missed::All => late.len(),
        };
        let (left_out, late) = late.split_at(late.len().saturating_sub(made_up_for));
        let mut ticks: Vec<_> = late.iter().copied().chain(fresh).collect();
        let next = if ticks.len() > AT_ONCE {
            let next = ticks.get(AT_ONCE).copied();
            ticks.truncate(AT_ONCE);
            next
        } else {
            self.next_after(latest.back().copied().unwrap_or(before).max(now))
        };
        let missed = left_out.last().copied().or_else(|| (!are_all).then_some(first));
        Due { ticks, missed, next }
    }

    /// The latest ticks after `before` up to `now`, at most `wanted`, the earliest first; and whether these are all.
    fn latest(&self, before: Timestamp, now: Timestamp, wanted: usize) -> (VecDeque<Timestamp>, bool) {
        // Only forward is well defined where clocks are set back, so the reach grows until it holds enough.
        let mut reach = LATE.as_millis() as u64 * 2;
        loop {
            let from = before.max(Timestamp::from_millis(now.as_millis().saturating_sub(reach)));
            let (mut latest, mut are_all, mut tick) = (VecDeque::new(), from == before, from);
            while let Some(next) = self.next_after(tick).filter(|next| *next <= now) {
                if latest.len() == wanted {
                    latest.pop_front();
                    are_all = false;
                }
                latest.push_back(next);
                tick = next;
            }
            if latest.len() == wanted || from == before {
                return (latest, are_all);
            }
            reach = reach.saturating_mul(8);
        }
    }

    /// What the ticks are, in words: `every 15m`, or what the cron expression says.
    pub fn in_words(&self) -> String {
        match &self.0 {
            Kind::Every { ms } => {
                let (n, unit) = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")]
                    .into_iter()
                    .find(|(size, _)| ms.is_multiple_of(*size))
                    .map_or((*ms, "ms"), |(size, unit)| (ms / size, unit));
                format!("every {n}{unit}")
            }
            Kind::Cron { cron, .. } => described(cron),
        }
    }

    /// A time as clocks show it where the schedule lives, with the zone's abbreviation: `Mon 2026-11-23 03:00 CET`.
    pub fn local(&self, time: Timestamp) -> String {
        let zone = match &self.0 {
            Kind::Every { .. } => TimeZone::UTC,
            Kind::Cron { zone, .. } => zone.clone(),
        };
        let at = i64::try_from(time.as_millis()).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let format =
            if time.as_millis().is_multiple_of(60_000) { "%a %Y-%m-%d %H:%M %Z" } else { "%a %Y-%m-%d %H:%M:%S %Z" };
        at.map_or_else(|| time.to_string(), |at| at.to_zoned(zone).strftime(format).to_string())
    }
}

/// What an expression says. Croner's words go by a step wherever it is; here only a step that divides its whole field is one in words, and
/// anything else is a list. They also take the last day of work for the last day.
fn described(cron: &Cron) -> String {
    let mut plain = cron.clone();
    for part in [&mut plain.pattern.minutes, &mut plain.pattern.hours, &mut plain.pattern.months] {
        let count = part.max - part.min + 1;
        let is_even = part.step > 0 && count.is_multiple_of(part.step);
        if !(is_even && (part.min..=part.max).step_by(part.step.into()).eq(part.values())) {
            part.step = 1;
        }
    }
    let words = plain.describe().trim_end_matches('.').to_owned();
    let days = cron.as_str().split_whitespace().nth(2).unwrap_or_default();
    let is_of_work = days.split(',').any(|day| day.eq_ignore_ascii_case("lw"));
    if is_of_work {
        words.replace("the last day of the month", "the last day from Monday to Friday of the month")
    } else {
        words
    }
}

/// What is wrong with an expression.
fn problem(error: &CronError) -> String {
    let said = match error {
        CronError::IllegalCharacters(_) => "it has a character that means nothing there",
        CronError::InvalidPattern(said) | CronError::ComponentError(said) => said,
        other => &other.to_string(),
    };
    let mut letters = said.trim_end_matches('.').chars();
    letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect()
}
