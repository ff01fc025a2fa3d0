//! Ticks: against the calendar, against the clocks of places that change them, and against another implementation.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::{
    BODY_BYTES, Due, HEADER_BYTES, LONGEST_INTERVAL, LONGEST_JITTER, Missed, SHORTEST_INTERVAL, Schedule, Ticks,
};
use crate::job::Payload;
use crate::time::Timestamp;

fn cron(text: &str, zone: &str) -> Ticks {
    Ticks::cron(text, Some(zone)).unwrap()
}

fn named(cron: &str) -> Schedule {
    Schedule { cron: Some(cron.into()), ..Schedule::default() }
}

/// A local time, as a point in time: the first of two.
fn local(zone: &str, text: &str) -> Timestamp {
    let at: DateTime = text.parse().unwrap();
    let at = at.to_zoned(TimeZone::get(zone).unwrap()).unwrap().timestamp().as_millisecond();
    Timestamp::from_millis(at.try_into().unwrap())
}

/// The next ticks in UTC.
fn next(ticks: &Ticks, after: Timestamp, n: usize) -> Vec<String> {
    let mut at = after;
    let mut found = Vec::new();
    for _ in 0..n {
        let Some(tick) = ticks.next_after(at) else { break };
        assert!(tick > at);
        found.push(tick.to_string()[..16].to_owned());
        at = tick;
    }
    found
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let every = |every| Schedule { every: Some(every), ..Schedule::default() };
    let refused = |schedule: &Schedule| schedule.ticks().unwrap_err().to_string();
    assert!(refused(&Schedule::default()).contains("needs `cron`"));
    assert!(refused(&Schedule { cron: named("@daily").cron, ..every(SHORTEST_INTERVAL) }).contains("exclude"));
    assert!(refused(&every(Duration::from_millis(999))).contains("999 ms"));
    assert!(refused(&every(LONGEST_INTERVAL + Duration::from_secs(1))).contains("366 days"));
    for bad in ["", "* * * *", "60 * * * *", "* * * * * *", "0 0 * * FRY", "@reboot", "0 0 1 1 * 2027"] {
        assert!(refused(&named(bad)).contains("no cron expression"), "{bad}");
    }
    for (bad, field) in [
        ("60 * * * *", "`60` is no minute, from 0 to 59"),
        ("0 22-2 * * *", "`22-2` is no hour, from 0 to 23, a range with its smaller end first"),
        ("0 0 0 * *", "`0` is no day of the month, from 1 to 31"),
        ("0 0 1 13 *", "`13` is no month, from 1 to 12"),
        ("0 0 * * FRI-MON", "`FRI-MON` is no day of the week"),
        ("? * * * *", "`?` is no minute, from 0 to 59, a range with its smaller end first: it has a character"),
    ] {
        assert!(refused(&named(bad)).contains(field), "{}", refused(&named(bad)));
    }
    assert!(refused(&named("0 0 30 2 *")).contains("no month has such a day"));
    assert!(refused(&named("0 0 * * L")).contains("write `5L`"));
    assert!(named("0 0 L * *").ticks().is_ok() && named("0 0 * * 5L").ticks().is_ok());
    let zone = |zone: &str| Schedule { timezone: Some(zone.into()), ..named("0 3 * * *") };
    assert!(refused(&zone("Europe/Berlim")).contains("did you mean `Europe/Berlin`?"));
    assert!(!refused(&zone("the moon")).contains("did you mean"));
    assert!(refused(&Schedule { cron: None, ..zone("UTC") }).contains("needs `cron`"));
    let zoned = Schedule { timezone: Some("UTC".into()), ..every(SHORTEST_INTERVAL) };
    assert!(refused(&zoned).contains("belongs to `cron`"));
    let body = Payload { data: vec![0; BODY_BYTES + 1], content_type: None };
    assert!(refused(&Schedule { body, ..named("@daily") }).contains("16384"));
    let metadata = vec![("x".into(), "y".repeat(HEADER_BYTES))];
    assert!(refused(&Schedule { metadata, ..named("@daily") }).contains("16385"));
    let jitter = LONGEST_JITTER + Duration::from_millis(1);
    assert!(refused(&Schedule { jitter, ..named("@daily") }).contains("up to a day"));
}

#[test]
fn ticks_follow_the_calendar() {
    let utc = |text: &str, after: &str, n| next(&cron(text, "UTC"), local("UTC", after), n);
    assert_eq!(utc("0 3 * * *", "2026-11-23T03:00", 2), ["2026-11-24T03:00", "2026-11-25T03:00"]);
    assert_eq!(utc("0 0 29 2 *", "2026-01-01T00:00", 3), ["2028-02-29T00:00", "2032-02-29T00:00", "2036-02-29T00:00"]);
    assert_eq!(utc("0 0 29 2 *", "2096-03-01T00:00", 1), ["2104-02-29T00:00"], "2100 is no leap year");
    assert_eq!(utc("0 0 31 * *", "2026-03-31T00:00", 2), ["2026-05-31T00:00", "2026-07-31T00:00"]);
    assert_eq!(
        utc("30 8 1,15 * MON", "2026-11-01T09:00", 4),
        ["2026-11-02T08:30", "2026-11-09T08:30", "2026-11-15T08:30", "2026-11-16T08:30"]
    );
    assert_eq!(utc("0 12 L * *", "2028-02-01T00:00", 1), ["2028-02-29T12:00"]);
    assert_eq!(utc("59 23 31 12 *", "2026-01-01T00:00", 1), ["2026-12-31T23:59"]);
    let second_before = Timestamp::from_millis(local("UTC", "2026-11-23T02:59").as_millis() + 59_999);
    assert_eq!(next(&cron("0 3 * * *", "UTC"), second_before, 1), ["2026-11-23T03:00"]);
}

#[test]
fn a_fixed_time_that_clocks_leave_out_comes_right_after_and_one_that_comes_twice_comes_once() {
    let daily = cron("30 2 * * *", "Europe/Berlin");
    let spring = local("Europe/Berlin", "2026-03-28T02:30");
    assert_eq!(next(&daily, spring, 2), ["2026-03-29T01:00", "2026-03-30T00:30"]);
    let autumn = local("Europe/Berlin", "2026-10-24T02:30");
    assert_eq!(next(&daily, autumn, 2), ["2026-10-25T00:30", "2026-10-26T01:30"]);
    let new_york = cron("30 1 * * *", "America/New_York");
    assert_eq!(
        next(&new_york, local("America/New_York", "2026-10-31T01:30"), 2),
        ["2026-11-01T05:30", "2026-11-02T06:30"]
    );
    // Half an hour: there are such places.
    let lord_howe = cron("15 2 * * *", "Australia/Lord_Howe");
    assert_eq!(
        next(&lord_howe, local("Australia/Lord_Howe", "2026-10-03T02:15"), 2),
        ["2026-10-03T15:30", "2026-10-04T15:15"]
    );
}

#[test]
fn a_time_that_returns_follows_the_clock_on_the_wall() {
    let quarters = cron("*/30 * * * *", "Europe/Berlin");
    assert_eq!(
        next(&quarters, local("Europe/Berlin", "2026-03-29T01:30"), 2),
        ["2026-03-29T01:00", "2026-03-29T01:30"]
    );
    let autumn = local("Europe/Berlin", "2026-10-25T01:30");
    assert_eq!(
        next(&quarters, autumn, 5),
        ["2026-10-25T00:00", "2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30", "2026-10-25T02:00"]
    );
}

#[test]
fn intervals_are_counted_from_1970() {
    let quarter = Ticks::every(Duration::from_secs(900)).unwrap();
    assert_eq!(next(&quarter, local("UTC", "2026-11-23T03:00"), 2), ["2026-11-23T03:15", "2026-11-23T03:30"]);
    assert_eq!(quarter.next_after(Timestamp::from_millis(u64::MAX)), None);
}

#[test]
fn the_tick_between_two_others_is_found_from_every_moment_between_them() {
    let zones = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu"];
    let mut random = fastrand::Rng::with_seed(15);
    for n in 0..600 {
        let (text, zone) = (expression(&mut random), zones[n % zones.len()]);
        let Ok(ticks) = Ticks::cron(&text, Some(zone)) else { continue };
        let start = Timestamp::from_millis(random.u64(1_700_000_000_000..1_900_000_000_000));
        let Some(tick) = ticks.next_after(start) else { continue };
        for _ in 0..5 {
            let between = Timestamp::from_millis(random.u64(start.as_millis()..tick.as_millis()));
            assert_eq!(ticks.next_after(between), Some(tick), "`{text}` in {zone} after {between}");
        }
    }
}

#[test]
fn missed_ticks_are_skipped_or_made_up_for() {
    let minutely = cron("* * * * *", "UTC");
    let (first, now) = (local("UTC", "2026-11-23T03:00"), local("UTC", "2026-11-23T09:00"));
    let shown = |ticks: &[Timestamp]| ticks.iter().map(|tick| tick.to_string()[11..16].to_owned()).collect::<Vec<_>>();
    let due = minutely.due(first, now, Missed::Skip);
    assert_eq!((shown(&due.ticks), due.missed.is_some()), (vec!["08:59".to_owned(), "09:00".to_owned()], true));
    assert_eq!(due.next, Some(local("UTC", "2026-11-23T09:01")));

    let nightly = cron("0 3 * * *", "UTC");
    let (first, now) = (local("UTC", "2026-11-20T03:00"), local("UTC", "2026-11-23T09:00"));
    let next = Some(local("UTC", "2026-11-24T03:00"));
    let latest = local("UTC", "2026-11-23T03:00");
    assert_eq!(nightly.due(first, now, Missed::Skip), Due { ticks: vec![], missed: Some(latest), next });
    let one = nightly.due(first, now, Missed::One);
    assert_eq!((one.ticks, one.next), (vec![latest], next));
    assert_eq!(nightly.due(first, now, Missed::All).ticks.len(), 4);
    let in_time = nightly.due(first, local("UTC", "2026-11-23T03:01"), Missed::One);
    assert_eq!(in_time.ticks, [latest], "those that were missed have none if one comes in time");
    assert!(nightly.due(first, first, Missed::Skip).missed.is_none());
}

#[test]
fn what_is_made_up_for_is_bounded_in_a_step_and_in_all() {
    let secondly = Ticks::every(Duration::from_secs(1)).unwrap();
    let year = 365 * 24 * 3_600_000;
    let (mut first, now) =
        (Timestamp::from_millis(1_800_000_000_000), Timestamp::from_millis(1_800_000_000_000 + year));
    let (mut jobs, mut steps) = (0, 0);
    while first <= now {
        let due = secondly.due(first, now, Missed::All);
        assert!(due.ticks.len() <= 100 && due.ticks.is_sorted());
        (jobs, steps, first) = (jobs + due.ticks.len(), steps + 1, due.next.unwrap());
    }
    assert_eq!((jobs, steps), (1000, 10));
    let late = secondly.due(Timestamp::from_millis(1_800_000_000_000), now, Missed::Skip);
    assert_eq!(late.ticks.len(), 61, "a minute late is not missed");
}

#[test]
fn schedules_are_shown_in_words() {
    let words = |schedule: Schedule| schedule.ticks().unwrap().in_words();
    let every = |secs| Schedule { every: Some(Duration::from_secs(secs)), ..Schedule::default() };
    assert_eq!(
        [900, 86_400, 90, 7200].map(|secs| words(every(secs))),
        ["every 15m", "every 1d", "every 90s", "every 2h"]
    );
    let cron = |cron: &str| Schedule { cron: Some(cron.into()), ..Schedule::default() };
    assert_eq!(words(cron("0 3 * * *")), "At 03:00");
    let of_croner = [
        ("*/15 * * * *", "every 15 minutes"),
        ("0 */6 * * *", "every 6 hours"),
        ("0 0 1 */3 *", "every 3 months"),
        // A step that does not divide its field has ticks that are nearer to each other, where the field begins again.
        ("*/90 * * * *", "At minute 0 past every hour"),
        ("*/59 * * * *", "At minute 0 and 59 past every hour"),
        ("*/40 * * * *", "At minute 0 and 40 past every hour"),
        ("*/20,*/30 * * * *", "At minute 0, 20, 30, and 40 past every hour"),
        ("0-20/10 * * * *", "At minute 0, 10, and 20 past every hour"),
        ("0 */10 * * *", "hour 0, 10, and 20"),
        ("0 0 1 */5 *", "January, June, and November"),
        ("0 0 LW * *", "the last day from Monday to Friday of the month"),
        ("0 0 L * *", "the last day of the month"),
    ];
    for (text, said) in of_croner {
        let words = words(cron(text));
        assert!(words.contains(said), "{text}: {words}");
    }
    let berlin = Schedule { timezone: Some("Europe/Berlin".into()), ..cron("0 3 * * *") };
    assert_eq!(berlin.ticks().unwrap().local(local("UTC", "2026-11-23T02:00")), "Mon 2026-11-23 03:00 CET");
}

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "may", "Jun", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "wed", "Thu", "FRI", "SAT"];

/// An expression of numbers, names, ranges, lists and steps.
fn expression(random: &mut fastrand::Rng) -> String {
    let bounds: [(u32, u32, &[&str]); 5] =
        [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, &MONTHS), (0, 6, &WEEKDAYS)];
    let fields = bounds.map(|(least, most, names)| {
        let entry = |random: &mut fastrand::Rng| {
            let (a, b) = (random.u32(least..=most), random.u32(least..=most));
            let range = format!("{}-{}", a.min(b), a.max(b));
            let named = |number: u32| names.get((number - least) as usize).copied().filter(|_| a % 3 == 0);
            if let (Some(first), Some(last)) = (named(a.min(b)), named(a.max(b))) {
                return if a < b { format!("{first}-{last}") } else { first.to_owned() };
            }
            match random.u8(0..4) {
                0 => range,
                1 => format!("{range}/{}", random.u32(1..=(most - least) / 2)),
                _ => a.to_string(),
            }
        };
        match random.u8(0..5) {
            0 | 1 => "*".to_owned(),
            2 => format!("*/{}", random.u32(1..=(most - least) / 2)),
            _ => (0..random.usize(1..4)).map(|_| entry(random)).collect::<Vec<_>>().join(","),
        }
    });
    fields.join(" ")
}

/// The same expression for `jiff-cron`. That also counts seconds, numbers the days of the week from 1 (Sunday) on, and asks for both
/// days where both are limited; Vixie cron, and so this crate, asks for either. Hence one or two. (A field `*/2` limits the day here; for
/// Vixie cron it begins with `*`, and does not.)
fn for_the_other(text: &str) -> Vec<String> {
    let fields: Vec<&str> = text.split(' ').collect();
    let [minute, hour, day, month, weekday] = fields[..] else { panic!("five fields") };
    let renumbered = |weekday: &str| {
        let numbers = |part: &str| {
            let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
            let range = range
                .split('-')
                .map(|n| n.parse::<u32>().map_or_else(|_| n.to_owned(), |n| (n + 1).to_string()))
                .collect::<Vec<_>>()
                .join("-");
            step.map_or(range.clone(), |step| format!("{range}/{step}"))
        };
        if weekday.starts_with('*') {
            weekday.to_owned()
        } else {
            weekday.split(',').map(numbers).collect::<Vec<_>>().join(",")
        }
    };
    let weekday = renumbered(weekday);
    if day == "*" || weekday == "*" {
        return vec![format!("0 {minute} {hour} {day} {month} {weekday}")];
    }
    vec![format!("0 {minute} {hour} {day} {month} *"), format!("0 {minute} {hour} * {month} {weekday}")]
}

/// Whether the clocks of the place are changed on the day of this second.
fn is_day_of_change(zone: &TimeZone, second: i64) -> bool {
    let at = jiff::Timestamp::from_second(second).unwrap().to_zoned(zone.clone());
    let next = at.start_of_day().unwrap().checked_add(jiff::Span::new().days(1)).unwrap();
    next.duration_since(&at.start_of_day().unwrap()).as_secs() != 24 * 3600
}

/// On a day on which clocks are changed the other implementation has other rules: it leaves out a time that does not come, and a fixed time
/// that comes twice has two ticks. (What ours has then is in the tests above.)
#[test]
fn ten_thousand_expressions_have_the_ticks_that_another_implementation_finds() {
    let mut random = fastrand::Rng::with_seed(2026);
    let (mut compared, mut changed) = (0, 0);
    for n in 0..10_000 {
        let text = expression(&mut random);
        let start = random.i64(1_600_000_000..2_000_000_000);
        let name = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"][n % 4];
        let (ours, zone) = (Ticks::cron(&text, Some(name)), TimeZone::get(name).unwrap());
        let from = jiff::Timestamp::from_second(start).unwrap().to_zoned(zone.clone());
        // It looks no further than a few decades, and this crate no further than the year 5000.
        let theirs = for_the_other(&text).into_iter().filter_map(|text| {
            let schedule: jiff_cron::Schedule = text.parse().unwrap_or_else(|error| panic!("`{text}`: {error}"));
            schedule.after(from.clone()).next().map(|next| next.timestamp().as_second())
        });
        let Some(theirs) = theirs.min() else {
            assert!(ours.is_err(), "`{text}` has ticks");
            continue;
        };
        let ours = ours.unwrap_or_else(|error| panic!("`{text}`: {error}"));
        let tick = ours.next_after(Timestamp::from_millis(u64::try_from(start).unwrap() * 1000)).unwrap();
        let tick = i64::try_from(tick.as_millis() / 1000).unwrap();
        if tick != theirs && is_day_of_change(&zone, tick.min(theirs)) {
            changed += 1;
            continue;
        }
        assert_eq!(tick, theirs, "`{text}` in {name} after {start}");
        compared += 1;
    }
    println!("{compared} expressions alike, {changed} on days on which clocks change");
    assert!(compared > 9000 && changed < 100, "{compared}, {changed}");
}
