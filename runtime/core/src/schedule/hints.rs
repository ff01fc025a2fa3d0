//! What was probably meant by an expression or a time zone that makes no sense.

use jiff::tz;

use crate::units::distance;

/// What people know from other schedulers.
const NICKNAMES: [(&str, &str); 4] = [
    ("@midnight", "`@midnight` is called `@daily`"),
    ("@reboot", "nothing is run because a runner starts: push a job then"),
    ("@minutely", "`@minutely` is `* * * * *`"),
    ("@annually", "`@annually` is called `@yearly`"),
];
const KNOWN_NICKNAMES: &str = "the nicknames are @hourly, @daily, @weekly, @monthly and @yearly";

/// The fields of an expression, with their first and last values.
const FIELDS: [(&str, u8, u8); 5] =
    [("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("day of the week", 0, 7)];

const NAMES: [&str; 19] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", "sun", "mon", "tue", "wed",
    "thu", "fri", "sat",
];

/// Abbreviations that are no names of the database, and a place with its rules. Some are used in several countries.
const ABBREVIATIONS: [(&str, &str); 24] = [
    ("z", "UTC"),
    ("bst", "Europe/London"),
    ("ist", "Asia/Kolkata"),
    ("pst", "America/Los_Angeles"),
    ("pdt", "America/Los_Angeles"),
    ("pt", "America/Los_Angeles"),
    ("mdt", "America/Denver"),
    ("mt", "America/Denver"),
    ("cst", "America/Chicago"),
    ("cdt", "America/Chicago"),
    ("ct", "America/Chicago"),
    ("edt", "America/New_York"),
    ("et", "America/New_York"),
    ("mez", "Europe/Berlin"),
    ("mesz", "Europe/Berlin"),
    ("cest", "Europe/Berlin"),
    ("eest", "Europe/Helsinki"),
    ("west", "Europe/Lisbon"),
    ("msk", "Europe/Moscow"),
    ("jst", "Asia/Tokyo"),
    ("kst", "Asia/Seoul"),
    ("sgt", "Asia/Singapore"),
    ("aest", "Australia/Sydney"),
    ("nzst", "Pacific/Auckland"),
];

/// What is wrong with an expression, where that is something that people know from elsewhere.
pub(super) fn about_cron(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    if text.starts_with("@every") {
        return Some(
            "an interval is no `cron`: write `every`, as in every = \"5m\" (`every_ms` over HTTP), in its place".into(),
        );
    }
    if text.starts_with('@') {
        let known = NICKNAMES.iter().find(|(nickname, _)| *nickname == text);
        return Some(known.map_or(KNOWN_NICKNAMES, |(_, hint)| hint).to_owned());
    }
    if text.starts_with("tz=") || text.starts_with("cron_tz=") {
        return Some("the time zone has a place of its own: write it as `timezone`".into());
    }
    match text.split_whitespace().count() {
        5 => {}
        6 => return Some("it has six fields: there are none for seconds and years".into()),
        fields => return Some(format!("it has {fields} of the five fields")),
    }
    let mut words = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 2);
    if let Some(word) = words.find(|word| !NAMES.contains(word)) {
        let short = word.get(..3).filter(|short| NAMES.contains(short));
        return Some(match short {
            Some(short) => format!("days and months have names of three letters: `{}`", short.to_ascii_uppercase()),
            None => format!("`{word}` is no day and no month"),
        });
    }
    let parts = text
        .split_whitespace()
        .zip(FIELDS)
        .flat_map(|(field, (.., last))| field.split(',').map(move |part| (part, last)));
    let mut steps = parts.filter_map(|(part, last)| part.split_once('/').map(|(from, step)| (from, step, last)));
    steps.find(|(from, ..)| is_number(from)).map(|(from, step, last)| {
        format!("a step follows `*` or a range: `{from}/{step}` is perhaps `{from}-{last}/{step}`, up to the last one")
    })
}

/// Which field is wrong, and why. `problem` says of an expression what is wrong with it.
pub(super) fn about_field(text: &str, problem: impl Fn(&str) -> Option<String>) -> Option<String> {
    FIELDS.iter().zip(text.split_whitespace()).enumerate().find_map(|(place, ((field, first, last), written))| {
        let mut alone = ["*"; FIELDS.len()];
        *alone.get_mut(place)? = written;
        let problem = problem(&alone.join(" "))?;
        Some(format!(
            "`{written}` is no {field}, from {first} to {last}, a range with its smaller end first: {problem}"
        ))
    })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The name of a time zone that was probably meant.
pub fn nearest_timezone(written: &str) -> Option<String> {
    let written = written.trim().to_ascii_lowercase().replace(' ', "_");
    if let Some((_, name)) = ABBREVIATIONS.iter().find(|(short, _)| *short == written) {
        return Some((*name).to_owned());
    }
    let offset = written.trim_start_matches("gmt").trim_start_matches("utc");
    if offset.starts_with(['+', '-']) {
        // Its names are those of POSIX, which counts to the west.
        return Some(match hours_of(offset)? {
            0 => "UTC".into(),
            east @ 1.. => format!("Etc/GMT-{east}"),
            west => format!("Etc/GMT+{}", -west),
        });
    }
    // Names of three letters are near to all others.
    let length = written.chars().count();
    if length < 4 {
        return None;
    }
    let names = || tz::db().available().map(|name| name.as_str().to_owned());
    let place = |name: &str| name.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    if let Some(name) = names().filter(|name| name.contains('/') && place(name) == written).min() {
        return Some(name);
    }
    let allowed = (length / 4).max(1);
    let by_distance = names()
        .filter(|name| name.len() > 3)
        .filter_map(|name| Some((distance(&written, &name.to_ascii_lowercase(), allowed)?, name)));
    by_distance.min().map(|(_, name)| name)
}

/// The whole hours of `+2`, `-05:00` or `+0900`, counted to the east.
fn hours_of(offset: &str) -> Option<i32> {
    let (sign, hours) = offset.split_at_checked(1)?;
    let hours = hours
        .strip_suffix(":00")
        .or_else(|| hours.strip_suffix("00").filter(|hours| hours.len() == 2))
        .unwrap_or(hours);
    let hours = hours.parse::<i32>().ok()? * if sign == "-" { -1 } else { 1 };
    (-12..=14).contains(&hours).then_some(hours)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn abbreviations_and_offsets_lead_to_a_zone_with_these_hours() {
        let cases = [
            ("BST", "Europe/London"),
            ("IST", "Asia/Kolkata"),
            ("PST", "America/Los_Angeles"),
            ("Z", "UTC"),
            ("CEST", "Europe/Berlin"),
            ("GMT+2", "Etc/GMT-2"),
            ("UTC-05:00", "Etc/GMT+5"),
            ("+0900", "Etc/GMT-9"),
            ("+10", "Etc/GMT-10"),
            ("Berlin", "Europe/Berlin"),
            ("new york", "America/New_York"),
            ("Europe/Belrin", "Europe/Berlin"),
        ];
        for (written, meant) in cases {
            assert_eq!(nearest_timezone(written).as_deref(), Some(meant), "{written}");
        }
        for (_, name) in ABBREVIATIONS {
            assert!(TimeZone::get(name).is_ok(), "{name}");
        }
        for nothing in ["XYZ", "AB", "GMT+20", "GMT+2:30", "Mars/Phobos"] {
            assert_eq!(nearest_timezone(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn what_other_schedulers_understand_is_told_apart() {
        let cases = [
            ("@every 5m", "every = \"5m\""),
            ("@midnight", "@daily"),
            ("@reboot", "starts"),
            ("@often", "@hourly, @daily"),
            ("0 3 * * SUNDAY", "`SUN`"),
            ("0 3 * september *", "`SEP`"),
            ("0 3 * * noday", "`noday` is no day"),
            ("0 0 3 * * *", "seconds"),
            ("0 3 *", "3 of the five"),
            ("5/15 * * * *", "`5-59/15`"),
            ("0 1/6 * * *", "`1-23/6`"),
            ("0 0 1,2/3 * *", "`2-31/3`"),
            ("0 0 1 1/2 *", "`1-12/2`"),
            ("CRON_TZ=Europe/Berlin 0 3 * * *", "`timezone`"),
        ];
        for (cron, hint) in cases {
            let said = about_cron(cron).unwrap_or_default();
            assert!(said.contains(hint), "{cron}: {said}");
        }
        assert_eq!(about_cron("99 * * * *"), None);
    }
}
